"""Controls: arms that change one thing of the baseline, or of the better held arm, each compared with both."""

from statistics import mean

from pairs import BASELINE, JUDGED, PRIMARY, PROTOCOL, Arms, differences_of, entropy_at_end, mean_of, pairs_of

from steer_trl.evaluation.summary import markdown_table

HELD = JUDGED[0]


def controls(arms: Arms) -> str:
    """What every control ends with, and how it differs from the baseline and from the constant level."""
    rows = [row for arm in (BASELINE, HELD, *(arm for arm in arms if arm not in PROTOCOL)) for row in _rows(arms, arm)]
    if all(row[0] in PROTOCOL for row in rows):
        return ""
    text = (
        "### Controls\n\nSecondary, uncorrected 95 % intervals over problems and runs; the baseline and the constant "
        "level of the\nsame starts and seeds. Entropy in nats per token at the end.\n\n"
    )
    head = ["", "runs", "measure", "ends with", f"against {BASELINE}", f"against {HELD}"]
    return text + markdown_table(head, rows)


def _rows(arms: Arms, arm: str) -> list[list[str]]:
    """One of the entropy, one of each primary measure; of the arms of the protocol, the runs that controls have."""
    tried = {pair for name, runs in arms.items() if name not in PROTOCOL for pair in runs}
    runs = [run for pair, run in arms.get(arm, {}).items() if pair in tried]
    if not runs:
        return []
    rows = [[arm, str(len(runs)), "entropy", f"{mean(map(entropy_at_end, runs)):.3f}", "", ""]]
    others = [(), ()] if arm in PROTOCOL else [_differences(arms, arm, other) for other in (BASELINE, HELD)]
    for i, (name, measure) in enumerate(PRIMARY.items()):
        rows.append(["", "", name, f"{mean_of(runs, measure):.3f}", *(found[i] if found else "" for found in others)])
    return rows


def _differences(arms: Arms, arm: str, other: str) -> list[str]:
    """Of each primary measure; nothing of a single pair, which has no interval over runs."""
    if len(pairs_of(arms, arm, other)) < 2:
        return []
    found = differences_of(arms, arm, other)
    return [f"{found[name].difference:+.3f} ({found[name].low:+.3f} to {found[name].high:+.3f})" for name in PRIMARY]
