"""`steer-trl train`: a language model on math problems, with STEER, STARE or any other method, from a recipe.

    steer-trl train --accelerate_config configs/accelerate/zero3.yaml \\
        --config configs/recipes/steer_qwen2.5_math_7b.yaml

is the same as `accelerate launch --config_file configs/accelerate/zero3.yaml -m steer_trl.cli train --config ...`, for
anyone who wants the launcher's own flags; without `--accelerate_config` it runs in this process.

A recipe holds the fields of `SteerGRPOConfig` (all of TRL's `GRPOConfig` and those of the methods), of TRL's
`ModelConfig` (model, LoRA, quantization) and of `MathArguments` below; an unknown key is an error. The
same fields on the command line override it, and a recipe can extend another (`extends: other.yaml`).
"""

from dataclasses import dataclass, field

from accelerate import PartialState
from accelerate.commands.launch import launch_command, launch_command_parser
from trl import ModelConfig, get_peft_config, get_quantization_config
from trl.cli.accelerate_config import resolve_accelerate_config_argument

from steer_trl import SteerGRPOConfig, SteerGRPOTrainer
from steer_trl.cli.recipes import RecipeParser, checkpoint_to_resume, split_off
from steer_trl.data import load_math_dataset
from steer_trl.evaluation import BenchmarkEvaluation, Sampling, load_benchmarks
from steer_trl.processes import leave_group
from steer_trl.redact import changed, public
from steer_trl.rewards import MathReward
from steer_trl.trainer.preflight import check_model_path

PUBLIC_TEXTS = {  # that a model card may print; see `redact.py`
    *("dataset_name", "dataset_config", "dataset_split", "eval_benchmarks", "model_name_or_path", "model_revision"),
    *("dtype", "attn_implementation", "lora_target_modules", "lora_task_type", "bnb_4bit_quant_type"),
}


@dataclass
class MathArguments:
    """The data set, the reward and the benchmarks."""

    dataset_name: str = field(
        metadata={"help": "Short name such as dapo-math-17k, Hub name, or path of a .parquet, .json or .jsonl file."}
    )
    dataset_config: str | None = field(
        default=None, metadata={"help": "Configuration of a Hub data set with several."}
    )
    dataset_split: str | None = field(default=None, metadata={"help": "Split to train on; by default its usual one."})
    reward_incorrect: float = field(
        default=-1.0, metadata={"help": "Reward of an incorrect answer; a correct one gets 1."}
    )
    reward_timeout: float = field(default=5.0, metadata={"help": "Seconds that scoring one answer may take."})
    eval_benchmarks: list[str] | None = field(
        default=None,
        metadata={"help": "Measured at each evaluation: NAME, NAME@SAMPLES, NAME=FILE or NAME=FILE@SAMPLES each."},
    )
    eval_temperature: float = field(default=1.0, metadata={"help": "Sampling temperature on the benchmarks."})
    eval_top_p: float = field(default=0.7, metadata={"help": "Share of the probability mass drawn from there."})


def main(arguments: list[str]) -> None:
    """Train here, or start the processes that the engine's configuration asks for, each of which trains here."""
    engine, rest = split_off("--accelerate_config", arguments)
    if engine is None:
        run(*parse(rest))
        leave_group()
        return
    command = [*resolve_accelerate_config_argument(["--accelerate_config", engine]), "--module", "steer_trl.cli"]
    launch_command(launch_command_parser().parse_args([*command, "train", *rest]))


def parse(arguments: list[str]) -> tuple[MathArguments, SteerGRPOConfig, ModelConfig]:
    """Parse the command line over a recipe over the defaults."""
    types = (MathArguments, SteerGRPOConfig, ModelConfig)
    return RecipeParser(types, prog="steer-trl train").parse_args_and_config(arguments)


def run(math_args: MathArguments, training_args: SteerGRPOConfig, model_args: ModelConfig) -> None:
    """Load, train, save."""
    if not model_args.model_name_or_path:
        raise ValueError("model_name_or_path is missing. Give the folder of a saved model, or its name on the Hub.")
    check_model_path(model_args.model_name_or_path)
    if math_args.eval_benchmarks and training_args.eval_strategy == "no":
        raise ValueError(
            "eval_benchmarks cannot be combined with eval_strategy='no', which never evaluates. Set eval_strategy: "
            "steps, or eval_benchmarks: null in the recipe."
        )
    with PartialState().local_main_process_first():  # the others find its work in the cache
        dataset = load_math_dataset(math_args.dataset_name, math_args.dataset_split, math_args.dataset_config)
        benchmarks = load_benchmarks(math_args.eval_benchmarks) if math_args.eval_benchmarks else None
    sampling = Sampling(
        temperature=math_args.eval_temperature,
        top_p=math_args.eval_top_p,
        max_tokens=training_args.max_completion_length,
    )
    loading = {
        "revision": model_args.model_revision,
        "attn_implementation": model_args.attn_implementation,
        "dtype": model_args.dtype,
    }
    training_args.model_init_kwargs = loading | (training_args.model_init_kwargs or {})
    trainer = SteerGRPOTrainer(
        model=model_args.model_name_or_path,
        reward_funcs=MathReward(incorrect=math_args.reward_incorrect, timeout=math_args.reward_timeout),
        args=training_args,
        train_dataset=dataset,
        benchmarks=BenchmarkEvaluation(benchmarks, sampling) if benchmarks else None,
        quantization_config=get_quantization_config(model_args),
        peft_config=get_peft_config(model_args),
    )
    trainer.cards.recipe = public(changed(math_args) | changed(model_args), PUBLIC_TEXTS)
    trainer.train(resume_from_checkpoint=checkpoint_to_resume(training_args.resume_from_checkpoint))
    trainer.save_model()
    trainer.accelerator.print(f"Saved to {training_args.output_dir}")
