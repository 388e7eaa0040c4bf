r"""The columns in which data sets keep question, answer and name, and how each writes its answers.

| data set | question | answer |
|---|---|---|
| verl's files, raw DAPO-Math-17k | `prompt`, messages | `reward_model.ground_truth` |
| Skywork-OR1 | `prompt`, messages | the same, a JSON list of texts, of which the first counts |
| OlympiadBench | `question`, after its `context` | `final_answer`, a list |
| DeepScaleR, Polaris, MATH-500, AIME, AMC23, Minerva | `problem` or `question` | `answer`, LaTeX; `033`, `27.0` |
| GSM8K | `question` | `answer`, worked out, then `#### 1,234` |
| DAPO-Math-17K-cleaned | `prompt` | `target` |
| TRL's, DAPO-Math-17k-Processed, math-ai/aime24 | `prompt` or `problem` | `solution`, boxed or bare |

A question is a text or a list of messages. Of several answer columns the first in `ANSWERS` that is
filled counts: MATH-500 has a worked `solution` beside its `answer`.
"""

import json
import re
from typing import Any

from datasets import Dataset

from steer_trl.data.instructions import without_instruction
from steer_trl.exceptions import InvalidValueError
from steer_trl.rewards.answers import bare, boxed, text_of

QUESTIONS = ("prompt", "problem", "question")
ANSWERS = ("reward_model", "final_answer", "answer", "target", "solution")
IDS = ("id", "unique_id", "problem_id", "extra_info")


def answer_columns(features: dict[str, Any]) -> list[str]:
    """Return the columns that hold answers, the most trusted first."""
    reward_model = features.get("reward_model")
    has_ground_truth = isinstance(reward_model, dict) and "ground_truth" in reward_model
    return [name for name in ANSWERS if name in features and (name != "reward_model" or has_ground_truth)]


def read_row(row: dict[str, Any], index: int, answers: list[str], source: str) -> dict[str, Any]:
    """Return `messages` before the problem, the bare `problem`, the boxed `solution` or `None`, `source`, `id`."""
    messages, problem = read_question(row)
    solution = next(filter(None, (read_answer(row[name]) for name in answers)), None)
    return {"messages": messages, "problem": problem, "solution": solution, "source": source, "id": _id(row, index)}


def read_question(row: dict[str, Any]) -> tuple[list[dict[str, str]], str]:
    """Return the messages before the problem and the problem, empty if a conversation does not end with a user's."""
    question = next((row[name] for name in QUESTIONS if row.get(name)), None)
    messages = [{"role": "user", "content": question}] if isinstance(question, str) else question or []
    try:
        parts = [(message["role"], message["content"]) for message in messages]
        texts = [{"role": role, "content": text_of([{"content": content}])} for role, content in parts]
    except (TypeError, KeyError):
        kind = "a text or a list of messages, each with 'role' and 'content'"
        raise InvalidValueError(f"a question must be {kind}, got {str(question)[:100]}.") from None
    if not texts or texts[-1]["role"] != "user":
        return [], ""
    *before, last = texts
    problem, context = without_instruction(last["content"]), row.get("context")
    return before, f"{context}\n\n{problem}" if problem and isinstance(context, str) and context.strip() else problem


def check_prompts(name: str, rows: Dataset) -> None:
    """Refuse `rows` of which a `prompt` cannot be asked, by their `name`."""
    for number, row in enumerate(rows.select_columns("prompt")):
        try:
            if not row["prompt"]:
                raise InvalidValueError("there is no prompt. Correct or remove it.")
            read_question(row)
        except InvalidValueError as error:
            raise InvalidValueError(f"{name}, row {number}: {error}") from error


def read_answer(answer: Any) -> str | None:
    r"""Return an answer in `\boxed{}`, an integer in its plainest form; `None` if there is none."""
    if isinstance(answer, dict):
        answer = _first_of_a_list_of_texts(answer.get("ground_truth"))
    if isinstance(answer, list):
        answer = ", ".join(bare(str(part)) for part in answer)
    if answer is None or not str(answer).strip():
        return None
    answer = bare(str(answer).rsplit("####", 1)[-1])
    if re.fullmatch(r"-?\d{1,3}(,\d{3})+", answer):
        answer = answer.replace(",", "")
    if integer := re.fullmatch(r"(-?)0*(\d+?)(\.0+)?", answer):
        answer = integer[1] + integer[2]
    if measure := re.fullmatch(r"(-?[\d.,/]+)((?: +[A-Za-z]{3,})+)", answer):
        answer = rf"{measure[1]}\text{{{measure[2]}}}"  # math-verify drops a unit that is marked as text
    return boxed(answer)


def _first_of_a_list_of_texts(answer: Any) -> Any:
    """The first text of a list that is written as JSON, which is how Skywork-OR1 keeps answers; else the answer."""
    try:
        found = json.loads(answer) if isinstance(answer, str) and answer.startswith('["') else None
    except ValueError:
        return answer
    return found[0] if isinstance(found, list) and found and isinstance(found[0], str) else answer


def _id(row: dict[str, Any], index: int) -> str:
    names = [row[name] for name in IDS if row.get(name) is not None]
    name = names[0].get("index") if names and isinstance(names[0], dict) else names[0] if names else None
    return str(index if name is None else name)
