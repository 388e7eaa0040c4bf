"""Defines the settings of `steer-trl eval`, and checks their values and combinations."""

import json
from collections.abc import Collection
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from steer_trl.cli.checks import check_ignored
from steer_trl.cli.rewards import MATH, load_rewards
from steer_trl.data.instructions import PAPERS_WORDING
from steer_trl.data.loader import argument_complaints
from steer_trl.evaluation.backends import has_vllm
from steer_trl.evaluation.best_temperature import find_folder_complaints
from steer_trl.evaluation.records import COMPLETIONS, SETTINGS, SUMMARY
from steer_trl.evaluation.sampling import Sampling, load_samplings
from steer_trl.evaluation.specifications import PAPER_SAMPLES, parse_well_formed, wording_complaints
from steer_trl.options.base import list_option, option
from steer_trl.rewards import MathReward
from steer_trl.support.validation import check_choice, check_interval, did_you_mean, refuse

BATCH_SIZES = {"transformers": 32, "vllm": 4096}
OF_VLLM = ("tensor_parallel_size", "max_model_length", "gpu_memory_utilization")


@dataclass
class EvalArguments:
    """The settings of an evaluation. The defaults follow the STEER paper."""

    model_name_or_path: str = field(metadata={"help": "Folder of a saved model, or its name on the Hub."})
    output_dir: str = field(metadata={"help": "Folder for the results; an evaluation that it contains is resumed."})
    benchmarks: list[str] = list_option(
        list(PAPER_SAMPLES), "NAME, NAME@SAMPLES, NAME=FILE or NAME=FILE@SAMPLES each; --list lists the names."
    )
    limit: int | None = option(None, "Problems of each benchmark, from the first; by default all.")
    model_revision: str | None = option(None, "Commit of the model on the Hub.")
    dtype: str = option("auto", "auto, bfloat16, float16 or float32.")
    backend: str = option("auto", "vllm, transformers, or auto: vLLM where it is installed.")
    temperature: float = option(1.0, "Sampling temperature; 0 is greedy, one sample per problem.")
    top_p: float = option(0.7, "Share of the probability mass that is drawn from.")
    top_k: int = option(0, "Most probable tokens that are drawn from; 0 for all.")
    samplings: list[str] | None = option(
        None,
        "Several samplings, instead of temperature, top_p and top_k: papers, greedy, t1 (temperature 1), t0.5 (any "
        "other). Each is written to a folder of its name.",
    )
    temperatures: list[float] | None = option(
        None,
        "A sweep for steer-trl compare --frontier: .25 1 stands for the samplings t0.25 and t1, with a top_p of 1.",
    )
    max_tokens: int = option(3072, "Tokens at which a completion is cut off.")
    seed: int = option(0, "Seed of the samples.")
    batch_size: int | None = option(None, "Completions drawn at once; 32 with Transformers, 4096 with vLLM.")
    answer_format: str = option("boxed", "boxed, answer_line for a last line 'Answer: ...', or either.")
    instruction: str | None = option(
        None,
        "A custom wording, with {problem} once; or papers, how the papers' test files ask, with --answer_format "
        "either.",
    )
    chat_template_kwargs: dict | str | None = option(
        None,
        "Arguments of the chat template, as in training, such as '{\"enable_thinking\": false}'.",
    )
    judge: str = option(
        MATH,
        "math, the check of the boxed answer, or the import path of a reward function, such as my.module.f. A "
        "completion with a reward above 0 is correct. The function gets every column of the benchmark.",
    )
    timeout: float = option(5.0, "Seconds of CPU time that judging one answer may take.")
    tensor_parallel_size: int = option(1, "GPUs that vLLM splits the model over.")
    gpu_memory_utilization: float = option(0.9, "Share of a GPU's memory that vLLM takes.")
    max_model_length: int | None = option(None, "Prompt and completion, tokens, for vLLM.")
    save_temperature: str | None = option(
        None,
        "Name of a benchmark. Write the temperature that is best for one answer to its problems into the model's "
        "generation_config.json, and with that for several answers into its card. Only with temperatures.",
    )
    overwrite: bool = option(False, "Start over in a folder that contains an evaluation.")

    def __post_init__(self) -> None:
        complaints = self._read_template()
        refuse(complaints, "steer-trl eval")
        for temperature in self.temperatures or []:
            reason = "greedy, 0, has a name of its own, --samplings greedy"
            complaints += check_interval("temperatures", temperature, "[0.001, 1000]", reason)
            self.samplings = [*(self.samplings or []), f"t{float(temperature)!r}".removesuffix(".0")]
        refuse(complaints, "steer-trl eval")
        if self.backend == "auto":
            self.backend = "vllm" if has_vllm() else "transformers"
        if self.batch_size is None:
            self.batch_size = BATCH_SIZES.get(self.backend, 1)
        complaints += check_choice("backend", self.backend, BATCH_SIZES)
        complaints += check_choice("dtype", self.dtype, ("auto", "bfloat16", "float16", "float32"))
        complaints += check_interval("batch_size", self.batch_size, "[1, inf)")
        instruction = None if self.instruction == PAPERS_WORDING else self.instruction
        complaints += argument_complaints(self.answer_format, instruction, self.limit)
        if self.instruction == PAPERS_WORDING and self.answer_format != "either":
            complaints.append(
                f"answer_format must be 'either' with instruction='papers', which asks in two ways, got "
                f"{self.answer_format!r}. Add --answer_format either."
            )
        if self.judge == MATH:
            complaints += wording_complaints(self.benchmarks, self.instruction)
        complaints += self.find_ignored()
        complaints += check_interval("tensor_parallel_size", self.tensor_parallel_size, "[1, inf)")
        complaints += check_interval("gpu_memory_utilization", self.gpu_memory_utilization, "(0, 1]")
        if self.max_model_length is not None:
            complaints += check_interval("max_model_length", self.max_model_length, "[1, inf)")
        if self.save_temperature is not None:
            complaints += self._find_temperature_complaints()
        refuse(complaints + self._find_lost_files(), "steer-trl eval")

    def find_ignored(self, typed: Collection[str] = ()) -> list[str]:
        """Return complaints about settings that have no effect because of another one.

        A setting is looked at if it differs from its default, or if it is among those that were `typed`.
        """
        complaints = []
        if self.backend == "transformers":
            complaints += check_ignored(self, OF_VLLM, "backend='transformers'", typed)
        if self.samplings:
            complaints += check_ignored(self, ("temperature", "top_p", "top_k"), "samplings", typed)
        if self.judge != MATH:
            names = ("instruction", "answer_format", "timeout")
            complaints += check_ignored(self, names, f"judge={self.judge!r}", typed)
        return complaints

    def _find_temperature_complaints(self) -> list[str]:
        """Return complaints if the best temperature cannot be chosen, or not be written into the model."""
        complaints = find_folder_complaints(self.model_name_or_path)
        if len(self.sweep) < 2:
            complaints.append(
                "save_temperature needs a sweep of two or more temperatures. Add --temperatures .25 .5 .75 1 1.25."
            )
        names = [one.name for one in parse_well_formed(self.benchmarks)]
        if self.save_temperature not in names:
            complaints.append(
                f"save_temperature must be the name of one of the benchmarks, {', '.join(map(repr, names))}, got "
                f"{self.save_temperature!r}.{did_you_mean(self.save_temperature, names)}"
            )
        return complaints

    def _find_lost_files(self) -> list[str]:
        """Return complaints about benchmarks whose files the evaluation would overwrite."""
        folders = [Path(self.output_dir, name).resolve() for name in self.samplings_by_name]
        written = [folder / name for folder in folders for name in (SETTINGS, COMPLETIONS, SUMMARY)]
        return [
            f"output_dir={self.output_dir!r} must not hold the benchmark {one.source!r} under this name, because the "
            "evaluation would overwrite it. Give another output_dir."
            for one in parse_well_formed(self.benchmarks)
            if Path(one.source).expanduser().resolve() in written
        ]

    def _read_template(self) -> list[str]:
        """Parse the arguments of the chat template, and return complaints about them."""
        arguments = self.chat_template_kwargs or {}
        try:
            self.chat_template_kwargs = json.loads(arguments) if isinstance(arguments, str) else arguments
        except json.JSONDecodeError:
            self.chat_template_kwargs = None
        reserved = ("tokenize", "add_generation_prompt", "return_dict")
        if isinstance(self.chat_template_kwargs, dict) and not set(reserved) & self.chat_template_kwargs.keys():
            return []
        return [
            "chat_template_kwargs must be a JSON object such as '{\"enable_thinking\": false}' without any of "
            f"{', '.join(reserved)}, got {arguments!r}."
        ]

    @cached_property
    def samplings_by_name(self) -> dict[str, Sampling]:
        """Maps the name of each sampling to its settings.

        If `samplings` is not set, there is one sampling, whose name is empty.
        """
        if self.samplings:
            return load_samplings(self.samplings, max_tokens=self.max_tokens, seed=self.seed)
        return {"": Sampling(self.temperature, self.top_p, self.top_k, self.max_tokens, self.seed)}

    @cached_property
    def sweep(self) -> dict[float, str]:
        """Maps each temperature of a sweep to the name of its sampling, the lowest first."""
        temperatures = {
            sampling.temperature: name
            for name, sampling in self.samplings_by_name.items()
            if name.startswith("t") and not sampling.is_greedy
        }
        return dict(sorted(temperatures.items()))

    def load_judge(self) -> Any:
        """Return the reward that decides whether a completion is correct."""
        if self.judge == MATH:
            return MathReward(timeout=self.timeout, answer_format=self.answer_format)
        (function,) = load_rewards([self.judge], {}, field="judge")
        return function
