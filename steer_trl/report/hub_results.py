"""Puts measured results into the metadata of a model card, where the Hub reads them.

The card also shows these results as a table.
"""

import re
from collections.abc import Iterable
from typing import Any

from huggingface_hub import EvalResult

from steer_trl.data import SOURCES
from steer_trl.data.raw_rows import HUB_PAGE
from steer_trl.evaluation import BenchmarkEvaluation, Sampling
from steer_trl.evaluation.benchmarks import Benchmark

CARD = "README.md"
METRIC_KEY = re.compile(r"eval_(?P<benchmark>.+)_(?P<metric>(?:avg|pass|maj)@\d+)")
HUB_DATASET = re.compile(rf"{re.escape(HUB_PAGE)}([\w.-]+(?:/[\w.-]+)?)")


def read_results(log: Iterable[dict[str, Any]], step: int, benchmarks: BenchmarkEvaluation | None) -> list[EvalResult]:
    """Return the latest benchmark metrics in a training log, up to optimizer step `step`."""
    measured = [entry for entry in log if entry["step"] <= step and any(map(METRIC_KEY.fullmatch, entry))]
    if not measured or benchmarks is None:
        return []
    results = []
    for key, value in measured[-1].items():
        match = METRIC_KEY.fullmatch(key)
        if match and match["benchmark"] in benchmarks.columns:
            benchmark, sampling = benchmarks.columns[match["benchmark"]]
            results.append(_make_result(benchmark, match["metric"], value, sampling, measured[-1]["step"]))
    return results


def _make_result(benchmark: Benchmark, metric: str, value: float, sampling: Sampling, step: int) -> EvalResult:
    """Return a result for `model-index`. If the benchmark is from the Hub, its name on the Hub is used."""
    on_hub = find_hub_datasets(benchmark.dataset)
    source = SOURCES.get(str(benchmark.dataset[0].get("source"))) if on_hub else None
    return EvalResult(
        task_type="text-generation",
        dataset_type=on_hub[0] if on_hub else benchmark.name,
        dataset_name=benchmark.name,
        dataset_config=source.config if source else None,
        dataset_split=source.split if source else None,
        dataset_revision=source.revision if source else None,
        metric_type="accuracy" if metric.startswith("avg") else metric,
        metric_name=metric,
        metric_value=round(float(value), 6),
        metric_args={
            "problems": len(benchmark.dataset),
            "samples": benchmark.num_samples,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "max_tokens": sampling.max_tokens,
            "step": step,
        },
    )


def find_hub_datasets(dataset: Any) -> list[str]:
    """Return the Hub names of the data sets that `dataset` was made from, which its `homepage` lists."""
    info = getattr(dataset, "info", None)
    return sorted(set(HUB_DATASET.findall(getattr(info, "homepage", None) or "")))
