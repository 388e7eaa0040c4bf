"""The same evaluation at intervals of a training run, with the engine that the run generates with."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from steer_trl.evaluation.benchmarks import Benchmark, one_sample_if_greedy
from steer_trl.evaluation.evaluate import evaluate
from steer_trl.evaluation.records import Records
from steer_trl.evaluation.report import summarize
from steer_trl.evaluation.sampling import Generator, Sampling
from steer_trl.rewards import MathReward


class BenchmarkEvaluation:
    """Evaluate on benchmarks whenever the trainer evaluates, and let the best checkpoint be chosen by them.

    The metrics go into TRL's log as `eval_aime24_avg@32`, `eval_aime24_pass@32`, `eval_aime24_maj@32`, ..., and
    `eval_average_avg` for the mean over benchmarks; `metric_for_best_model="aime24_avg@32"` selects on one. Every
    completion is written to `output_dir/benchmarks/step-N/`. `per_device_eval_batch_size` are drawn at once.

    Args:
        benchmarks (`Sequence[Benchmark]`): from [`~steer_trl.evaluation.load_benchmarks`].
        sampling ([`Sampling`]): how completions are drawn.
        judge ([`MathReward`], *optional*): whose verdict counts; it need not be the reward that is trained on.
    """

    def __init__(
        self, benchmarks: Sequence[Benchmark], sampling: Sampling | None = None, judge: MathReward | None = None
    ) -> None:
        self.sampling = sampling or Sampling()
        self.benchmarks = one_sample_if_greedy(benchmarks, self.sampling)
        self.judge = judge or MathReward()

    @property
    def num_samples(self) -> int:
        """Completions that one evaluation draws."""
        return sum(len(benchmark.dataset) * benchmark.num_samples for benchmark in self.benchmarks)

    def complaints(self, metric_for_best_model: str | None, has_other_metrics: bool) -> list[str]:
        """Say that no metric has the name that the best checkpoint is to be chosen by, if that is so."""
        entry = dict.fromkeys(("id", "correct", "answer", "vote", "timed_out", "truncated", "num_tokens"), 0)
        entries = [
            entry | {"completion": "", "benchmark": b.name} for b in self.benchmarks for _ in range(b.num_samples)
        ]
        names = sorted(flatten(summarize(entries)))
        wanted = (metric_for_best_model or names[0]).removeprefix("eval_")
        if wanted in names or (has_other_metrics and "@" not in wanted):
            return []
        return [
            f"metric_for_best_model must be one of {', '.join(names)}, which the benchmarks measure, got "
            f"{metric_for_best_model!r}."
        ]

    def __call__(
        self, generate: Generator, output_dir: str, step: int, batch_size: int, writes: bool = True
    ) -> dict[str, float]:
        """Return the metrics of the model that `generate` draws with. Collective.

        Args:
            generate: draws completions, on each rank.
            output_dir (`str`), step (`int`): where a process that `writes` leaves them.
            batch_size (`int`): completions drawn at once, on each rank.
            writes (`bool`): of one process only.
        """
        records = None
        if writes:
            records = Records(Path(output_dir, "benchmarks", f"step-{step}"), {"step": step}, overwrite=True)
        desc = f"Benchmarks at step {step}"
        entries = evaluate(self.benchmarks, generate, self.judge, self.sampling, batch_size, records, desc)
        summary = summarize(entries)
        if records:
            records.write_summary(summary)
        return flatten(summary)


def flatten(summary: dict[str, Any]) -> dict[str, float]:
    """Return the means of a summary under one name each: `aime24_avg@32`, ..., `average_avg`."""
    rows = {name: row["metrics"] for name, row in summary["benchmarks"].items()}
    if len(rows) > 1:
        rows["average"] = summary["average"]
    return {f"{name}_{key}": mean for name, row in rows.items() for key, (mean, _) in row.items()}
