"""Makes and connects the parts that a `SteerGRPOTrainer` adds to TRL's trainer."""

from collections.abc import Callable
from typing import Any

from transformers import TrainerCallback

from steer_trl.callbacks.alarms import Alarms
from steer_trl.callbacks.remarks import remark_other_policies
from steer_trl.callbacks.run_log import RunLog, is_at_its_end
from steer_trl.config import SteerGRPOConfig
from steer_trl.diagnostics.watch import Watch
from steer_trl.evaluation import BenchmarkEvaluation
from steer_trl.shaping import HoldEntropy, StartEntropy, first_rollouts, make_shapers, reads_rollouts
from steer_trl.trainer.benchmarks import BenchmarkRuns
from steer_trl.trainer.callbacks.cards import ModelCards
from steer_trl.trainer.callbacks.terminal import show_lines
from steer_trl.trainer.checkpoint import Checkpoints
from steer_trl.trainer.checks.level import LevelCheck
from steer_trl.trainer.checks.preflight import check_compiled, check_tokenizer_of
from steer_trl.trainer.checks.tripwire import Tripwire
from steer_trl.trainer.checks.updates import UpdateWatch, check_trainable
from steer_trl.trainer.forward import Forward
from steer_trl.trainer.generated import GeneratedTokens
from steer_trl.trainer.log.step_means import StepMeans
from steer_trl.trainer.ordering import Ordering
from steer_trl.trainer.padding import Padding
from steer_trl.trainer.passes import Passes
from steer_trl.trainer.rollout import RolloutShaping
from steer_trl.trainer.sampling.resample import Resampling
from steer_trl.trainer.step import OptimizerStep
from steer_trl.trainer.tokens.samples import TokenLog
from steer_trl.trainer.trl import TAGS, EvalDataset, GRPOTrainer, forget_rollout


class Shaping:
    """The parts that a `SteerGRPOTrainer` adds to TRL's trainer.

    They are made before TRL's constructor runs, because it calls hooks that need them.

    `shapers` maps the names in `advantage_shaping` to the methods. `hold` is the controller of `hold_entropy`, which
    sets the strength of one method, or `None`. `was_finished` states whether the run was already finished when `train`
    was last called.
    """

    def __init__(
        self,
        trainer: GRPOTrainer,
        args: SteerGRPOConfig,
        model: Any,
        eval_dataset: EvalDataset,
        benchmarks: BenchmarkEvaluation | None,
    ) -> None:
        self._trainer = trainer
        self.was_finished = False
        self.shapers = make_shapers(args)
        is_compiled = check_compiled(args, self.shapers, model)
        self.tags = [*TAGS, *(name.replace(":", ".").rpartition(".")[2] for name in self.shapers)]
        self.start = StartEntropy(first_rollouts(args))
        self.hold = None if args.hold_entropy is None else HoldEntropy(args, self.shapers, self.start)
        self.resampling = Resampling(trainer) if args.dynamic_sampling == "resample" else None
        self.generated = GeneratedTokens(trainer)
        self.padding = Padding(trainer, args.skips_padding, is_compiled)
        self.ordering = Ordering(trainer, self.padding, self.shapers)
        self.forward = Forward(trainer, self.padding, self.shapers)
        self.passes = Passes()
        needs_rollouts = self.hold is not None or self.resampling is not None or reads_rollouts(self.shapers)
        self.tripwire = Tripwire(trainer, self.shapers, needs_rollouts)
        self.rollouts = RolloutShaping(
            *(trainer, self.shapers, self.hold, self.generated, self.start, self.passes, self.tripwire)
        )
        self.tokens = TokenLog(trainer, self.rollouts)
        self.step = OptimizerStep(
            *(trainer, self.shapers, self.hold, self.rollouts, self.tokens, self.tripwire, self.passes, is_compiled)
        )
        self.alarms = Alarms(Watch())
        self.cards = ModelCards(trainer, self.shapers, benchmarks, self.tags)
        self.benchmarks = BenchmarkRuns(trainer, benchmarks, beside_rewards=eval_dataset is not None)
        stateful: dict[str, Any] = {"start_entropy": self.start, **self.shapers}
        if self.hold is not None:
            # The controller is loaded after `start_entropy`, because its level may be relative to the start entropy.
            stateful[self.hold.name] = self.hold
        stateful |= {"alarms": self.alarms.watch, "generated": self.generated}
        self.checkpoints = Checkpoints(trainer, stateful, self.resampling)

    def attach(self) -> None:
        """Check the constructed trainer, and register the callbacks.

        The first callback is the one that loads checkpoints.
        """
        trainer = self._trainer
        args = trainer.args
        check_tokenizer_of(trainer)
        if trainer.is_world_process_zero():
            remark_other_policies(args, trainer.model)
        if args.terminal_log == "lines":
            show_lines(trainer)
        parts: list[TrainerCallback] = [self.checkpoints, self.tripwire, self.generated]
        parts += [StepMeans(trainer)]
        parts += [LevelCheck(trainer, self.hold)] if self.hold is not None else []
        parts += [RunLog(self.cards.describe)] if args.run_log else []
        parts += [self.alarms, UpdateWatch(trainer, self.alarms)] if args.alarms else []
        for part in parts:
            trainer.add_callback(part)
        args.seal()

    def finish_rollout(
        self, build: Callable[[list[dict[str, Any]]], dict[str, Any]], inputs: list[dict[str, Any]]
    ) -> dict[str, Any]:
        """Call the trainer's complete rollout method, `build`, and shape the advantages of a training rollout."""
        if not self._trainer.model.training:
            return build(inputs)
        self.rollouts.begin_rollout()
        return self.tokens.mark(self.rollouts.finish(build(inputs)))

    def begin_training(self, checkpoint: str | None) -> None:
        """Start training from `checkpoint`, or from step 0 if it is `None`.

        A rollout that an interrupted run left unfinished is discarded.
        """
        check_trainable(self._trainer.model)
        forget_rollout(self._trainer)
        self.checkpoints.begin_training(checkpoint)
        self.step.begin_training()
        self.generated.begin(checkpoint)

    def place(self, epoch: int, batch: int) -> tuple[int, int]:
        """Return the epoch and batch to start from. If the run is finished, they are past its end."""
        state = self._trainer.state
        if self.generated.was_spent:
            state.max_steps = state.global_step
        self.was_finished = is_at_its_end(state)
        return (state.num_train_epochs, 0) if self.was_finished else (epoch, batch)
