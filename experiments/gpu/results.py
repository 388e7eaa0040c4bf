"""The one file with the results of all runs, and the table, which is made from this file alone.

The file has the settings, versions, the name of the card, the log of each run by rollouts, and the number of correct
answers to each problem. It has no prompts, completions, paths, names of machines or users, and no settings but those
of the recipe and the plan.
"""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

from experiments.gpu.plan import ARMS, BASELINE, Run, settings_of
from experiments.lab import Experiment
from experiments.lab.published import Published, unpacked, values_of
from experiments.lab.records import file_of, publish, write_record
from experiments.lab.results import Result
from experiments.lab.runs import START
from experiments.lab.tables import markdown_table
from steer_trl.cli.recipe_files import load_recipe
from steer_trl.curves import series
from steer_trl.evaluation.folders import compare_evaluations
from steer_trl.monitoring.run_log import PACKAGES
from steer_trl.support.system import find_versions

FILE = "gpu.json"
RECORDS = "records"
SAMPLING, BENCHMARK = "t1", "test"
K = 16
LAST = 3
"""The final entropy is the mean over this many rollouts."""
UNSHARED = ("model_name_or_path", "dataset_name", "output_dir")
"""Settings of the recipe that the runs replace by folders and files."""
Record = dict[str, Any]


def find_device(is_tiny: bool) -> str:
    """Return the name of the GPU. Another process asks for it, because this one would take some of its memory."""
    if is_tiny:
        return "CPU, tiny"
    code = (
        "import torch; p = torch.cuda.get_device_properties(0); print(f'{p.name}, {p.total_memory / 2**30:.0f} GiB')"
    )
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def path_of(experiment: Experiment, run: Run | None) -> Path:
    """Return the path of a run's record, or of the start model's."""
    arm, seed = (START, None) if run is None else (run.arm, run.seed)
    return file_of(experiment.output_dir / RECORDS, arm, experiment.seed, seed)


def write_run(experiment: Experiment, run: Run | None, device: str, is_tiny: bool) -> None:
    """Write the record of a finished run, or of the start model."""
    more = {"device": device, "versions": find_versions(PACKAGES)}
    if run is None:
        publish(path_of(experiment, None), experiment, START, START, more=more)
        return
    log = Result(experiment.folder(run.name)).log
    # The clock of a resumed run begins again, but each step has its own time.
    more["step_seconds"] = round(sum(seconds for _, seconds in series(log, "step_time")), 3)
    settings = settings_of(run, is_tiny)
    publish(path_of(experiment, run), experiment, run.name, run.arm, run.seed, settings, more)


def write_file(experiment: Experiment, runs: Sequence[Run]) -> Path:
    """Write the file with the records of the start model and of the finished runs, and return its path."""
    paths = [path for run in (None, *runs) if (path := path_of(experiment, run)).exists()]
    recipe = load_recipe(experiment.task.recipe)
    shared = {name: value for name, value in recipe.items() if name not in UNSHARED}
    record = {"task": experiment.task.name, "recipe": shared, "arms": ARMS}
    if experiment.task.start == recipe["model_name_or_path"]:
        record["model"] = experiment.task.start
    file = experiment.output_dir / FILE
    write_record(file, record | {"runs": [json.loads(path.read_text()) for path in paths]})
    return file


def table(file: Record) -> str:
    """Return the table of a file, with the differences from the baseline, as text."""
    runs = file["runs"]
    head = ("", "one try", f"{K} tries", "entropy", "generated per trained token", "tokens a second", "hours")
    lines = [*_describe(runs), "", markdown_table(head, map(_cells, runs)), "", *_differences(runs)]
    return "\n".join(lines)


def _describe(runs: Sequence[Record]) -> list[str]:
    """Return the lines with the devices, the versions and what the columns mean."""
    devices = sorted({run["device"] for run in runs})
    versions = sorted({f"{name} {version}" for run in runs for name, version in run["versions"].items()})
    problems = len(_counts(runs[0])["correct"])
    return [
        f"{'; '.join(devices)}; {', '.join(versions)}.",
        f"{problems} test problems at temperature 1: the share solved in one try, the mean of {K}, and in {K}.",
        f"Entropy in nats a token: of the first rollout, and of the last {LAST}. Tokens a second: generated, over the "
        "time of generation, rewards and updates.",
    ]


def _cells(run: Record) -> list[str]:
    """Return the cells of a run's row."""
    metrics = _metrics(run)
    name = run["arm"] if run["seed"] is None else f"{run['arm']}, seed {run['seed']}"
    cells = [name, *(f"{100 * fmean(metrics[metric].values()):.1f} %" for metric in (f"avg@{K}", f"pass@{K}"))]
    if "rollouts" not in run:
        return [*cells, *[""] * 4]
    course = run["rollouts"]
    first, last = course["entropy"][0], fmean(course["entropy"][-LAST:])
    speed = run["generated_tokens"] / run["step_seconds"]
    hours = run["step_seconds"] / 3600
    return [*cells, f"{first:.3f} -> {last:.3f}", f"{per_trained_token(course):.2f}", f"{speed:,.0f}", f"{hours:.1f}"]


def per_trained_token(course: Mapping[str, Sequence[Any]]) -> float:
    """Return the generated tokens of a run for each one that it was trained on.

    A rollout without dynamic sampling is trained on whole.
    """
    totals = [0, *course["generated_tokens"]]
    tokens = [after - before for before, after in pairwise(totals)]
    ratios = course.get("dynamic_sampling/tokens_per_trained_token") or [1.0] * len(tokens)
    trained = sum(count / ratio for count, ratio in zip(tokens, ratios, strict=True) if ratio)
    return sum(tokens) / trained if trained else float("nan")


def _differences(runs: Sequence[Record]) -> list[str]:
    """Return how much each arm differs from the baseline, over all seeds that both have."""
    by_arm: dict[str, dict[int, Record]] = {}
    for run in runs:
        by_arm.setdefault(run["arm"], {})[run["seed"]] = run
    lines = []
    for arm in ARMS:
        seeds = [seed for seed in by_arm.get(arm, {}) if seed in by_arm.get(BASELINE, {})]
        if arm == BASELINE or not seeds:
            continue
        sides = [[_evaluation(by_arm[side][seed]) for seed in seeds] for side in (BASELINE, arm)]
        found = compare_evaluations(*sides, paired=len(seeds) > 1)[BENCHMARK]
        words = [
            f"{100 * one.difference:+.1f} points ({100 * one.low:+.1f} to {100 * one.high:+.1f}) in {tries}"
            for tries, one in (("one try", found[f"avg@{K}"]), (f"{K} tries", found[f"pass@{K}"]))
        ]
        what = f"seed{'s' if len(seeds) > 1 else ''} {', '.join(map(str, seeds))}"
        lines.append(f"{arm} against {BASELINE}, {what}, with 95 % intervals: {'; '.join(words)}.")
    return lines


def _counts(run: Record) -> dict[str, Any]:
    return unpacked(BENCHMARK, run["evaluations"][SAMPLING]["benchmarks"][BENCHMARK])


def _evaluation(run: Record) -> Published:
    """Return a run's evaluation as `steer-trl compare` reads it."""
    settings = run["evaluations"][SAMPLING]["settings"]
    seed = run["seed"]
    return Published(Path(f"{run['arm']}-{seed}"), settings, {BENCHMARK: _counts(run)}, (run["start"], seed))


def _metrics(run: Record) -> dict[str, dict[str, float]]:
    return values_of({BENCHMARK: _counts(run)})[BENCHMARK]
