"""Evaluates on math benchmarks, by the same code on the command line and during training.

During training the metrics must come from the present policy, on all ranks, with the engine that
generates for the training. They must equal what `steer-trl eval` gives for the checkpoint. No
harness does both, so this is one code.
"""

from typing import TYPE_CHECKING

from steer_trl.system import import_lazily

if TYPE_CHECKING:
    from steer_trl.evaluation.benchmarks import PAPER_SAMPLES, Benchmark, load_benchmarks
    from steer_trl.evaluation.in_training import BenchmarkEvaluation
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

__getattr__ = import_lazily(  # to read an evaluation again, and to compare two, takes no torch
    __name__,
    benchmarks=("PAPER_SAMPLES", "Benchmark", "load_benchmarks"),
    in_training=("BenchmarkEvaluation",),
    loop=("evaluate",),
    metrics=("majority_vote", "mean_and_interval", "pass_at_k"),
    records=("Records",),
    sampling=("Completion", "Sampling", "load_samplings"),
    summary=("summarize", "table"),
)
