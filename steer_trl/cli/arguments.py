"""The settings of `steer-trl train` for the data set, the reward and the benchmarks.

The trainer's settings are in `SteerGRPOConfig`.
"""

from dataclasses import dataclass
from typing import Any

from datasets import Dataset, concatenate_datasets

from steer_trl.cli.rewards import MATH, load_rewards
from steer_trl.data import load_math_dataset
from steer_trl.data.instructions import INSTRUCTIONS, PAPERS_WORDING, add_instruction
from steer_trl.data.raw_rows import read_rows
from steer_trl.data.schemas import check_prompts
from steer_trl.evaluation import BenchmarkEvaluation, Sampling, load_benchmarks, load_samplings
from steer_trl.options.base import list_option, option
from steer_trl.rewards import MathReward
from steer_trl.support.exceptions import InvalidValueError
from steer_trl.support.validation import did_you_mean

# Names of settings whose strings may appear in a model card. `support/redact.py` leaves out all other strings.
PUBLIC_TEXTS = {
    *("dataset_name", "dataset_config", "dataset_split", "prompt_column", "answer_column", "answer_format"),
    # Users of the model need to know how the problems were worded in training.
    *("instruction", "eval_instruction"),
    *("reward_funcs", "tools", "eval_benchmarks", "eval_samplings", "eval_judge"),
    *("model_name_or_path", "model_revision"),
    *("dtype", "attn_implementation", "lora_target_modules", "lora_task_type", "bnb_4bit_quant_type"),
}


@dataclass
class MathArguments:
    """Settings of the data set, the reward and the benchmarks."""

    dataset_name: list[str] | None = option(
        None,
        "Short name such as dapo-math-17k, Hub name, or a .parquet, .json, .jsonl or .csv file. Several are mixed, "
        "without copies.",
    )
    dataset_config: str | None = option(None, "Configuration of a Hub data set with several.")
    dataset_split: str | None = option(None, "Split to train on; by default its usual one.")
    prompt_column: str | None = option(None, "Column of the problems; by default found by its name.")
    answer_column: str | None = option(None, "Column of the answers; by default found by its name.")
    limit: int | None = option(None, "Rows to read of each data set, from the first; by default all.")
    max_prompt_length: int | None = option(
        None, "Tokens of a prompt, chat template included, above which it is dropped; by default none is."
    )
    instruction: str | None = option(None, "A custom wording around each problem, with {problem} once.")
    answer_format: str = option("boxed", "boxed, answer_line for a last line 'Answer: ...', or either.")
    reward_funcs: list[str] = list_option(
        [MATH],
        "'math', the check of the boxed answer, or import paths of reward functions, such as my.module.f. Without "
        "'math' the data set is taken as it is: every column goes to the functions.",
    )
    tools: list[str] | None = option(
        None,
        "Import paths of functions that the model may call, such as my_sandbox.run_python, with typed arguments and a "
        "docstring. They run in this process: what runs a model's code needs a container.",
    )
    reward_incorrect: float = option(-1.0, "Reward of an incorrect answer; a correct one gets 1.")
    reward_timeout: float = option(5.0, "Seconds of CPU time that scoring one answer may take.")
    dry_run: bool = option(
        False,
        "Generate one rollout, compute its gradient, print a table of what the run would be, and end. Nothing is "
        "updated or written.",
    )
    eval_benchmarks: list[str] | None = option(
        None, "Measured at each evaluation: NAME, NAME@SAMPLES, NAME=FILE or NAME=FILE@SAMPLES."
    )
    eval_instruction: str | None = option(
        None,
        "Wording around each problem of the benchmarks, with {problem} once; or papers, how the papers' test files "
        "ask, judged by a box or else a last line 'Answer: ...'. By default that of boxed answers.",
    )
    eval_samplings: list[str] | None = option(
        None,
        "Samplings of each evaluation: papers, greedy, t1 (temperature 1), t0.5 (any other). By default the papers', "
        "temperature 1 and top-p 0.7.",
    )
    eval_judge: str = option(
        MATH,
        "The judge of these benchmarks: math, the check of the boxed answer, or the import path of a reward "
        "function. A completion with a reward above 0 is correct. The function gets every column of the benchmark.",
    )

    @property
    def asks_for_math(self) -> bool:
        """Whether `math` is one of the rewards. This reward needs a data set with problems and answers."""
        return MATH in self.reward_funcs

    @property
    def wording(self) -> str | None:
        """The wording around each problem, or `None` if the prompts of the data set are used unchanged."""
        return self.instruction or (INSTRUCTIONS[self.answer_format] if self.asks_for_math else None)

    def load_rewards(self) -> list[Any]:
        """Return the reward functions."""
        math = {
            "incorrect": self.reward_incorrect,
            "timeout": self.reward_timeout,
            "answer_format": self.answer_format,
        }
        return load_rewards(self.reward_funcs, math)

    def load_evaluation(self, max_tokens: int) -> BenchmarkEvaluation | None:
        """Return the evaluation that the trainer runs, or `None` if no benchmarks are set.

        Completions are cut off after `max_tokens` tokens.
        """
        if not self.eval_benchmarks:
            return None
        sampling: Sampling | dict[str, Sampling] = Sampling(max_tokens=max_tokens)
        if self.eval_samplings:
            sampling = load_samplings(self.eval_samplings, max_tokens=max_tokens)
        if self.eval_judge == MATH:
            answer_format = "either" if self.eval_instruction == PAPERS_WORDING else "boxed"
            benchmarks = load_benchmarks(self.eval_benchmarks, answer_format, self.eval_instruction)
            return BenchmarkEvaluation(benchmarks, sampling, MathReward(answer_format=answer_format))
        (judge,) = load_rewards([self.eval_judge], {}, field="eval_judge")
        return BenchmarkEvaluation(load_benchmarks(self.eval_benchmarks, as_they_are=True), sampling, judge)

    def load_dataset(self) -> Dataset:
        """Return the data set to train on."""
        assert self.dataset_name is not None
        if self.asks_for_math:
            return load_math_dataset(
                self.dataset_name,
                self.dataset_split,
                self.dataset_config,
                answer_format=self.answer_format,
                instruction=self.instruction,
                prompt_column=self.prompt_column,
                answer_column=self.answer_column,
                limit=self.limit,
            )
        names = self.dataset_name
        read = [self._read_unchanged(name, read_rows(name, self.dataset_split, self.dataset_config)) for name in names]
        return read[0] if len(read) == 1 else concatenate_datasets(read)

    def _read_unchanged(self, name: str, rows: Dataset) -> Dataset:
        """Return the rows of a data set with all columns. Only the column of the prompts is changed.

        That column is renamed to `prompt`. If an instruction is set, it is put around each problem. If the setting
        `limit` is set, only that many rows are returned.
        """
        column = self.prompt_column or "prompt"
        if column not in rows.column_names:
            raise InvalidValueError(
                f"prompt_column={column!r} is no column of data set {name!r}."
                f"{did_you_mean(column, rows.column_names)} Its columns are {sorted(rows.column_names)}. Your "
                "own reward functions get the rows unchanged: name the column of the prompt with --prompt_column."
            )
        rows = rows if self.limit is None else rows.select(range(min(self.limit, len(rows))))
        rows = rows if column == "prompt" else rows.rename_column(column, "prompt")
        check_prompts(f"data set {name!r}", rows)
        if self.instruction is None:
            return rows
        known = {"instruction": self.instruction, "name": name}
        return rows.map(_write_prompt, with_indices=True, fn_kwargs=known, desc="Writing prompts")


def _write_prompt(row: dict[str, Any], number: int, instruction: str, name: str) -> dict[str, Any]:
    """Return the messages of a prompt with the instruction around its problem.

    The problem is the prompt itself if that is a text, and otherwise the last message of the user. `number` is the
    row's number in the data set `name`.
    """
    prompt = row["prompt"]
    messages = [{"role": "user", "content": prompt}] if isinstance(prompt, str) else [dict(part) for part in prompt]
    of_the_user = [message for message in messages if message["role"] == "user"]
    if not of_the_user or not isinstance(of_the_user[-1]["content"], str):
        fault = "the content of its last user message is not a text" if of_the_user else "it has no user message"
        raise InvalidValueError(
            f"instruction cannot be inserted into data set {name!r}, row {number}, because {fault}, got "
            f"{str(prompt)[:100]}. Correct the row, or leave --instruction out and write it into the data set."
        )
    of_the_user[-1]["content"] = add_instruction(of_the_user[-1]["content"], instruction)
    return {"prompt": messages}
