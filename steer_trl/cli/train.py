"""`steer-trl train`: trains a language model on problems with checkable answers, from a recipe.

    steer-trl train --accelerate_config zero3 --config steer_qwen2.5_math_7b

This does the same as `accelerate launch --config_file configs/accelerate/zero3.yaml -m steer_trl.cli train ...`.
Without `--accelerate_config`, training runs in this process. The settings in a recipe are fields of `SteerGRPOConfig`,
of TRL's `ModelConfig` and of `MathArguments` (`arguments.py`). The command line overrides the recipe.
"""

from collections.abc import Collection
from dataclasses import fields
from pathlib import Path
from typing import Any

from accelerate import PartialState
from accelerate.utils import broadcast_object_list
from tqdm.contrib.logging import logging_redirect_tqdm
from transformers import AutoTokenizer
from trl import GRPOConfig, ModelConfig, get_peft_config, get_quantization_config

from steer_trl import SteerGRPOConfig, SteerGRPOTrainer
from steer_trl.cli.arguments import PUBLIC_TEXTS, MathArguments
from steer_trl.cli.checks import check
from steer_trl.cli.errors import OneLineParser, mark_crashes
from steer_trl.cli.launch import launch, read_engine
from steer_trl.cli.name_checks import MODELS, split_words
from steer_trl.cli.parser import RecipeParser, parse_resume, print_help, print_summary
from steer_trl.cli.recipe_files import read_layers
from steer_trl.cli.replaced import drop_replaced, read_choices
from steer_trl.cli.rewards import load_tools
from steer_trl.data.lengths import drop_long_prompts
from steer_trl.monitoring.run_files import CHECKPOINT, LOGS
from steer_trl.options.base import ShapingConfig, find_changes
from steer_trl.options.methods import MethodSettings
from steer_trl.options.run import RunSettings, SamplingSettings
from steer_trl.support.redact import select_public
from steer_trl.support.system import leave_group, write_text_whole
from steer_trl.trainer.checkpoints.saved import find_torn
from steer_trl.trainer.checkpoints.where_to_resume import last_complete_checkpoint
from steer_trl.trainer.dry_run import dry_run, remove_empty

SAVED = "saved"
"""The file in `_logs` that has the last step of a run whose model is saved."""
USAGE = """steer-trl train [--config RECIPE] [--accelerate_config ENGINE] [--SETTING VALUE ...]

  steer-trl train --accelerate_config zero3 --config steer_qwen2.5_math_7b

  --config             a recipe: a YAML file of settings, or a name that steer-trl recipes lists
  --accelerate_config  start the processes of this configuration of accelerate: a file, or a name such as zero3
  --num_processes      how many, instead of the configuration's
  --dry_run true       one rollout and a table of what the run would be; nothing is updated or written
  --help-all           every setting, also of TRL and Transformers"""
OF_TRL = (
    *("model_name_or_path", "dtype", "use_peft", "lora_r", "output_dir", "resume_from_checkpoint", "max_steps"),
    *("num_train_epochs", "learning_rate", "seed", "per_device_train_batch_size", "gradient_accumulation_steps"),
    *("steps_per_generation", "num_iterations", "num_generations", "max_completion_length", "temperature"),
    *("loss_type", "epsilon_high", "delta", "beta", "use_vllm", "vllm_mode", "bf16", "use_cpu", "save_steps"),
    *("eval_strategy", "eval_steps", "report_to", "push_to_hub", "hub_model_id"),
)
"""Settings of TRL and Transformers that `--help` shows."""
TYPES = (MathArguments, SteerGRPOConfig, ModelConfig)


class TrainParser(RecipeParser):
    """Parses the settings of a training run from its recipe and its command line."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Scripts that are read by programs have the dictionaries; a command is read by people.
        self.set_defaults(terminal_log="lines")

    def settings_of(self, path: str, args: list[str]) -> dict[str, Any]:
        """Return the settings of a recipe, without those for methods that `args` or a nearer recipe replaces."""
        typed, _ = split_words(args)
        choices = read_choices(typed)
        settings = drop_replaced([layer for _, layer in read_layers(path)], choices)
        return {name: value for name, value in settings.items() if name not in choices}


def main(arguments: list[str]) -> None:
    """Train in this process, or start the processes that `--accelerate_config` describes and train in them."""
    if {"-h", "--help", "--help-all"} & set(arguments):
        show_help("--help-all" in arguments)
        return
    parser = OneLineParser(add_help=False, allow_abbrev=False)
    parser.add_argument("--accelerate_config")
    parser.add_argument("--num_processes", type=int)
    engine, other_arguments = parser.parse_known_args(arguments)
    if engine.accelerate_config is None:
        typed, _ = split_words(other_arguments)
        run(*parse(other_arguments), typed)
        leave_group()
    else:
        launch(*read_engine(engine.accelerate_config, engine.num_processes), ["train", *other_arguments])


def show_help(shows_all: bool) -> None:
    """Print a sentence about each setting of this package and about the most used settings of TRL.

    If `shows_all` is true, print the full help of every setting instead.
    """
    parser = TrainParser(TYPES, usage=USAGE)
    if shows_all:
        print_help(parser)
        return
    kinds = {
        "Method and entropy": ShapingConfig,
        "Dynamic sampling": SamplingSettings,
        "Data, reward and evaluation": MathArguments,
        "Log, end and model card": RunSettings,
        "Settings of single methods": MethodSettings,
    }
    shown_names = {field.name for field in fields(GRPOConfig)}
    groups: dict[str, list[str]] = {}
    for title, kind in kinds.items():
        groups[title] = [field.name for field in fields(kind) if field.name not in shown_names]
        shown_names.update(groups[title])
    print_summary(parser, groups | {"The usual settings of TRL and Transformers": OF_TRL})


def parse(arguments: list[str]) -> tuple[MathArguments, SteerGRPOConfig, ModelConfig]:
    """Parse the command line, which overrides the recipe."""
    return TrainParser(TYPES, prog="steer-trl train").parse_args_and_config(arguments)


def run(
    math_args: MathArguments, training_args: SteerGRPOConfig, model_args: ModelConfig, typed: Collection[str] = ()
) -> None:
    """Check the settings, load the data and the model, train, and save the model.

    `typed` names the settings on the command line.
    """
    state = PartialState()
    folder = Path(training_args.output_dir)
    # The main process makes the folder below, and not before all processes have reached the next line.
    is_new = not folder.exists()
    # The first process of each machine prepares the data. The others read it from the cache.
    with state.local_main_process_first():
        if state.is_local_main_process:
            check(math_args, training_args, model_args, typed)
        rewards = math_args.load_rewards()
        tools = None if math_args.tools is None else load_tools(math_args.tools)
        benchmarks = math_args.load_evaluation(training_args.max_completion_length)
        dataset = math_args.load_dataset()
        if math_args.max_prompt_length is not None:
            tokenizer = AutoTokenizer.from_pretrained(
                model_args.model_name_or_path,
                revision=model_args.model_revision,
                trust_remote_code=training_args.trust_remote_code,
            )
            template = training_args.chat_template_kwargs or {}
            # TRL has parsed the JSON string.
            assert isinstance(template, dict)
            dataset = drop_long_prompts(dataset, tokenizer, math_args.max_prompt_length, **template)
    loading = {name: getattr(model_args, name) for name in ("attn_implementation", "dtype")}
    loading["revision"] = model_args.model_revision
    # TRL has parsed the JSON string.
    given = training_args.model_init_kwargs
    assert given is None or isinstance(given, dict)
    training_args.model_init_kwargs = loading | (given or {})
    if math_args.dry_run:
        # The trainer would create the repository.
        training_args.push_to_hub = False
    # `name_checks.py` has checked that the model is given.
    assert model_args.model_name_or_path is not None
    trainer = SteerGRPOTrainer(
        model=model_args.model_name_or_path,
        reward_funcs=rewards,
        tools=tools,
        args=training_args,
        train_dataset=dataset,
        benchmarks=benchmarks,
        quantization_config=get_quantization_config(model_args),
        peft_config=get_peft_config(model_args),
    )
    # The model is loaded. A card that had `dtype` twice would be a recipe that is refused.
    training_args.model_init_kwargs = given
    wording = {} if math_args.wording is None else {"instruction": math_args.wording}
    trainer.parts.cards.recipe = select_public(
        find_changes(math_args) | wording | find_changes(model_args), PUBLIC_TEXTS
    )
    if math_args.dry_run:
        with mark_crashes():
            dry_run(trainer, trains_later=False)
        trainer.accelerator.wait_for_everyone()
        if is_new:
            remove_empty(folder)
        return
    # Log messages, such as alarms, are printed above the progress bar and do not break it.
    with mark_crashes(), logging_redirect_tqdm():
        trainer.train(resume_from_checkpoint=parse_resume(training_args.resume_from_checkpoint))
    if trainer.parts.was_finished and is_model_saved(Path(training_args.output_dir)):
        trainer.accelerator.print(f"Nothing was trained or written; the model is in {training_args.output_dir}")
        return
    trainer.save_model()
    if trainer.is_world_process_zero():
        write_text_whole(folder / LOGS / SAVED, str(trainer.state.global_step))
    trainer.accelerator.print(f"Saved to {training_args.output_dir}")


def is_model_saved(folder: Path) -> bool:
    """Return whether `folder` has a whole model that was saved after its last checkpoint. Collective.

    The files of a model do not show it: those of a save that was interrupted are there as well, and a push of
    checkpoints copies some of theirs.
    """
    checkpoint = last_complete_checkpoint(str(folder))
    marker = folder / LOGS / SAVED
    is_saved = False
    if checkpoint is not None and marker.is_file() and any((folder / name).is_file() for name in MODELS):
        is_saved = Path(checkpoint).name == f"{CHECKPOINT}{marker.read_text()}" and find_torn(folder) is None
    return bool(broadcast_object_list([is_saved])[0])
