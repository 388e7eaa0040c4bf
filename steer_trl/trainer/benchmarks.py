"""Math benchmarks as TRL's evaluation: they run where TRL evaluates, and their metrics are its metrics."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
from transformers.trainer_utils import EvalLoopOutput

from steer_trl.evaluation import BenchmarkEvaluation
from steer_trl.trainer.generation import TrainerGenerator
from steer_trl.trainer.trl import GRPOTrainer
from steer_trl.validation import refuse

CANNOT_BE_COMBINED = {
    "environment_factory": "a benchmark has no environment",
    "tools": "the prompts would offer them, and nothing would run the calls",
}


def benchmarks_complaints(benchmarks: Any) -> list[str]:
    """Complain about benchmarks that are names rather than an evaluation, with the line that makes one of them."""
    if benchmarks is None or isinstance(benchmarks, BenchmarkEvaluation):
        return []
    names = [benchmarks] if isinstance(benchmarks, str) else benchmarks
    is_names = isinstance(names, (list, tuple)) and all(isinstance(name, str) for name in names)
    what = f"load_benchmarks({list(names)!r})" if is_names else "load_benchmarks(['math500'])"
    return [
        f"benchmarks must be a BenchmarkEvaluation, got {benchmarks!r:.80}. Write BenchmarkEvaluation({what}), both "
        "of steer_trl.evaluation."
    ]


class BenchmarkRuns:
    """When the benchmarks run: beside an `eval_dataset`, or instead of one.

    Checks them against the `arguments` of [`~trl.GRPOTrainer`], before these are used, and may add to these.

    Attributes:
        are_due (`bool`): whether the evaluation that is running is one of them.
        beside_rewards (`bool`): whether there is an `eval_dataset`, too.
    """

    def __init__(self, evaluation: BenchmarkEvaluation | None, arguments: dict[str, Any]) -> None:
        self.are_due, self._prefix = False, "eval"
        self.beside_rewards = arguments.get("eval_dataset") is not None
        self._evaluation = evaluation
        if evaluation is None:
            return
        if not self.beside_rewards:
            arguments["eval_dataset"] = evaluation.benchmarks[0].dataset  # the Trainer wants one
        args, complaints = arguments.get("args"), []
        if args is not None:
            complaints += evaluation.complaints(args.metric_for_best_model, self.beside_rewards)
        complaints += [
            f"benchmarks cannot be combined with {name}: {why}. Leave benchmarks unset, and evaluate saved "
            "checkpoints with steer-trl eval."
            for name, why in CANNOT_BE_COMBINED.items()
            if arguments.get(name)
        ]
        refuse(complaints, "benchmarks")

    @contextmanager
    def of_evaluation(self, trainer: GRPOTrainer, eval_dataset: Any, prefix: str) -> Iterator[None]:
        """Make the benchmarks due if it is the trainer's own (first) data set that is evaluated on.

        Their metrics begin with `prefix`, without the name of that data set.
        """
        own = list(trainer.eval_dataset) if isinstance(trainer.eval_dataset, dict) else [None]
        is_own = eval_dataset is own[0] or (isinstance(eval_dataset, str) and eval_dataset == own[0])
        self.are_due = self._evaluation is not None and is_own
        self._prefix = prefix.removesuffix(f"_{own[0]}")
        try:
            yield
        finally:
            self.are_due = False

    def add_metrics(self, trainer: GRPOTrainer, output: EvalLoopOutput | None) -> EvalLoopOutput:
        """Run the benchmarks and put their metrics beside those of TRL's loop, if that has run."""
        assert self._evaluation is not None  # it is due
        if output is None:
            trainer.model.eval()  # TRL's log asks the model which metrics are meant
            output = EvalLoopOutput(np.empty(0), None, {}, self._evaluation.num_samples)
        measured = self._evaluation(
            TrainerGenerator(trainer),
            trainer.args.output_dir,
            trainer.state.global_step,
            trainer.args.per_device_eval_batch_size,
            writes=trainer.is_world_process_zero(),
        )
        metrics = (output.metrics or {}) | {f"{self._prefix}_{key}": value for key, value in measured.items()}
        return output._replace(metrics=metrics)
