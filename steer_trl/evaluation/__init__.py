"""Evaluates models on math benchmarks, with the same code on the command line and during training.

During training, the metrics must come from the current policy, on all ranks, with the engine that
generates the rollouts. They must also equal the metrics that `steer-trl eval` gives for the
checkpoint. No existing evaluation harness does both, so this package has an evaluation of its own.
"""

from typing import TYPE_CHECKING

from steer_trl.support.system import import_lazily

if TYPE_CHECKING:
    from steer_trl.evaluation.benchmarks import Benchmark, load_benchmarks
    from steer_trl.evaluation.in_training import BenchmarkEvaluation
    from steer_trl.evaluation.loop import evaluate
    from steer_trl.evaluation.metrics import majority_vote, mean_and_interval, pass_at_k
    from steer_trl.evaluation.records import Records
    from steer_trl.evaluation.sampling import Completion, Sampling, load_samplings
    from steer_trl.evaluation.specifications import PAPER_SAMPLES
    from steer_trl.evaluation.summary import summarize, table

__all__ = [
    "PAPER_SAMPLES",
    "Benchmark",
    "BenchmarkEvaluation",
    "Completion",
    "Records",
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

# Each name is imported on first use, so that reading and comparing evaluations does not load torch.
__getattr__ = import_lazily(
    __name__,
    benchmarks=("Benchmark", "load_benchmarks"),
    in_training=("BenchmarkEvaluation",),
    loop=("evaluate",),
    metrics=("majority_vote", "mean_and_interval", "pass_at_k"),
    records=("Records",),
    sampling=("Completion", "Sampling", "load_samplings"),
    specifications=("PAPER_SAMPLES",),
    summary=("summarize", "table"),
)
