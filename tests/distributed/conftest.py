"""Runs of the real trainer on given completions: alone, or on two processes."""

import json
from pathlib import Path

import pytest
from support import processes
from support.processes import TWO_PROCESSES
from support.runs import CHARACTERS, save_judge, save_tiny_model


def has_reference(fields):
    """Whether TRL reads a reference model for a run with these settings."""
    return bool(fields.get("beta")) or "kl" in (fields.get("advantage_shaping"), fields.get("hold_entropy_by"))


SCRIPT = Path(__file__).parent / "fixed_rollout.py"


@pytest.fixture(scope="session")
def run_cases(tmp_path_factory):
    """Train cases in one call: `run_cases(cases)`, or on two processes `run_cases(cases, TWO_PROCESSES)`."""

    def train(cases, engine=None, **options):
        folder = tmp_path_factory.mktemp("cases")
        (folder / "cases.json").write_text(json.dumps(cases))
        if any(has_reference(case["fields"]) for case in cases):
            save_tiny_model(folder / "reference", CHARACTERS)
        if any(case.get("judge") for case in cases):
            save_judge(folder / "judge")
        processes.run(SCRIPT, "cases.json", "out.json", engine=engine, folder=folder, **options)
        return json.loads((folder / "out.json").read_text())

    return train


@pytest.fixture(scope="session")
def run_splits(run_cases):
    """Train each key in each of its splits: `case(key, size, count)`; the results by key, in the order of its splits.

    A split is (processes, sequences per micro-batch, micro-batches).
    """

    def train(keys, splits_of, case):
        found = {key: [] for key in keys}
        for count, engine in ((1, None), (2, TWO_PROCESSES)):
            splits = [(key, *sizes) for key in keys for used, *sizes in splits_of(key) if used == count]
            results = run_cases([case(*split) for split in splits], engine)
            for (key, *_), result in zip(splits, results, strict=True):
                found[key].append(result)
        return found

    return train
