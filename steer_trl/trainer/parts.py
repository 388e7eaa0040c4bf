"""Makes and connects the parts that a `SteerGRPOTrainer` adds to TRL's trainer."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from typing import Any

from transformers import TrainerCallback

from steer_trl.config import SteerGRPOConfig
from steer_trl.entropy.hold import HoldEntropy
from steer_trl.entropy.start import StartEntropy, count_first_rollouts
from steer_trl.evaluation import BenchmarkEvaluation
from steer_trl.monitoring.alarms import AlarmReporter
from steer_trl.monitoring.learning_rules import IS_TRUNCATED, ON_ROLLOUTS
from steer_trl.monitoring.run_log import RunLog, is_at_its_end
from steer_trl.monitoring.sampling_warnings import truncation, warn_about_sampling_mismatch
from steer_trl.monitoring.watch import AlarmWatch
from steer_trl.shaping import Reads, find_kl_coef, make_shapers
from steer_trl.shaping.base import ROLLOUT_HOOKS
from steer_trl.trainer.benchmark_runs import BenchmarkRuns
from steer_trl.trainer.cards import ModelCards
from steer_trl.trainer.checkpoints.checkpoint import Checkpoints, postpone_checkpoints
from steer_trl.trainer.checks.preflight import check_compiled, check_correctness_of, check_tokenizer_of
from steer_trl.trainer.checks.sampled import SampledAsScored
from steer_trl.trainer.checks.tripwire import Tripwire
from steer_trl.trainer.checks.updates import FrozenModelAlarm, check_trainable
from steer_trl.trainer.contract import check_attributes
from steer_trl.trainer.forward import Forward
from steer_trl.trainer.forward.decision import Padding
from steer_trl.trainer.forward.masked_vocabulary import replace_infinite_biases
from steer_trl.trainer.forward.ordering import Ordering
from steer_trl.trainer.forward.passes import Passes, name_arguments
from steer_trl.trainer.generated import GeneratedTokens
from steer_trl.trainer.generation import Generation
from steer_trl.trainer.hold_callback import HoldCallback
from steer_trl.trainer.inputs import ForwardPass
from steer_trl.trainer.loaded_weights import complete_frozen_models, shard_with_weights_of_main
from steer_trl.trainer.log.step_means import StepMeans
from steer_trl.trainer.log.terminal import show_lines
from steer_trl.trainer.log.token_samples import TokenLog
from steer_trl.trainer.rollout import RolloutShaping
from steer_trl.trainer.sampling.resample import Resampling
from steer_trl.trainer.step import OptimizerStep
from steer_trl.trainer.trl import (
    TAGS,
    EvalDataset,
    GRPOTrainer,
    build_reference,
    forget_rollout,
    intercept_sharding,
)


class Parts:
    """The parts that a `SteerGRPOTrainer` adds to TRL's trainer.

    They are made before TRL's constructor runs, because it calls hooks that need them.

    `shapers` maps the names in `advantage_shaping` to the methods. `hold` is the controller of `hold_entropy`, which
    sets the strength of one method, or `None`. `facts` are what alarms read beside the log. `was_finished` states
    whether the run was already finished when `train` was last called.
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
        self.start = StartEntropy(count_first_rollouts(args))
        self.hold = None if args.hold_entropy is None else HoldEntropy(args, self.shapers, self.start)
        is_held = self.hold is not None
        self.reads = Reads.of(self.shapers.values(), args.shaping_scope, is_held, is_logged=args.diagnostics)
        self.resampling = Resampling(trainer) if args.dynamic_sampling == "resample" else None
        self.generation = Generation(trainer, args.skips_padding, is_compiled)
        self.generated = GeneratedTokens(trainer)
        self.padding = Padding(trainer, args.skips_padding, is_compiled)
        self.ordering = Ordering(trainer, self.padding, self.shapers)
        self.forward = Forward(trainer, self.padding, self.reads)
        self.passes = Passes()
        self.tripwire = Tripwire(trainer, self.shapers, self.reads, resamples=self.resampling is not None)
        self.rollouts = RolloutShaping(
            trainer,
            shapers=self.shapers,
            reads=self.reads,
            hold=self.hold,
            generated=self.generated,
            start=self.start,
            passes=self.passes,
            tripwire=self.tripwire,
        )
        self.tokens = TokenLog(trainer, self.rollouts)
        self.step = OptimizerStep(
            trainer,
            shapers=self.shapers,
            reads=self.reads,
            hold=self.hold,
            rollouts=self.rollouts,
            tokens=self.tokens,
            tripwire=self.tripwire,
            passes=self.passes,
            is_compiled=is_compiled,
        )
        self.facts = self._find_facts(args)
        self.alarms = AlarmReporter(AlarmWatch(facts=self.facts))
        self.sampled = SampledAsScored(trainer, self.alarms)
        self.cards = ModelCards(trainer, self.shapers, benchmarks, self.tags)
        self.benchmarks = BenchmarkRuns(trainer, benchmarks, beside_rewards=eval_dataset is not None)
        stateful: dict[str, Any] = {"start_entropy": self.start, **self.shapers}
        if self.hold is not None:
            # The controller is loaded after `start_entropy`, because its level may be relative to the start entropy.
            stateful[self.hold.name] = self.hold
        stateful |= {"alarms": self.alarms.watch, "generated": self.generated, "rollout": self.rollouts}
        self.checkpoints = Checkpoints(trainer, stateful, self.resampling)

    def _find_facts(self, args: SteerGRPOConfig) -> dict[str, float]:
        """Return facts that alarms read and the log lacks, as numbers by name."""
        methods = [name for name, shaper in self.shapers.items() if shaper.overrides(*ROLLOUT_HOOKS)]
        facts = {ON_ROLLOUTS + name: 1.0 for name in methods}
        return facts | ({IS_TRUNCATED: 1.0} if truncation(args) is not None else {})

    @contextmanager
    def prepare_constructor(self, args: SteerGRPOConfig) -> Iterator[None]:
        """Let TRL's constructor, called inside, make everything that methods need of it, with complete weights."""
        needs_reference = find_kl_coef(self.shapers) is not None
        reference = build_reference(self._trainer, args) if needs_reference else nullcontext()
        with reference, intercept_sharding(shard_with_weights_of_main):
            yield
        complete_frozen_models(self._trainer)

    def attach(self) -> None:
        """Check the constructed trainer, and register the callbacks.

        The first callbacks are the one that prepares `hold_entropy` and the one that loads checkpoints.
        """
        trainer = self._trainer
        args = trainer.args
        check_attributes(trainer)
        check_tokenizer_of(trainer)
        self._replace_infinite_biases()
        check_correctness_of(trainer)
        if trainer.is_world_process_zero():
            warn_about_sampling_mismatch(args, trainer.model)
            self.rollouts.correctness.remark_ignored()
        if args.terminal_log != "dict":
            show_lines(trainer, with_dictionary=args.terminal_log == "both")
        callbacks = self.callbacks_of_training()
        callbacks += [RunLog(self.cards.describe)] if args.run_log else []
        callbacks += [self.alarms, FrozenModelAlarm(trainer, self.alarms)] if args.alarms else []
        for callback in callbacks:
            trainer.add_callback(callback)
        postpone_checkpoints(trainer)
        args.seal()

    def callbacks_of_training(self) -> list[TrainerCallback]:
        """Return the callbacks that the training depends on, in their order. Those that only report are left out."""
        trainer = self._trainer
        # The path of the target must be known before a checkpoint is loaded.
        first: list[TrainerCallback] = [] if self.hold is None else [HoldCallback(trainer, self.hold, self.generated)]
        return [*first, self.checkpoints, self.tripwire, self.generated, StepMeans(trainer)]

    def finish_rollout(
        self, build: Callable[[list[dict[str, Any]]], dict[str, Any]], inputs: list[dict[str, Any]]
    ) -> dict[str, Any]:
        """Call the trainer's complete rollout method, `build`, and shape the advantages of a training rollout."""
        if not self._trainer.model.training:
            return build(inputs)
        self.rollouts.begin_rollout()
        return self.tokens.mark(self.rollouts.finish(build(inputs)))

    def read_completions(self, generate: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Call the complete `_generate`, count its tokens, and compare its policy with the one that scores them."""
        generated = self.generated.count_all(generate, *args, **kwargs)
        self.sampled.measure(generated)
        return generated

    def _replace_infinite_biases(self) -> None:
        # Without a method, the model stays as TRL trains it.
        if self.shapers:
            replace_infinite_biases(self._trainer.model)

    def run_pass(self, forward_pass: ForwardPass, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        """Run TRL's `forward_pass` without padding, and keep the sensitivities that its caller wants."""
        inputs = name_arguments(args, kwargs)
        model = inputs.pop("model")
        outputs, score = self.forward.run(forward_pass, self.passes.wants_sensitivities, model, inputs)
        self.passes.sensitivities = score.sensitivities
        return outputs

    def begin_training(self, checkpoint: str | None) -> None:
        """Start training from `checkpoint`, or from step 0 if it is `None`.

        A rollout that an interrupted run left unfinished is discarded.
        """
        check_trainable(self._trainer.model)
        # The user may have changed the model since the trainer was made.
        self._replace_infinite_biases()
        forget_rollout(self._trainer)
        self.checkpoints.begin_training(checkpoint)
        self.padding.begin_training()
        self.ordering.begin_training()
        self.step.begin_training()
        self.generated.begin(checkpoint)
        self.sampled.begin_training()

    def resume_position(self, epoch: int, batch: int) -> tuple[int, int]:
        """Return the epoch and batch to start from. If the run is finished, they are past its end."""
        state = self._trainer.state
        if self.generated.was_spent:
            state.max_steps = state.global_step
        self.was_finished = is_at_its_end(state)
        return (state.num_train_epochs, 0) if self.was_finished else (epoch, batch)
