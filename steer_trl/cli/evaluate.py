"""`steer-trl eval`: a saved model on the benchmarks, as the papers measure them.

    steer-trl eval --model_name_or_path runs/model --output_dir runs/eval --benchmarks aime24 math500@4

writes `summary.json`, `completions.jsonl` and a table on the terminal. If it was interrupted, the same command
resumes it. `--list` says what there is to measure on, `--write_card true` writes the results into the model's card. On
several GPUs: `--tensor_parallel_size` with vLLM, or `accelerate launch -m steer_trl.cli eval ...` with Transformers,
where each process draws its share.
"""

import hashlib
from dataclasses import MISSING, dataclass, field, fields
from pathlib import Path
from typing import Any

import torch
from accelerate import PartialState
from accelerate.utils import set_seed

from steer_trl.cli.checks import model_complaints
from steer_trl.cli.help import settings_of, text
from steer_trl.cli.parser import RecipeParser
from steer_trl.cli.run_folder import model_above
from steer_trl.cli.sentences import lacking
from steer_trl.data import SOURCES
from steer_trl.data.loader import argument_complaints
from steer_trl.evaluation.backends import TransformersGenerator, VLLMGenerator, has_vllm, prompt_token_ids
from steer_trl.evaluation.benchmarks import (
    PAPER_SAMPLES,
    Benchmark,
    benchmark_complaints,
    load_benchmarks,
    one_sample_if_greedy,
)
from steer_trl.evaluation.evaluate import evaluate
from steer_trl.evaluation.records import Records
from steer_trl.evaluation.report import summarize, table
from steer_trl.evaluation.sampling import Sampling
from steer_trl.exceptions import InvalidValueError
from steer_trl.hub.results import CARD, card_complaints, results_of_summary, write_results
from steer_trl.processes import leave_group
from steer_trl.redact import changed
from steer_trl.rewards import MathReward
from steer_trl.validation import at_least, one_of, refuse

HEAD = """
usage: steer-trl eval --model_name_or_path MODEL --output_dir FOLDER [--benchmarks NAME@SAMPLES ...] [--SETTING VALUE]

  steer-trl eval --model_name_or_path runs/model --output_dir runs/eval --benchmarks aime24 math500@4

  --config  Recipe: a YAML file of settings; what stands on the command line goes over it.
  --list  List the names of benchmarks.
"""
BATCH_SIZES = {"transformers": 32, "vllm": 4096}


@dataclass
class EvalArguments:
    """What to evaluate, on what, and how. The defaults are the paper's."""

    model_name_or_path: str = field(metadata={"help": "Folder of a saved model, or its name on the Hub."})
    output_dir: str = field(metadata={"help": "Folder for the results; one that holds an evaluation is resumed."})
    benchmarks: list[str] = field(
        default_factory=lambda: list(PAPER_SAMPLES),
        metadata={"help": "NAME, NAME@SAMPLES, NAME=FILE or NAME=FILE@SAMPLES each; --list lists the names."},
    )
    limit: int | None = field(
        default=None, metadata={"help": "Problems of each benchmark, from the first; by default all."}
    )
    model_revision: str | None = field(default=None, metadata={"help": "Commit of the model on the Hub."})
    dtype: str = field(default="auto", metadata={"help": "auto, bfloat16, float16 or float32."})
    backend: str = field(default="auto", metadata={"help": "vllm, transformers, or auto: vLLM where it is installed."})
    temperature: float = field(
        default=1.0, metadata={"help": "Sampling temperature; 0 is greedy, one sample per problem."}
    )
    top_p: float = field(default=0.7, metadata={"help": "Share of the probability mass that is drawn from."})
    top_k: int = field(default=0, metadata={"help": "Most probable tokens that are drawn from; 0 for all."})
    max_tokens: int = field(default=3072, metadata={"help": "Tokens at which a completion is cut off."})
    seed: int = field(default=0, metadata={"help": "Seed of the samples."})
    batch_size: int | None = field(
        default=None, metadata={"help": "Completions drawn at once; 32 with Transformers, 4096 with vLLM."}
    )
    answer_format: str = field(
        default="boxed", metadata={"help": "boxed, or answer_line for a last line 'Answer: ...'."}
    )
    instruction: str | None = field(default=None, metadata={"help": "A custom wording, with {problem} once."})
    timeout: float = field(default=5.0, metadata={"help": "Seconds of CPU time that judging one answer may take."})
    tensor_parallel_size: int = field(default=1, metadata={"help": "GPUs that vLLM splits the model over."})
    gpu_memory_utilization: float = field(default=0.9, metadata={"help": "Share of a GPU's memory that vLLM takes."})
    max_model_length: int | None = field(default=None, metadata={"help": "Prompt and completion, tokens, for vLLM."})
    overwrite: bool = field(default=False, metadata={"help": "Start over in a folder that holds an evaluation."})
    write_card: bool = field(
        default=False, metadata={"help": "Write the results into the card (README.md) in the model's folder."}
    )

    def __post_init__(self) -> None:
        needed = [field for field in fields(self) if field.default is MISSING and field.default_factory is MISSING]
        empty = [field for field in needed if not getattr(self, field.name)]
        refuse([lacking(f"--{field.name}", field.metadata["help"]) for field in empty], "steer-trl eval")
        complaints = one_of("backend", self.backend, ("auto", "vllm", "transformers"))
        complaints += one_of("dtype", self.dtype, ("auto", "bfloat16", "float16", "float32"))
        if self.backend == "auto":
            self.backend = "vllm" if has_vllm() else "transformers"
        if self.backend == "vllm" and not has_vllm():
            complaints.append("backend='vllm' needs vLLM, which is not installed here: pip install 'steer_trl[vllm]'")
        if self.backend == "vllm" and Path(self.model_name_or_path, "adapter_config.json").exists():
            complaints.append(
                f"backend='vllm' cannot be combined with the LoRA adapter {self.model_name_or_path!r}. Merge it into "
                "its base first, or use --backend transformers."
            )
        if self.backend == "transformers" and self.tensor_parallel_size != 1:
            complaints.append(
                f"tensor_parallel_size={self.tensor_parallel_size} cannot be combined with backend='transformers', "
                "which would ignore it. Start several processes with accelerate launch."
            )
        complaints += [
            f"{name}={getattr(self, name)!r} cannot be combined with backend='transformers', which would ignore it. "
            "Leave it unset, or use --backend vllm."
            for name in ("max_model_length", "gpu_memory_utilization")
            if self.backend == "transformers" and name in changed(self)
        ]
        if self.batch_size is None:
            self.batch_size = BATCH_SIZES.get(self.backend)
        else:
            complaints += at_least("batch_size", self.batch_size, 1)
        complaints += argument_complaints(self.answer_format, self.instruction, self.limit)
        complaints += model_complaints(self.model_name_or_path, self.model_revision) + benchmark_complaints(
            self.benchmarks
        )
        complaints += card_complaints(self.model_name_or_path) if self.write_card else []
        refuse(complaints + output_complaints(self.output_dir), "steer-trl eval")

    @property
    def sampling(self) -> Sampling:
        """How completions are drawn."""
        return Sampling(self.temperature, self.top_p, self.top_k, self.max_tokens, self.seed)


def output_complaints(folder: str) -> list[str]:
    """Complain about a folder that is a file, or in which completions would be pushed together with a model."""
    if not folder.strip():
        return [f"output_dir must be the name of a folder, got {folder!r}. Give one."]
    if Path(folder).is_file():
        return [f"output_dir={folder!r} must be a folder, and is a file. Give another one."]
    model = model_above(Path(folder))
    if model is None:
        return []
    return [
        f"output_dir={folder!r} must not be in a model's folder: what is written there would be pushed with the model "
        f"in {str(model)!r}. Give another one, or one that begins with an underscore: {str(model / '_eval')!r}."
    ]


def main(arguments: list[str]) -> None:
    """Parse, evaluate, write, print."""
    if {"-h", "--help", "--help-all"} & set(arguments):
        print(text(HEAD, {"Settings": list(settings_of(EvalArguments))}, settings_of(EvalArguments)), end="")  # noqa: T201
        return
    if "--list" in arguments:
        print(available())  # noqa: T201
        return
    (args,) = RecipeParser((EvalArguments,), prog="steer-trl eval").parse_args_and_config(arguments)
    run(args)


def available() -> str:
    """The benchmarks by name, with the papers' number of samples, and where each comes from."""
    found = {f"{name}@{PAPER_SAMPLES.get(name, 1)}": s for name, s in SOURCES.items() if s.split == "test"}
    rows = [f"  {name:<18}{source.path}" for name, source in found.items()]
    return "\n".join(["Names for --benchmarks, with the papers' numbers of samples, and files of any name:", *rows])


def run(args: EvalArguments) -> dict[str, Any]:
    """Evaluate as `args` say; return the summary."""
    sampling, judge = args.sampling, MathReward(timeout=args.timeout, answer_format=args.answer_format)
    state = PartialState(cpu=not torch.accelerator.is_available())
    if args.backend == "vllm" and state.num_processes > 1:
        raise InvalidValueError(
            f"backend='vllm' cannot be combined with {state.num_processes} processes: vLLM starts its own. Run "
            "steer-trl eval without accelerate launch."
        )
    with state.local_main_process_first():  # the others find its work in the cache
        benchmarks = load_benchmarks(args.benchmarks, args.answer_format, args.instruction, args.limit)
    benchmarks = one_sample_if_greedy(benchmarks, sampling)
    generator = _generator(args)
    settings = _settings(args, benchmarks, generator)
    records = Records(args.output_dir, settings, args.overwrite) if state.is_main_process else None
    assert args.batch_size is not None  # `__post_init__` has chosen one
    entries = evaluate(benchmarks, generator, judge, sampling, args.batch_size, records)
    summary = {"settings": settings} | summarize(entries)
    if records:
        path = records.write_summary(summary)
        print(f"\n{table(summary)}\n\nWrote {path}")  # noqa: T201
        if args.write_card:
            card = Path(args.model_name_or_path, CARD)
            write_results(card, results_of_summary(summary, benchmarks, sampling))
            print(f"Wrote the results into {card}")  # noqa: T201
    if state.num_processes > 1:
        leave_group()
    return summary


def _generator(args: EvalArguments) -> TransformersGenerator | VLLMGenerator:
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


def _settings(
    args: EvalArguments, benchmarks: list[Benchmark], generator: TransformersGenerator | VLLMGenerator
) -> dict[str, Any]:
    """All that the completions and their verdicts depend on, this machine apart.

    `prompt_token_ids` is a digest of what the model reads: another chat template or tokenizer gives another one.
    """
    names = ("model_name_or_path", "model_revision", "dtype", "backend", "batch_size", "answer_format", "timeout")
    prompts = [prompt for benchmark in benchmarks for prompt in benchmark.dataset["prompt"]]
    return {
        **{name: getattr(args, name) for name in (*names, "max_model_length")},
        "model_commit": generator.commit,
        "model_files": _digest(_weights(args.model_name_or_path)),
        "prompt_token_ids": _digest(prompt_token_ids(generator.tokenizer, prompts)),
        "eos_token_ids": sorted(set(generator.eos_token_ids)),
        "sampling": vars(args.sampling),
        "benchmarks": {b.name: {"samples": b.num_samples, "rows": _digest(b.dataset.to_list())} for b in benchmarks},
    }


def _weights(name: str) -> list[tuple[str, int, int]]:
    """Names, sizes and times of a folder's weights: a checkpoint trained on is another model under the old name."""
    files = sorted(Path(name).glob("*.safetensors")) + sorted(Path(name).glob("*.bin"))
    return [(file.name, file.stat().st_size, file.stat().st_mtime_ns) for file in files]


def _digest(value: Any) -> str:
    return hashlib.sha256(repr(value).encode(errors="surrogatepass")).hexdigest()[:16]
