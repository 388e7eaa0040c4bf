"""What completions of an evaluation and their verdicts depend on, this machine apart: for `settings.json`."""

import hashlib
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from steer_trl.evaluation.backends import TransformersGenerator, VLLMGenerator, prompt_token_ids
from steer_trl.evaluation.benchmarks import Benchmark
from steer_trl.evaluation.sampling import Sampling

GIVEN = (
    *("model_name_or_path", "model_revision", "dtype", "backend", "batch_size", "answer_format", "timeout"),
    "max_model_length",
)
"""Arguments that are written down as they are."""


class EvalSettings:
    """The settings of an evaluation in several ways to draw; what they share is made once.

    Args:
        given (`Mapping`): the arguments of the command.
        benchmarks (`Sequence[Benchmark]`): as they were loaded.
        generator: draws the completions. `prompt_token_ids` is a digest of what its model reads: another chat template
            or tokenizer gives another one.
    """

    def __init__(
        self,
        given: Mapping[str, Any],
        benchmarks: Sequence[Benchmark],
        generator: TransformersGenerator | VLLMGenerator,
    ) -> None:
        prompts = [prompt for benchmark in benchmarks for prompt in benchmark.dataset["prompt"]]
        self._rows = {benchmark.name: _digest(benchmark.dataset.to_list()) for benchmark in benchmarks}
        self._shared = {name: given[name] for name in GIVEN} | {
            "model_commit": generator.commit,
            "model_files": _digest(_weights(given["model_name_or_path"])),
            "prompt_token_ids": _digest(prompt_token_ids(generator.tokenizer, prompts)),
            "eos_token_ids": sorted(set(generator.eos_token_ids)),
        }

    def of(self, sampling: Sampling, benchmarks: Sequence[Benchmark], judge: str | None) -> dict[str, Any]:
        """Return those of one way to draw, with its numbers of samples; `judge` is `None` for the math judge."""
        named = {} if judge is None else {"judge": judge}
        counts = {one.name: {"samples": one.num_samples, "rows": self._rows[one.name]} for one in benchmarks}
        return self._shared | named | {"sampling": vars(sampling), "benchmarks": counts}


def _weights(name: str) -> list[tuple[str, int, int]]:
    """Names, sizes and times of a folder's weights: a checkpoint trained on is another model under the old name."""
    files = sorted(Path(name).glob("*.safetensors")) + sorted(Path(name).glob("*.bin"))
    return [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files]


def _digest(value: Any) -> str:
    return hashlib.sha256(repr(value).encode(errors="surrogatepass")).hexdigest()[:16]
