"""Evaluation on math benchmarks: avg@k, pass@k and maj@k, from the command line and during training, by one code."""

from steer_trl.evaluation.benchmarks import PAPER_SAMPLES, Benchmark, load_benchmarks
from steer_trl.evaluation.evaluate import evaluate
from steer_trl.evaluation.in_training import BenchmarkEvaluation
from steer_trl.evaluation.judges import RewardJudge
from steer_trl.evaluation.metrics import majority_vote, mean_and_interval, pass_at_k
from steer_trl.evaluation.records import Records
from steer_trl.evaluation.report import summarize, table
from steer_trl.evaluation.sampling import Completion, Sampling, load_samplings

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
