"""Measured results in the metadata of a model card, where the Hub reads them.

They are those of the training; its card (`card.py`) has them as a table as well.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from huggingface_hub import EvalResult

from steer_trl.data import SOURCES
from steer_trl.data.reading import HUB_PAGE
from steer_trl.evaluation import BenchmarkEvaluation, Sampling
from steer_trl.evaluation.benchmarks import Benchmark
from steer_trl.evaluation.summary import markdown_table

CARD = "README.md"
OF_LOG = re.compile(r"eval_(?P<benchmark>.+)_(?P<metric>(?:avg|pass|maj)@\d+)")
HUB_DATASET = re.compile(rf"{re.escape(HUB_PAGE)}([\w.-]+(?:/[\w.-]+)?)")


def results_of_log(
    log: Iterable[dict[str, Any]], step: int, benchmarks: BenchmarkEvaluation | None
) -> list[EvalResult]:
    """Return a training log's last benchmark metrics up to `step`."""
    measured = [entry for entry in log if entry["step"] <= step and any(map(OF_LOG.fullmatch, entry))]
    if not measured or benchmarks is None:
        return []
    columns = benchmarks.columns
    return [
        _result(benchmark, match["metric"], value, sampling, measured[-1]["step"])
        for key, value in measured[-1].items()
        if (match := OF_LOG.fullmatch(key)) and match["benchmark"] in columns
        for benchmark, sampling in [columns[match["benchmark"]]]
    ]


def _result(benchmark: Benchmark, metric: str, value: float, sampling: Sampling, step: int) -> EvalResult:
    """In the form of `model-index`. A data set is named as the Hub's only where it was loaded from there."""
    on_hub = datasets_on_hub(benchmark.dataset)
    named = benchmark.dataset[0].get("source")
    source = SOURCES.get(named) if on_hub and isinstance(named, str) else None
    drawn = {name: getattr(sampling, name) for name in ("temperature", "top_p", "max_tokens")}
    counts = {"problems": len(benchmark.dataset), "samples": benchmark.num_samples}
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
        metric_args=counts | drawn | {"step": step},
    )


def datasets_on_hub(dataset: Any) -> list[str]:
    """Return the names on the Hub of where the rows of `dataset` come from, as far as its `homepage` says so."""
    info = getattr(dataset, "info", None)
    return sorted(set(HUB_DATASET.findall(getattr(info, "homepage", None) or "")))


def table(results: Sequence[EvalResult]) -> str:
    """The results of a training as a table of Markdown."""
    if not results:
        return "No benchmark was measured during the training."
    rows = [(r.dataset_name, r.metric_name, r.metric_value, *_how(r.metric_args or {})) for r in results]
    return markdown_table(("benchmark", "metric", "value", "problems", "samples", "sampling"), rows)


def _how(args: Mapping[str, Any]) -> tuple[Any, Any, str]:
    names = {"temperature": "temperature {}", "top_p": "top-p {}", "max_tokens": "{} tokens", "step": "at step {}"}
    return args["problems"], args["samples"], ", ".join(text.format(args[name]) for name, text in names.items())
