"""Folders as evaluations leave them, of models that solve each problem with a given probability; nothing is drawn."""

import numpy as np

from steer_trl.evaluation.records import Records, SampleRecord
from steer_trl.evaluation.summary import summarize

SETTINGS = {"sampling": {"temperature": 1.0, "top_p": 0.7, "seed": 0}, "benchmarks": {"a": {"samples": 4}}}


def write_evaluation(folder, skill, seed=0, settings=SETTINGS, name="a", samples=4, model="m"):
    """Write an evaluation of a model that solves problem i with probability `skill[i]`; return its folder."""
    rng = np.random.default_rng(seed)
    records = Records(folder, settings | {"model_name_or_path": model})
    entries = [
        SampleRecord(number, name, f"p{number}", sample, "1", bool(correct), False, "1", False, 3, "1")
        for number, probability in enumerate(skill)
        for sample, correct in enumerate(rng.random(samples) < probability)
    ]
    records.append(entries[::-1])  # batches are written in the order in which they end
    records.write_summary(summarize(entries))
    return folder
