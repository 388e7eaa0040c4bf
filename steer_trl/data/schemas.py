r"""Reads questions, answers and ids from the columns in which common data sets store them.

| data set | question | answer |
|---|---|---|
| verl's files, raw DAPO-Math-17k, Eurus-2-RL-Data | `prompt`, messages | `reward_model.ground_truth` |
| Skywork-OR1 | `prompt`, messages | `reward_model.ground_truth`, a JSON list of strings; the first is used |
| Search-R1 | `prompt`, messages | `reward_model.ground_truth`, `{"target": [...]}` |
| SYNTHETIC-1, INTELLECT-2 | `prompt` | `verification_info`, JSON with `ground_truth` |
| OlympiadBench | `question`, after its `context` | `final_answer`, a list |
| DeepScaleR, Polaris, MATH-500, AIME, AMC23, Minerva | `problem` or `question` | `answer`, LaTeX; `033`, `27.0` |
| GSM8K | `question` | `answer`, a worked solution, then `#### 1,234` |
| DAPO-Math-17K-cleaned | `prompt` | `target` |
| OpenMathReasoning, NeMo Skills | `problem` | `expected_answer`, `golden_answer` |
| SimpleRL-Zoo, AllenAI's RLVR sets | `question`, `messages` | `gt_answer`, `ground_truth` |
| TRL's, DAPO-Math-17k-Processed, math-ai/aime24 | `prompt` or `problem` | `solution`, boxed or bare |

A question is a string, a list of messages, or a list of messages as JSON. If several answer columns are filled, the
first in the order of `ANSWERS` is used. MATH-500, for example, has a worked `solution` in addition to its `answer`.
"""

import json
import re
from typing import Any

from datasets import Dataset

from steer_trl.data.instructions import strip_instruction
from steer_trl.data.templates import read_template
from steer_trl.rewards.answers import bare, boxed, has_box, text_of
from steer_trl.support.exceptions import InvalidValueError

QUESTIONS: tuple[str, ...] = ("prompt", "problem", "question", "Problem", "query", "messages")
ANSWERS: tuple[str, ...] = (
    "reward_model",
    "verification_info",
    "final_answer",
    "expected_answer",
    "golden_answer",
    "gt_answer",
    "ground_truth",
    "answer",
    "Answer",
    "target",
    "solution",
)
IDS = ("id", "unique_id", "problem_id", "extra_info")
GOLD_KEYS = ("ground_truth", "target", "answer", "final_answer", "solution", "value")
# Prefixes of the names of columns that hold pictures, films or sound.
MEDIA = ("image", "img", "decoded_image", "pixel_values", "video", "audio")

NOT_ASKED = "whose conversation does not end with the user"
WITH_IMAGE = "with an image"


def answer_columns(features: dict[str, Any]) -> list[str]:
    """Return the columns that hold answers, the most trusted first."""
    reward_model = features.get("reward_model")
    has_ground_truth = isinstance(reward_model, dict) and "ground_truth" in reward_model
    return [name for name in ANSWERS if name in features and (name != "reward_model" or has_ground_truth)]


def read_row(row: dict[str, Any], index: int, answers: list[str], source: str, versions: list[str]) -> dict[str, Any]:
    """Return the columns `messages`, `problem`, `solution`, `source`, `id` and `fault` of a row.

    `messages` holds the messages before the problem, and `problem` the problem without its instruction. `solution` is
    the boxed answer, or `None` if the row has no answer. `fault` is the reason why the problem cannot be asked, or
    `None`. `versions` are not read: they make `datasets` forget the rows that other versions have read.
    """
    messages, problem, fault = _read_question(row)
    if "<image>" in problem or any(row[name] for name in row if name.startswith(MEDIA)):
        fault = WITH_IMAGE
    solution = next(filter(None, (read_answer(row[name]) for name in answers)), None)
    columns = {"messages": messages, "problem": problem, "solution": solution, "source": source}
    return columns | {"id": _id(row, index), "fault": fault}


def read_question(row: dict[str, Any]) -> tuple[list[dict[str, str]], str]:
    """Return the messages before the problem, and the problem.

    Both are empty if the conversation does not end with a user's message.
    """
    return _read_question(row)[:2]


def _read_question(row: dict[str, Any]) -> tuple[list[dict[str, str]], str, str | None]:
    question = next((row[name] for name in QUESTIONS if row.get(name)), None)
    if isinstance(question, str):
        question = _parse_json(question, "[{") or read_template(question)
    messages = [{"role": "user", "content": question}] if isinstance(question, str) else question or []
    try:
        parts = [(message["role"], message["content"]) for message in messages]
        texts = [{"role": role, "content": text_of([{"content": content}])} for role, content in parts]
    except (TypeError, KeyError):
        kind = "a text or a list of messages, each with 'role' and 'content'"
        raise InvalidValueError(f"a question must be {kind}, got {str(question)[:100]}.") from None
    if len(texts) == 1 and isinstance(templated := read_template(texts[0]["content"]), list):
        texts = templated
    if not texts or texts[-1]["role"] != "user":
        return [], "", NOT_ASKED if texts else None
    *before, last = texts
    problem = strip_instruction(last["content"])
    context = row.get("context")
    if problem and isinstance(context, str) and context.strip():
        problem = f"{context}\n\n{problem}"
    return before, problem, None


def check_prompts(name: str, rows: Dataset) -> None:
    """Raise `InvalidValueError` for the first row whose `prompt` is missing or malformed.

    `name` is the name of the data set.
    """
    for number, row in enumerate(rows.select_columns("prompt")):
        try:
            if not row["prompt"]:
                raise InvalidValueError("there is no prompt. Correct or remove it.")
            read_question(row)
        except InvalidValueError as error:
            raise InvalidValueError(f"{name}, row {number}: {error}") from error


def read_answer(answer: Any) -> str | None:
    r"""Return the answer wrapped in `\boxed{}`, or `None` if there is no answer.

    Leading zeros, thousands separators and trailing `.0` are removed from integers: `033`, `27.0` and `1,234` become
    `33`, `27` and `1234`.
    """
    answer = _unwrap(answer)
    if isinstance(answer, list):
        answer = ", ".join(bare(str(part)) for part in answer)
    if answer is None or not str(answer).strip():
        return None
    text = re.sub(r"\\boxed\s+([^\s{}$]+)", r"\\boxed{\1}", str(answer))
    answer = bare(text if has_box(text) else text.rsplit("####", 1)[-1])
    if re.fullmatch(r"-?\d{1,3}(,\d{3})+", answer):
        answer = answer.replace(",", "")
    if integer := re.fullmatch(r"(-?)(\d++)(\.0++)?", answer):
        answer = integer[1] + (integer[2].lstrip("0") or "0")
    if measure := re.fullmatch(r"(-?[\d.,/]+)((?: +[A-Za-z]{3,})+)", answer):
        # `\text` keeps the words from being read as products.
        answer = rf"{measure[1]}\text{{{measure[2]}}}"
    return boxed(answer)


def _unwrap(answer: Any) -> Any:
    """Return the answer inside a dictionary, a list of dictionaries, or the JSON of either."""
    if isinstance(answer, str):
        answer = _parse_json(answer, "{[", default=answer)
        if isinstance(answer, list) and answer and isinstance(answer[0], str):
            return answer[0]
    if isinstance(answer, list) and len(answer) == 1 and isinstance(answer[0], (dict, list)):
        answer = answer[0]
    if isinstance(answer, dict) and (key := next((key for key in GOLD_KEYS if answer.get(key) is not None), None)):
        inner = answer[key]
        return _unwrap(inner[0] if key == "target" and isinstance(inner, list) and inner else inner)
    return json.dumps(answer) if isinstance(answer, dict) else answer


def _parse_json(text: str, beginning: str, default: Any = None) -> Any:
    """Parse a JSON object, or a JSON list of strings or objects. Return `default` for any other text.

    The text must begin with one of the characters in `beginning`.
    """
    if not text.lstrip().startswith(tuple(beginning)):
        return default
    try:
        parsed = json.loads(text)
    except ValueError:
        return default
    is_texts = isinstance(parsed, list) and bool(parsed) and isinstance(parsed[0], (str, dict))
    return parsed if is_texts or isinstance(parsed, dict) else default


def _id(row: dict[str, Any], index: int) -> str:
    names = [row[name] for name in IDS if row.get(name) is not None]
    name = names[0].get("index") if names and isinstance(names[0], dict) else names[0] if names else None
    return str(index if name is None else name)
