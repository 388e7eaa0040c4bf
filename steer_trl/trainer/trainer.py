"""Defines `SteerGRPOTrainer`, which overrides methods of TRL's trainer.

The methods are in the order in which TRL calls them. They call the parts in `self.parts` (`parts.py`):

    1  a rollout is generated        generation/     writes completions, without ended rows and repeated prompts
                                     sampling/       replaces groups without a learning signal by other prompts' groups
                                     rollout.py      applies methods that compare the completions of a prompt
    2  a micro-batch is trained on   forward/        orders rows, runs the forward pass without padding, and reads it
                                     inputs.py       converts TRL's dictionary to a `TokenBatch`
                                     step.py         computes the step's statistics and shaped advantages, and logs
                                     log/            logs steps, and exports single tokens every few steps
    3  a checkpoint                  checkpoints/
    4  an evaluation                 benchmark_runs.py
    5  the Hub                       ../report/

The main idea is in stage 2. TRL's loss first runs the model's forward pass. Then it reads `inputs["advantages"]`,
which may have one value for each token. So the loss is given a copy of its inputs. As soon as the forward pass has
returned log-probabilities and entropies, the shaped advantages are written into that copy. So there is no need for a
second forward pass or for a copy of TRL's code. The original inputs stay unchanged, because TRL passes the same
dictionary again when it trains on a rollout more than once.

A subclass may override each of these methods. Completions, rewards, rollouts and forward passes are therefore recorded
where TRL calls them (`trl.intercept`), so that they include what a subclass changes. A user's class may also stand
between this one and TRL's, as in `class Mine(SteerGRPOTrainer, TheirTrainer)`. So what concerns only TRL's own code is
put around TRL's own method, below all classes (`trl.intercept_trl`).
"""

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from datasets import Dataset, IterableDataset
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR
from transformers import PreTrainedTokenizerBase, ProcessorMixin, TrainerCallback
from transformers.trainer_utils import EvalLoopOutput
from trl.trainer.grpo_trainer import EnvironmentFactory, RolloutFunc
from trl.trainer.utils import get_config_model_id

from steer_trl.config import SteerGRPOConfig
from steer_trl.evaluation import BenchmarkEvaluation
from steer_trl.report.push import catch_push_errors
from steer_trl.trainer.checkpoints.full_disk import explain_full_disk
from steer_trl.trainer.checkpoints.where_to_resume import starting_point
from steer_trl.trainer.checks.preflight import check_benchmarks, check_trainer_arguments
from steer_trl.trainer.dry_run import DryRun, dry_run
from steer_trl.trainer.loaded_weights import copy_from_main
from steer_trl.trainer.log.groups import log_groups
from steer_trl.trainer.parts import Parts
from steer_trl.trainer.trl import EvalDataset, GRPOTrainer, RewardFunc, intercept, intercept_trl, late

if TYPE_CHECKING:
    from peft import PeftConfig, PeftModel
    from transformers import BitsAndBytesConfig, PreTrainedModel


class SteerGRPOTrainer(GRPOTrainer):
    """
    [`~trl.GRPOTrainer`] with the token weights of STEER (https://huggingface.co/papers/2510.10150), of STARE
    (https://huggingface.co/papers/2606.19236) and of related methods.

    Example:

    ```python
    from datasets import load_dataset
    from trl.rewards import accuracy_reward

    from steer_trl import SteerGRPOConfig, SteerGRPOTrainer

    trainer = SteerGRPOTrainer(
        model="Qwen/Qwen2.5-Math-1.5B",
        reward_funcs=accuracy_reward,
        args=SteerGRPOConfig(output_dir="out", advantage_shaping="steer"),
        train_dataset=load_dataset("trl-lib/DeepMath-103K", split="train"),
    )
    trainer.train()
    ```

    Args:
        model, reward_funcs, train_dataset, ..., environment_factory: as in [`~trl.GRPOTrainer`].
        args ([`SteerGRPOConfig`], *optional*): configuration; the defaults of [`SteerGRPOConfig`] if `None`.
        benchmarks ([`~steer_trl.evaluation.BenchmarkEvaluation`], *optional*): benchmarks to run whenever the trainer
            evaluates, in addition to the `eval_dataset` if there is one.
        others: further arguments of a trainer of your own, as in `class Mine(SteerGRPOTrainer, TheirTrainer)`.

    Raises:
        `TypeError`: `args` is a plain `GRPOConfig`, or no class of the trainer has an argument of this name.
        `ValueError`: the data set has too few prompts for a rollout, or has answers that cannot be scored, or lacks a
            column that a reward function requires.
    """

    parts: Parts
    """The parts that this package adds to TRL's trainer."""

    def __init__(
        self,
        model: "str | PreTrainedModel | PeftModel",
        reward_funcs: RewardFunc | list[RewardFunc] | None = None,
        args: SteerGRPOConfig | None = None,
        train_dataset: Dataset | IterableDataset | None = None,
        eval_dataset: EvalDataset = None,
        processing_class: PreTrainedTokenizerBase | ProcessorMixin | None = None,
        reward_processing_classes: PreTrainedTokenizerBase | list[PreTrainedTokenizerBase] | None = None,
        callbacks: list[TrainerCallback] | None = None,
        optimizers: tuple[Optimizer | None, LambdaLR | None] = (None, None),
        quantization_config: "BitsAndBytesConfig | None" = None,
        peft_config: "PeftConfig | None" = None,
        tools: list[Callable] | None = None,
        rollout_func: RolloutFunc | None = None,
        environment_factory: EnvironmentFactory | dict[str, EnvironmentFactory] | None = None,
        *,
        benchmarks: BenchmarkEvaluation | None = None,
        **others: Any,
    ) -> None:
        check_trainer_arguments(
            self,
            args=args,
            reward_funcs=reward_funcs,
            train_dataset=train_dataset,
            eval_dataset=eval_dataset,
            rollout_func=rollout_func,
            environment_factory=environment_factory,
        )
        check_benchmarks(benchmarks, args, eval_dataset, tools=tools, environment_factory=environment_factory)
        if args is None:
            name = model if isinstance(model, str) else get_config_model_id(model.config)
            args = SteerGRPOConfig(f"{name.split('/')[-1]}-SteerGRPO")
        self.parts = Parts(self, args, model, eval_dataset, benchmarks)
        self._tag_names = self.parts.tags
        if benchmarks is not None and eval_dataset is None:
            # The trainer needs an `eval_dataset` even if it evaluates only on benchmarks.
            eval_dataset = benchmarks.benchmarks[0].dataset
        with self.parts.prepare_constructor(args):
            super().__init__(
                model=model,
                reward_funcs=reward_funcs,  # type: ignore[arg-type]  # TRL wants lists, and takes any sequence
                args=args,
                train_dataset=train_dataset,
                eval_dataset=eval_dataset,
                processing_class=processing_class,
                reward_processing_classes=reward_processing_classes,
                callbacks=callbacks,
                optimizers=optimizers,
                quantization_config=quantization_config,
                peft_config=peft_config,
                tools=tools,
                rollout_func=rollout_func,
                environment_factory=environment_factory,
                **others,
            )
        self.parts.attach()

    # 1  A rollout is generated.

    def _generate_single_turn(self, *args: Any, **kwargs: Any) -> Any:
        is_training = self.model.training
        try:
            with self.parts.generation.decode_faster():
                return super()._generate_single_turn(*args, **kwargs)
        finally:
            # With paged generation TRL leaves the model in training mode, also within an evaluation.
            if self.model.training != is_training:
                self.model.train(is_training)

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        # An evaluation must not change the state of a method.
        if not self.model.training:
            return super()._generate_and_score_completions(inputs)
        build = partial(self.parts.rollouts.record_rollout, late(super(), "_generate_and_score_completions"))
        with intercept(self, _generate=self.parts.read_completions):
            if self.parts.resampling is not None:
                return self.parts.resampling.build_rollout(build, inputs)
            rollout = build(inputs)
        log_groups(self, self.parts.rollouts.rewards_per_function)
        return rollout

    def _prepare_inputs(self, generation_batch: Any) -> Any:
        # A rollout is shaped once it has everything that subclasses add to it.
        with intercept(self, _generate_and_score_completions=self.parts.finish_rollout):
            inputs = super()._prepare_inputs(generation_batch)
        return self.parts.ordering.order(inputs)

    # 2  A micro-batch is trained on.

    def compute_loss(
        self, model: nn.Module, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Tensor:
        """Return TRL's loss, computed from the shaped advantages. `inputs` is not changed."""
        others = {"return_outputs": return_outputs, "num_items_in_batch": num_items_in_batch}
        return self.parts.step.compute_shaped_loss(partial(late(super(), "compute_loss"), model, **others), inputs)

    def _compute_loss(self, model: nn.Module, inputs: dict[str, Any]) -> Tensor:
        # A subclass or TRL may enter here first. Inside `compute_loss`, this call passes through.
        return self.parts.step.compute_shaped_loss(partial(late(super(), "_compute_loss"), model), inputs)

    def _get_per_token_logps_and_entropies(self, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor | None, Any]:
        with intercept_trl(self, _get_per_token_logps_and_entropies=self.parts.run_pass):
            return super()._get_per_token_logps_and_entropies(*args, **kwargs)

    # 3  A checkpoint.

    def train(self, resume_from_checkpoint: str | bool | None = None, *args: Any, **kwargs: Any) -> Any:
        """Train as TRL does. A finished run is loaded but not trained further, and none of its files changes.

        `resume_from_checkpoint` is the folder of a checkpoint, or `True` for the last complete checkpoint in
        `output_dir`. `"auto"` means the same as `True`, except that the run begins at step 0 if there is no
        checkpoint. Raises `ValueError` if the checkpoint does not exist, or if `output_dir` holds a different run, and
        `CannotContinueError` if the disk is full.
        """
        checkpoint = starting_point(resume_from_checkpoint, self.args.output_dir)
        self.parts.begin_training(checkpoint)
        with explain_full_disk(self.args.output_dir):
            return super().train(checkpoint, *args, **kwargs)

    def dry_run(self) -> DryRun:
        """Generate one rollout, compute its gradient, print a table of what the run would be, and return it.

        Nothing is updated or written, and [`train`] afterwards trains as without the dry run
        ([`~steer_trl.trainer.dry_run.dry_run`]).
        """
        return dry_run(self)

    def _init_training_state(self, *args: Any, **kwargs: Any) -> tuple[int, int]:
        return self.parts.resume_position(*super()._init_training_state(*args, **kwargs))

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """Save the model and its card. If `push_to_hub` is set, push them as well, as TRL does."""
        folder = output_dir or self.args.output_dir
        # When Transformers saves a checkpoint, it saves the model first, so this call begins the checkpoint.
        if _internal_call and output_dir is not None and not self.args.save_only_model:
            self.parts.checkpoints.save(Path(output_dir))
        with explain_full_disk(self.args.output_dir):
            super().save_model(output_dir, _internal_call)
        # Otherwise TRL has just pushed the folder, and the push has already written the card.
        if _internal_call or not self.args.push_to_hub or folder != self.args.output_dir:
            self.parts.cards.write(Path(folder))

    # 4  An evaluation.

    def evaluate(self, *args: Any, **kwargs: Any) -> dict[str, float]:
        """Evaluate as TRL does, and return the metrics that have a value.

        TRL gives `None` to a reward function that could score no completion, and `log_metrics` cannot format it. The
        log keeps it.
        """
        metrics = super().evaluate(*args, **kwargs)
        return {key: value for key, value in metrics.items() if value is not None}

    def evaluation_loop(
        self, dataloader: Any, *args: Any, metric_key_prefix: str = "eval", **kwargs: Any
    ) -> EvalLoopOutput:
        """Run TRL's evaluation loop on an `eval_dataset`, and run the benchmarks once per evaluation.

        The benchmarks run together with the trainer's own `eval_dataset`. If the trainer has several evaluation sets,
        the benchmarks run with the first.
        """
        # Before a training, the policy may have its weights on the main process only.
        copy_from_main(self.model, self.accelerator)
        kwargs["metric_key_prefix"] = metric_key_prefix
        loop = partial(super().evaluation_loop, dataloader, *args, **kwargs)
        return self.parts.benchmarks.run_beside(dataloader, metric_key_prefix, loop)

    # 5  The Hub.

    def create_model_card(  # type: ignore[override]  # TRL's signature, which is not Transformers'
        self,
        model_name: str | None = None,
        dataset_name: str | list[str] | None = None,
        tags: str | list[str] | None = None,
    ) -> None:
        """Write the model card to `output_dir`. The cards of later checkpoints use the values given here, too.

        By default, the name is that of the repository or folder, and the data set is the one that
        [`~steer_trl.data.load_math_dataset`] has loaded from the Hub.
        """
        self.parts.cards.keep(model_name=model_name, dataset_name=dataset_name, tags=tags)
        self.parts.cards.write(Path(self.args.output_dir))

    def push_to_hub(self, *args: Any, **kwargs: Any) -> Any:
        """Save the model and its card to `output_dir`, and upload them.

        The arguments are the same as in [`~transformers.Trainer.push_to_hub`].

        Raises `PushError` if the upload fails. All files are then in `output_dir`, and the error's text has the
        command that uploads them.
        """
        with catch_push_errors(self):
            return super().push_to_hub(*args, **kwargs)
