"""Evaluation on math benchmarks: avg@k, pass@k and maj@k, from the command line and during training, by one code."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from steer_trl.evaluation.benchmarks import PAPER_SAMPLES, Benchmark, load_benchmarks
    from steer_trl.evaluation.in_training import BenchmarkEvaluation
    from steer_trl.evaluation.judges import RewardJudge
    from steer_trl.evaluation.loop import evaluate
    from steer_trl.evaluation.metrics import majority_vote, mean_and_interval, pass_at_k
    from steer_trl.evaluation.records import Records
    from steer_trl.evaluation.sampling import Completion, Sampling, load_samplings
    from steer_trl.evaluation.summary import summarize, table

__all__ = [
    "PAPER_SAMPLES",
    "Benchmark",
    "BenchmarkEvaluation",
    "Completion",
    "Records",
    "RewardJudge",
    "Sampling",
    "evaluate",
    "load_benchmarks",
    "load_samplings",
    "majority_vote",
    "mean_and_interval",
    "pass_at_k",
    "summarize",
    "table",
]

_HOMES = {
    "PAPER_SAMPLES": "benchmarks",
    "Benchmark": "benchmarks",
    "BenchmarkEvaluation": "in_training",
    "Completion": "sampling",
    "Records": "records",
    "RewardJudge": "judges",
    "Sampling": "sampling",
    "evaluate": "loop",
    "load_benchmarks": "benchmarks",
    "load_samplings": "sampling",
    "majority_vote": "metrics",
    "mean_and_interval": "metrics",
    "pass_at_k": "metrics",
    "summarize": "summary",
    "table": "summary",
}


def __getattr__(name: str) -> Any:
    """Import what is asked for: to read an evaluation again, and to compare two, takes no torch."""
    if name in _HOMES:
        return getattr(import_module(f"steer_trl.evaluation.{_HOMES[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
