"""Evaluation during training: the benchmarks run where TRL evaluates, and their metrics are its metrics."""

from typing import Any

from transformers.trainer_utils import EvalLoopOutput
from trl import GRPOTrainer

from steer_trl.evaluation import BenchmarkEvaluation
from steer_trl.validation import refuse


class BenchmarkedTrainer(GRPOTrainer):
    """TRL's trainer that evaluates on math benchmarks as well as, or instead of, an `eval_dataset`."""

    _runs_benchmarks = False

    def _take_benchmarks(self, benchmarks: BenchmarkEvaluation | None, arguments: dict[str, Any]) -> None:
        """Check and keep `benchmarks`, before the `arguments` of [`~trl.GRPOTrainer`] are used; may add to these."""
        self.benchmarks = benchmarks
        self._evaluates_rewards = arguments.get("eval_dataset") is not None
        if benchmarks is None:
            return
        if not self._evaluates_rewards:
            arguments["eval_dataset"] = benchmarks.benchmarks[0].dataset  # the Trainer wants one
        args, complaints = arguments.get("args"), []
        if args is not None:
            complaints += benchmarks.complaints(args.metric_for_best_model, self._evaluates_rewards)
        if arguments.get("environment_factory") is not None:
            complaints.append("benchmarks is refused with environment_factory: a benchmark has no environment.")
        if arguments.get("tools"):
            complaints.append(
                "benchmarks cannot be combined with tools: the prompts would offer them, and nothing would run the "
                "calls. Leave benchmarks unset, and evaluate saved checkpoints with steer-trl eval."
            )
        refuse(complaints, "benchmarks")

    def evaluate(
        self, eval_dataset: Any = None, ignore_keys: list[str] | None = None, metric_key_prefix: str = "eval"
    ) -> dict[str, float]:
        """Evaluate as TRL does on the `eval_dataset`, if there is one, and on the benchmarks.

        The benchmarks are not for a data set that is given here. With several named ones they come with the first.
        """
        names = list(self.eval_dataset) if isinstance(self.eval_dataset, dict) else [None]
        self._runs_benchmarks = self.benchmarks is not None and (
            eval_dataset is names[0] or (isinstance(eval_dataset, str) and eval_dataset == names[0])
        )
        try:
            return super().evaluate(eval_dataset, ignore_keys, metric_key_prefix)
        finally:
            self._runs_benchmarks = False

    def evaluation_loop(self, dataloader: Any, *args: Any, **kwargs: Any) -> EvalLoopOutput:
        """Run TRL's loop, or the benchmarks, or both; see [`evaluate`]."""
        if not self._runs_benchmarks:
            return super().evaluation_loop(dataloader, *args, **kwargs)
        if self._evaluates_rewards:
            output = super().evaluation_loop(dataloader, *args, **kwargs)
        else:
            self.model.eval()  # TRL's log asks the model which metrics are meant
            output = EvalLoopOutput(None, None, {}, self.benchmarks.num_samples)
        output.metrics.update({f"eval_{key}": value for key, value in self.benchmarks(self).items()})
        return output
