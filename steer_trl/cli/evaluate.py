"""`steer-trl eval`: evaluates a saved model on the papers' benchmarks, or on benchmarks of your own.

    steer-trl eval --model_name_or_path runs/model --output_dir runs/eval --benchmarks aime24 math500@4

The command writes `summary.json` and `completions.jsonl`, and prints a table. If it was interrupted, the same command
resumes the evaluation. On several GPUs, use `--tensor_parallel_size` with vLLM. With Transformers, use
`accelerate launch -m steer_trl.cli eval ...`, where each process draws a share of the completions.
"""

from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from accelerate.utils import set_seed

from steer_trl.cli.eval_arguments import EvalArguments
from steer_trl.cli.eval_settings import eval_settings
from steer_trl.cli.name_checks import split_words
from steer_trl.cli.parser import RecipeParser, print_help
from steer_trl.cli.rewards import MATH
from steer_trl.data.sources import BENCHMARKS
from steer_trl.evaluation.backends import TransformersGenerator, VLLMGenerator
from steer_trl.evaluation.benchmarks import limit_greedy_samples, load_benchmarks
from steer_trl.evaluation.best_temperature import find_best_temperatures, write_card, write_generation_config
from steer_trl.evaluation.folders import Evaluation
from steer_trl.evaluation.loop import evaluate
from steer_trl.evaluation.records import Records, refuse_other_settings
from steer_trl.evaluation.specifications import PAPER_SAMPLES
from steer_trl.evaluation.summary import summarize, table
from steer_trl.support.exceptions import InvalidValueError
from steer_trl.support.system import leave_group
from steer_trl.support.validation import refuse

USAGE = """steer-trl eval --model_name_or_path MODEL --output_dir FOLDER [--benchmarks NAME@SAMPLES] [--SETTING VALUE]

  steer-trl eval --model_name_or_path runs/model --output_dir runs/eval --benchmarks aime24 math500@4

  --config  a recipe: a YAML file of settings; the command line overrides it
  --list    list the names of benchmarks"""


def main(arguments: list[str]) -> None:
    """Parse the arguments and run the evaluation, or print the help or the list of benchmarks."""
    if {"-h", "--help", "--help-all"} & set(arguments):
        print_help(RecipeParser((EvalArguments,), usage=USAGE))
        return
    if "--list" in arguments:
        print(list_benchmarks())  # noqa: T201
        return
    (args,) = RecipeParser((EvalArguments,), prog="steer-trl eval").parse_args_and_config(arguments)
    typed, _ = split_words(arguments)
    refuse(args.find_ignored(typed), "steer-trl eval")
    run(args)


def list_benchmarks() -> str:
    """Return a text that lists the benchmarks, each with its source and with the papers' number of samples."""
    rows = [f"  {f'{name}@{PAPER_SAMPLES.get(name, 1)}':<18}{source.path}" for name, source in BENCHMARKS.items()]
    return "\n".join(["Names for --benchmarks, with the papers' numbers of samples, and files of any name:", *rows])


def run(args: EvalArguments) -> dict[str, Any]:
    """Run the evaluation and return its summary.

    If `args.samplings` is set, return a mapping from the name of each sampling to its summary.
    """
    judge = args.load_judge()
    state = PartialState(cpu=not torch.accelerator.is_available())
    if args.backend == "vllm" and state.num_processes > 1:
        raise InvalidValueError(
            f"backend='vllm' cannot be combined with {state.num_processes} processes: vLLM starts its own. Run "
            "steer-trl eval without accelerate launch."
        )
    # The first process of each machine prepares the data. The others read it from the cache.
    with state.local_main_process_first():
        as_they_are = args.judge != MATH
        loaded = load_benchmarks(args.benchmarks, args.answer_format, args.instruction, args.limit, as_they_are)
    generator = _make_generator(args)
    # `__post_init__` has parsed the JSON string.
    assert isinstance(args.chat_template_kwargs, dict)
    generator.chat_template_kwargs = args.chat_template_kwargs
    summaries = {}
    by_name = {name: limit_greedy_samples(loaded, sampling) for name, sampling in args.samplings_by_name.items()}
    settings_by_name = eval_settings(args, by_name, generator)
    # A folder of another evaluation is found before hours of sampling for the folders before it.
    for name, settings in settings_by_name.items() if state.is_main_process and not args.overwrite else ():
        refuse_other_settings(Path(args.output_dir, name), settings)
    for name, settings in settings_by_name.items():
        benchmarks = by_name[name]
        sampling = args.samplings_by_name[name]
        folder = Path(args.output_dir, name)
        records = Records(folder, settings, args.overwrite) if state.is_main_process else None
        # `EvalArguments.__post_init__` has set a number.
        assert args.batch_size is not None
        desc = f"Evaluating {name}".strip()
        entries = evaluate(benchmarks, generator, judge, sampling, args.batch_size, records, desc)
        summaries[name] = {"settings": settings} | summarize(entries)
        if records:
            path = records.write_summary(summaries[name])
            heading = f"{name}\n" if name else ""
            print(f"\n{heading}{table(summaries[name])}\n\nWrote {path}")  # noqa: T201
    if args.save_temperature is not None and state.is_main_process:
        save_temperature(
            args, args.save_temperature, {name: summary["settings"] for name, summary in summaries.items()}
        )
    if state.num_processes > 1:
        leave_group()
    return summaries.get("", summaries)


def save_temperature(args: EvalArguments, benchmark: str, settings: dict[str, dict[str, Any]]) -> None:
    """Write the best temperatures into the model's folder, and print what was changed."""
    run = {
        temperature: Evaluation(Path(args.output_dir, name), settings[name])
        for temperature, name in args.sweep.items()
    }
    best = find_best_temperatures(run, benchmark)
    folder = Path(args.model_name_or_path)
    sentence = best.describe()
    lines = [f"{sentence[0].upper()}{sentence[1:]}.", write_generation_config(folder, best), write_card(folder, best)]
    print("\n".join(["", *lines]))  # noqa: T201


def _make_generator(args: EvalArguments) -> TransformersGenerator | VLLMGenerator:
    set_seed(args.seed)
    model = args.model_name_or_path, args.model_revision, args.dtype
    if args.backend == "transformers":
        return TransformersGenerator.load(*model)
    return VLLMGenerator(
        *model,
        tensor_parallel_size=args.tensor_parallel_size,
        gpu_memory_utilization=args.gpu_memory_utilization,
        max_model_length=args.max_model_length,
    )
