"""Sweeps over temperatures below runs: accuracy against pass@k, and the best temperature for k tries."""

from collections.abc import Sequence
from typing import Any

from steer_trl.evaluation.frontier import Sweep
from steer_trl.evaluation.sweeps import sweeps, sweeps_in
from steer_trl.report.evaluations import Evaluated, Samplings


def frontiers(below: Sequence[Evaluated], groups: Sequence[Sequence[int]]) -> list[dict[str, Any]]:
    """Return what the page draws: for each name and benchmark, a curve of each group whose runs were all swept."""
    pictures: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for name in sorted({name for one in below for name in one.found}):
        for i, group in enumerate(groups):
            if all(len(below[place].found.get(name, ())) > 1 for place in group):
                for benchmark, sweep in _swept([below[place].found[name] for place in group]).items():
                    pictures.setdefault((name, benchmark), []).append({"group": i} | _curve(sweep))
    return [{"name": name, "benchmark": one, "curves": curves} for (name, one), curves in pictures.items()]


def _swept(read: Sequence[Samplings]) -> dict[str, Sweep]:
    """The largest sweep of each run, by benchmark; nothing where a run has none, or another one."""
    try:
        found = [max(sweeps_in(one.values()).values(), key=len, default={}) for one in read]
        is_one = len(found[0]) > 1 and all([*one] == [*found[0]] for one in found)
        return sweeps(found) if is_one else {}
    except (ValueError, LookupError, TypeError, AttributeError):  # other problems, or settings of none of ours
        return {}


def _curve(sweep: Sweep) -> dict[str, Any]:
    """Temperature, accuracy and pass@ the most tries of each point; of each k the best temperature, pass@k there."""
    means = {k: sweep.solved(k).mean((1, 2)) for k in sweep.tries}
    most = sweep.tries[-1]
    points = zip(sweep.temperatures, means[1], means[most], strict=True)
    best = [(k, sweep.temperatures[of_k.argmax()], float(of_k.max())) for k, of_k in means.items()]
    return {"k": most, "points": [list(map(float, point)) for point in points], "best": best}
