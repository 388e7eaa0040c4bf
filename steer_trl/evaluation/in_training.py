"""Evaluates the policy during training, with the engine that generates the rollouts."""

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

from steer_trl.evaluation.benchmarks import Benchmark, limit_greedy_samples
from steer_trl.evaluation.loop import evaluate
from steer_trl.evaluation.questions import describe_benchmarks, describe_judge
from steer_trl.evaluation.records import Records, SampleRecord
from steer_trl.evaluation.sampling import Generator, Sampling, find_name_complaints
from steer_trl.evaluation.summary import flatten, join_names, summarize
from steer_trl.rewards import MathReward
from steer_trl.support.validation import refuse


class BenchmarkEvaluation:
    """Evaluates the policy on benchmarks whenever the trainer evaluates.

    The metrics go into TRL's log as `eval_aime24_avg@32`, `eval_aime24_pass@32`,
    `eval_aime24_maj@32`, ..., and `eval_average_avg` for the mean over benchmarks.
    `metric_for_best_model="aime24_avg@32"` chooses the best checkpoint by one of these metrics.

    Every completion is written to `output_dir/benchmarks/step-N/`, in the files of `steer-trl eval`. Each rank draws
    `per_device_eval_batch_size` completions at once. With several samplings, the name of a metric
    contains the sampling's name after the benchmark's name, as in `eval_aime24_greedy_avg@1`. The
    completions of each sampling are then in a subfolder with the sampling's name.

    Args:
        benchmarks (`Sequence[Benchmark]`): the benchmarks, which
            [`~steer_trl.evaluation.load_benchmarks`] loads.
        sampling ([`Sampling`] or a mapping): the settings for drawing completions. Several samplings
            are given as a mapping from names to settings, which
            [`~steer_trl.evaluation.load_samplings`] returns.
        judge ([`MathReward`] or a reward function, *optional*): decides which completions are
            correct. It may differ from the training reward. With a reward function, a completion is
            correct if its reward is above 0.

    Raises:
        `ValueError`: the name of a sampling cannot be the name of a folder.
    """

    def __init__(
        self,
        benchmarks: Sequence[Benchmark],
        sampling: Sampling | Mapping[str, Sampling] | None = None,
        judge: MathReward | Callable[..., Any] | None = None,
    ) -> None:
        if isinstance(sampling, Mapping):
            refuse(find_name_complaints(sampling), "BenchmarkEvaluation")
        self.samplings = dict(sampling) if isinstance(sampling, Mapping) else {"": sampling or Sampling()}
        self.by_sampling = {
            name: limit_greedy_samples(benchmarks, sampling) for name, sampling in self.samplings.items()
        }
        self.judge = judge or MathReward()

    @property
    def benchmarks(self) -> list[Benchmark]:
        """The benchmarks with the number of samples that the first sampling draws."""
        return next(iter(self.by_sampling.values()))

    @property
    def columns(self) -> dict[str, tuple[Benchmark, Sampling]]:
        """Maps the name that follows `eval_` in the log to a benchmark and a sampling."""
        return {
            join_names(benchmark.name, name): (benchmark, self.samplings[name])
            for name, benchmarks in self.by_sampling.items()
            for benchmark in benchmarks
        }

    @property
    def num_samples(self) -> int:
        """The number of completions that one evaluation draws."""
        return sum(len(benchmark.dataset) * benchmark.num_samples for benchmark, _ in self.columns.values())

    @cached_property
    def questions(self) -> dict[str, dict[str, Any]]:
        """Maps the name of each sampling to the entries of `settings.json` in which comparable evaluations agree."""
        return {
            name: describe_judge(self.judge)
            | {"sampling": vars(sampling), "benchmarks": describe_benchmarks(self.by_sampling[name])}
            for name, sampling in self.samplings.items()
        }

    def complaints(self, metric_for_best_model: str | None, has_other_metrics: bool) -> list[str]:
        """Return a complaint if `metric_for_best_model` is not one of the metrics.

        If `has_other_metrics` is true, any name without `@` is accepted, because TRL may log a
        metric with that name.
        """
        names: list[str] = []
        for sampling, benchmarks in self.by_sampling.items():
            # No samples have been drawn yet, so the names are read from a summary of placeholders.
            judged = [
                SampleRecord(0, benchmark.name, "", sample, None, False, False, None, False, 0, "")
                for benchmark in benchmarks
                for sample in range(benchmark.num_samples)
            ]
            names += flatten(summarize(judged), sampling)
        names.sort()
        metric = (metric_for_best_model or names[0]).removeprefix("eval_")
        if metric in names or (has_other_metrics and "@" not in metric):
            return []
        return [
            f"metric_for_best_model must be one of {', '.join(names)}, which the benchmarks measure, got "
            f"{metric_for_best_model!r}."
        ]

    def __call__(
        self,
        generate: Generator,
        output_dir: str,
        step: int,
        batch_size: int,
        writes: bool = True,
        about: Mapping[str, Any] | None = None,
    ) -> dict[str, float]:
        """Evaluate the model that `generate` draws from, and return the metrics on each rank. Collective.

        Args:
            generate ([`Generator`]): the back end that draws the completions.
            output_dir (`str`): the folder in which completions are written to `benchmarks/step-N`.
            step (`int`): the current optimizer step, N.
            batch_size (`int`): the number of completions that each rank draws at once.
            writes (`bool`): whether this process writes the completions.
            about (*optional*): entries about the model, which are added to `settings.json`.
        """
        metrics: dict[str, float] = {}
        for name, sampling in self.samplings.items():
            records = None
            if writes:
                folder = Path(output_dir, "benchmarks", f"step-{step}", name)
                settings = {"step": step, "batch_size": batch_size, **(about or {}), **self.questions[name]}
                records = Records(folder, settings, overwrite=True)
            desc = " ".join(filter(None, ["Benchmarks", name, f"at step {step}"]))
            entries = evaluate(self.by_sampling[name], generate, self.judge, sampling, batch_size, records, desc)
            summary = summarize(entries)
            if records:
                records.write_summary(summary)
            metrics |= {key: mean for key, (mean, _) in flatten(summary, name).items()}
        return metrics
