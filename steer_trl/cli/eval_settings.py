"""Collects the contents of `settings.json`: everything that completions and verdicts depend on."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from steer_trl.cli.eval_arguments import EvalArguments
from steer_trl.cli.rewards import MATH
from steer_trl.evaluation.backends import TransformersGenerator, VLLMGenerator, prompt_token_ids
from steer_trl.evaluation.benchmarks import Benchmark
from steer_trl.evaluation.questions import describe_benchmarks, digest

GIVEN = (
    *("model_name_or_path", "model_revision", "dtype", "backend", "batch_size", "answer_format", "timeout"),
    "max_model_length",
)
"""Arguments that are written to `settings.json` unchanged."""


def eval_settings(
    args: EvalArguments,
    benchmarks: Mapping[str, Sequence[Benchmark]],
    generator: TransformersGenerator | VLLMGenerator,
) -> dict[str, dict[str, Any]]:
    """Return a mapping from the name of each sampling to the contents of its `settings.json`.

    `benchmarks` maps the name of each sampling to its benchmarks. The entry `prompt_token_ids` is a digest of the
    prompts' tokens, so it changes with the chat template and the tokenizer.
    """
    loaded = next(iter(benchmarks.values()))
    prompts = [prompt for benchmark in loaded for prompt in benchmark.dataset["prompt"]]
    described = describe_benchmarks(loaded)
    shared = {name: getattr(args, name) for name in GIVEN} | {
        "model_commit": generator.commit,
        "model_files": digest(_weights(args.model_name_or_path)),
        "prompt_token_ids": digest(prompt_token_ids(generator.tokenizer, prompts, **generator.chat_template_kwargs)),
        "eos_token_ids": sorted(set(generator.eos_token_ids)),
    }
    shared |= {} if args.judge == MATH else {"judge": args.judge}
    template = args.chat_template_kwargs
    shared |= {"chat_template_kwargs": template} if template else {}
    return {
        name: shared
        | {"sampling": vars(args.samplings_by_name[name])}
        | {
            "benchmarks": {
                benchmark.name: described[benchmark.name] | {"samples": benchmark.num_samples} for benchmark in drawn
            }
        }
        for name, drawn in benchmarks.items()
    }


def _weights(name: str) -> list[tuple[str, int, int]]:
    """Return the names, sizes and modification times of the weight files in a folder.

    They change when the model is trained again, so the new model is not mistaken for the old one.
    """
    files = sorted(Path(name).glob("*.safetensors")) + sorted(Path(name).glob("*.bin"))
    return [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files]
