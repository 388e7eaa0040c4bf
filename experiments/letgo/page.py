"""Writes results4.md, and the picture of its first block, from the runs of protocol 4 that are published so far.

python -m experiments.letgo.page
"""

import math
import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from statistics import mean

from experiments.dial.analysis import Interval, holm, over_starts
from experiments.lab.runs import ROOT, START
from experiments.lab.tables import markdown_table
from experiments.letgo import analysis, published
from experiments.letgo.analysis import SAMPLES, SAMPLINGS, WITH_F_GRPO, Block, Measure, Model, judge, solved
from experiments.letgo.picture import draw
from experiments.letgo.plan import (
    BASELINE,
    NAMED,
    Plan,
    at_rate,
    look_name,
    look_rates,
    pilot_arm,
    read_plan,
    unit_name,
)
from experiments.letgo.rule import Pilot, Records, look_choice, look_scores, pass_at_temperature_one

PAGE, PICTURE = ROOT / "experiments/results/results4.md", ROOT / "docs/letgo.png"
TEXT = Path(__file__).with_name("results4.md.in")
COLUMNS: dict[str, Measure] = {
    f"{name}, {tries}": solved(sampling, k)
    for sampling, name in SAMPLINGS.items()
    for tries, k in (("one try", 1), ("16 tries", 16))
}
MANY: dict[str, Measure] = {
    f"{name}, different": (lambda model, sampling=sampling: model.different(sampling))
    for sampling, name in SAMPLINGS.items()
}
HELD = (NAMED, WITH_F_GRPO)
NOT_YET = "No start is whole yet."


def cell(interval: Interval, digits: int = 1) -> str:
    """Return a table cell with the mean and half the width of an interval."""
    half = f" ±{interval.half:.{digits}f}" if math.isfinite(interval.half) else ""
    return f"{interval.mean:+.{digits}f}{half}"


def progress(plan: Plan, blocks: Sequence[Block], folder: Path) -> str:
    """Return a table of how many units of each block are whole."""
    rows = [["pilot", len(records_of(folder, "pilot", plan["pilot"]["starts"])), "", ""]]
    for block in blocks:
        runs = len(block.units) * len(plan["blocks"][block.name]["arms"])
        rows.append([f"`{block.name}`", runs, len(block.units), len(block.planned)])
    whole = bool(blocks) and all(block.is_whole for block in blocks)
    state = "All are there." if whole else "**No decision is taken from an unfinished block.**"
    return f"{state}\n\n{markdown_table(['block', 'runs', 'whole starts and runs', 'planned'], rows)}"


def registered(blocks: Sequence[Block]) -> str:
    """Return each registered sentence with its verdict, whatever it is. Holm's correction is over whole blocks."""
    judged = [block for block in blocks if block.units and block.claims]
    if not judged:
        return NOT_YET
    verdicts = {(block.name, claim): judge(block, NAMED, claim) for block in judged for claim in block.claims}
    whole = {block.name for block in judged if block.is_whole}
    corrected = holm({key: verdict.p for key, verdict in verdicts.items() if key[0] in whole})
    rows = []
    for (name, claim), verdict in verdicts.items():
        is_whole = name in whole
        holds = ("holds" if verdict.holds else "does not hold") + ("" if is_whole else " so far")
        p = f"{corrected[name, claim]:.4f}" if is_whole else ""
        rows.append([name, claim.sentence, cell(verdict.interval), holds, p])
    counts = ", ".join(f"{len(block.starts)} starts in `{block.name}`" for block in judged)
    table = markdown_table(["block", "sentence", "points", "", "p by Holm over all whole blocks"], rows)
    return f"{NAMED}, the named form. {counts}.\n\n{table}\n\n{without_a_price(blocks)}"


def without_a_price(blocks: Sequence[Block]) -> str:
    """Return whether the named form lets go without a price, which takes the first four sentences in block 1."""
    first = next(block for block in blocks if block.claims)
    if not first.units:
        return NOT_YET
    holds = all(judge(first, NAMED, claim).holds for claim in first.claims[:4])
    state = "**lets go without a price**" if holds else "does **not** let go without a price"
    so_far = "" if first.is_whole else "So far, "
    return f"{so_far}{NAMED} {state}: that needs sentences 1 to 4 of `{first.name}`."


def values(block: Block) -> str:
    """Return what every arm solves at each temperature."""
    if not block.units:
        return NOT_YET
    measures = COLUMNS | MANY
    rows = []
    for arm in (START, *block.arms):
        numbers = [mean(block.values(arm, measure)) for measure in measures.values()]
        rows.append([arm, *(f"{one:.1f}" for one in numbers[:6]), *(f"{one:.2f}" for one in numbers[6:])])
    return markdown_table(["arm", *measures], rows)


def differences(block: Block) -> str:
    """Return tables of each arm less GRPO, F-GRPO, the KL penalty, the named form and the start."""
    if not block.units:
        return NOT_YET
    measures = COLUMNS | MANY
    parts = []
    for than in [arm for arm in (BASELINE, "F-GRPO", "KL 0.03", NAMED) if arm in block.arms] + [START]:
        rows = [
            [
                arm,
                *(
                    cell(over_starts(block.difference(arm, than, measure)), 2 if name in MANY else 1)
                    for name, measure in measures.items()
                ),
            ]
            for arm in block.arms
            if arm != than
        ]
        parts.append(f"Less {than}:\n\n{markdown_table(['arm', *measures], rows)}")
    return "\n\n".join(parts)


def start_by_start(block: Block) -> str:
    """Return the named form less GRPO at temperature 1, alone and with F-GRPO, for each start."""
    if not block.units:
        return NOT_YET
    columns = {
        f"{arm}: {tries}": block.difference(arm, BASELINE, solved("t1", k))
        for arm in HELD
        for tries, k in (("one try", 1), ("16 tries", 16))
    }
    rows = [
        [start, *(f"{one:+.1f}" for one in row)] for start, *row in zip(block.starts, *columns.values(), strict=True)
    ]
    return markdown_table(["start", *columns], rows)


def values_and_differences(block: Block) -> str:
    """Return what every arm solves, and each arm less the others that the protocol compares with."""
    return f"{values(block)}\n\n{differences(block)}" if block.units else NOT_YET


def falling_rate(block: Block) -> str:
    """Return what every arm solves, the differences, and by how much the arms' tokens differ."""
    if not block.units:
        return NOT_YET
    rows = []
    for arm in block.arms:
        models = [(models[arm], models[BASELINE]) for models in block.units.values()]
        beyond = [100 * (ours.tokens / of_baseline.tokens - 1) for ours, of_baseline in models]
        repeated = sum("before" in ours.record for ours, _ in models)
        rows.append([arm, f"{min(beyond):+.1f} to {max(beyond):+.1f}", repeated])
    head = ["arm", f"tokens, % more than {BASELINE}", "runs that were repeated"]
    return f"{values_and_differences(block)}\n\n{markdown_table(head, rows)}"


def schedules(constant: Block, falling: Block) -> str:
    """Return what each arm solves with a constant and with a falling rate, from the starts that have both."""
    starts = [start for start in falling.starts if start in constant.starts]
    if not starts:
        return NOT_YET
    arms = [("constant", constant, arm) for arm in constant.arms if arm in falling.arms]
    arms += [("linear", falling, arm) for arm in falling.arms]
    rows = []
    for schedule, block, arm in arms:
        row = [schedule, arm]
        for measure in (solved("t1", 1), solved("t1", SAMPLES)):
            ours, advised = block.values(arm, measure, starts), constant.values(WITH_F_GRPO, measure, starts)
            less = over_starts([a - b for a, b in zip(ours, advised, strict=True)])
            row += [f"{mean(ours):.1f}", "" if (block, arm) == (constant, WITH_F_GRPO) else cell(less)]
        rows.append(row)
    than = f"less {WITH_F_GRPO}, constant"
    head = ["learning rate", "arm", "one try", f"one try, {than}", "16 tries", f"16 tries, {than}"]
    return f"Starts: {', '.join(map(str, starts))}.\n\n{markdown_table(head, rows)}"


def mixture(block: Block) -> str:
    """Return the best mixtures of GRPO and of F-GRPO with their starts, and how far the named form is from each."""
    if not block.units:
        return NOT_YET
    rows = []
    for arm in (BASELINE, "F-GRPO"):
        best = analysis.best_mixture(block, arm, list(SAMPLINGS))
        row = [
            arm,
            best.tries,
            SAMPLINGS[best.sampling],
            SAMPLINGS[best.sampling_of_start],
            f"{mean(best.solved):.1f}",
        ]
        for ours in HELD:
            pairs = zip(block.values(ours, solved("t1", 16)), best.solved, strict=True)
            row.append(cell(over_starts([a - b for a, b in pairs])))
        rows.append(row)
    head = ["arm", "its tries", "sampled at", "the start's at", "solved", *(f"{ours} less it" for ours in HELD)]
    return markdown_table(head, rows)


def costs(block: Block) -> str:
    """Return generated tokens per trained token, steps, seconds and entropy of every arm."""
    if not block.units:
        return NOT_YET
    rows = []
    for arm in block.arms:
        numbers = [
            f"{mean(block.values(arm, Model.tokens_per_trained_token)):.2f}",
            f"{mean(block.values(arm, lambda model: model.tokens_per_trained_token(0.8))):.2f}",
            f"{mean(block.values(arm, lambda model: model.steps)):.0f}",
            f"{mean(block.values(arm, lambda model: model.seconds)):.0f}",
        ]
        entropies = [mean(block.values(arm, lambda model, i=i: model.entropy_by_sixths()[i])) for i in range(6)]
        rows.append([arm, *numbers, " ".join(f"{one:.3f}" for one in entropies)])
    head = ["arm", "tokens per trained token", "in the last fifth", "steps", "seconds", "entropy by sixths, nats"]
    return (
        "Seconds are of a machine that others use at the same time, and are not compared; those of a resumed run "
        f"count from the resume.\n\n{markdown_table(head, rows)}"
    )


def equal_steps(block: Block) -> str:
    """Return the named form at GRPO's number of steps, less GRPO at its end."""
    if not block.units:
        return NOT_YET
    found = []
    for measure in COLUMNS.values():
        ours = block.values(NAMED, lambda model, measure=measure: at_equal_steps(model, measure))
        found.append(over_starts([a - b for a, b in zip(ours, block.values(BASELINE, measure), strict=True)]))
    rows = [[f"{NAMED} less {BASELINE}", *map(cell, found)]]
    models = [models[NAMED] for models in block.units.values()]
    fallen = mean_and_range([model.fallen(model.record["at_equal_steps"]["step"]) for model in models])
    return (
        "The named form's checkpoint that is nearest to GRPO's number of steps. The share of the level's fall that is "
        f"done there, in per cent, as mean and range over runs: {fallen}.\n\n{markdown_table(['', *COLUMNS], rows)}"
    )


def at_equal_steps(model: Model, measure: Measure) -> float:
    """Return the measure of the checkpoint at the baseline's number of steps."""
    assert model.at_equal_steps is not None
    return measure(model.at_equal_steps)


def held(block: Block) -> str:
    """Return how well the arms that let go kept their level before."""
    if not block.units:
        return NOT_YET
    rows = []
    for arm in block.arms:
        models = [arms[arm] for arms in block.units.values()]
        if all("hold_entropy" in model.record["settings"] for model in models):
            kept, at_bound = zip(*(model.held() for model in models), strict=True)
            rows.append([arm, mean_and_range(kept), mean_and_range(at_bound)])
    head = ["arm", "within a tenth of the level, % of rollouts", "strength at its bound, % of rollouts"]
    return (
        "From the first rollout at the level to the one at which the level begins to fall; mean and range over runs."
        f"\n\n{markdown_table(head, rows)}"
    )


def mean_and_range(shares: Sequence[float]) -> str:
    """Return a table cell with the mean and the range of shares, in per cent."""
    whole = [100 * one for one in shares if not math.isnan(one)]
    return f"{mean(whole):.0f} ({min(whole):.0f} to {max(whole):.0f})" if whole else ""


def spread(block: Block) -> str:
    """Return the standard deviation between runs from one start."""
    rows = [[arm, *(block.spread_of_runs(arm, measure) for measure in COLUMNS.values())] for arm in block.arms]
    if any(None in row for row in rows):
        return "No start has two whole runs yet."
    texts = [[row[0], *(f"{one:.1f}" for one in row[1:])] for row in rows]
    table = markdown_table(["arm", *COLUMNS], texts)
    count = len(block.units) - len(block.starts)
    return f"Standard deviation between two runs from one start, points. Starts with two runs: {count}.\n\n{table}"


def advised(block: Block) -> str:
    """Return what the rules advise, once all units are there."""
    if not block.is_whole:
        return "No decision is taken from an unfinished block."
    best, without = (arm or "nothing" for arm in analysis.advised(block))
    return f"Advised: **{best}**. Where no reward decides what is correct: **{without}**."


def records_of(folder: Path, block: str, starts: Sequence[int], run: int = 1) -> Records:
    """Return the published records of the pilot or of a look, by arm and start."""
    found = {}
    for start in starts:
        for arm, record in published.read_unit(folder, unit_name(block, start, run)).items():
            if arm != START:
                found[arm, start] = record
    return found


def look(plan: Plan, block: str, folder: Path) -> str:
    """Return the scores of the look before a block, and the rates that it chooses."""
    starts = plan["looks"][block]["starts"]
    records = records_of(folder, look_name(block), starts, plan["blocks"][block]["run"])
    if not records:
        return f"`{look_name(block)}` is not run yet."
    scores = look_scores(plan, block, records)
    rows = []
    for arm, choice in look_choice(plan, block, records).items():
        for rate in look_rates(plan, block, arm):
            score = scores.score(at_rate(plan, arm, rate, form=None))
            chosen = "chosen" if rate == choice else ""
            rows.append([f"{arm}, rate {rate:g}", "" if score is None else f"{100 * score:.1f}", chosen])
    table = markdown_table(["run", "score", ""], rows)
    return f"`{look_name(block)}`, {', '.join(f'start {start}' for start in starts)}:\n\n{table}"


def pilot(plan: Plan, folder: Path) -> str:
    """Return the pilot's scores, the choice by the rule, and what one try or 16 tries alone would have chosen."""
    records = records_of(folder, "pilot", plan["pilot"]["starts"])
    scores = Pilot(plan, records)
    starts, split = plan["pilot"]["starts"], plan["pilot"]["split"]
    rows = []
    for arm in sorted({arm for arm, _ in records}):
        row = [arm]
        for k, start in product((1, 16), starts):
            record = records.get((arm, start))
            row.append(f"{100 * pass_at_temperature_one(record, split, k):.1f}" if record else "")
        score = scores.score(arm)
        rows.append([*row, "" if score is None else f"{100 * score:.1f}"])
    head = ["run", *(f"{tries}, {start}" for tries, start in product(("one try", "16 tries"), starts)), "score"]
    return f"{markdown_table(head, rows)}\n\n{choice(plan, scores)}"


def choice(plan: Plan, scores: Pilot) -> str:
    """Return a table of the chosen rates, and the form."""
    rows = []
    for arm in plan["pilot"]["arms"]:
        rate = scores.rate(arm)
        if rate is None:
            return "The pilot is not whole."
        names = {of: pilot_arm(plan, arm, of) for of in scores.rates(arm)}
        others = [
            max(sorted(names), key=lambda of, k=k: round(scores.solved(names[of], k) or 0.0, 9)) for k in (1, 16)
        ]
        rows.append([arm, f"{rate:g}", *(f"{one:g}" for one in others)])
    table = markdown_table(["arm", "rate by the rule", "by one try alone", "by 16 tries alone"], rows)
    form = scores.form()
    if form is None:
        return f"{table}\n\nForm by the rule: not all of its runs are there."
    one, many = (scores.form_by_tries(k) for k in (1, 16))
    return f"{table}\n\nForm by the rule: {form}. By one try alone: {one}. By 16 tries alone: {many}."


def tables(plan: Plan, folder: Path) -> dict[str, str]:
    """Return the tables of the page by name."""
    is_chosen = plan["chosen"]["form"] is not None
    blocks = [Block(plan, name, folder) for name in plan["blocks"]] if is_chosen else []
    found = {
        "progress": progress(plan, blocks, folder),
        "registered": registered(blocks),
        "pilot": pilot(plan, folder),
    }
    makers = {
        "values": values,
        "differences": differences,
        "start by start": start_by_start,
        "mixture": mixture,
        "costs": costs,
        "equal steps": equal_steps,
        "held": held,
        "spread": spread,
        "advised": advised,
    }
    by_name = {block.name: block for block in blocks}
    found |= {name: make(by_name["block1"]) if blocks else NOT_YET for name, make in makers.items()}
    for name in ("one_rate", "no_resampling", "six_million", "rivals"):
        found[name] = values_and_differences(by_name[name]) if blocks else NOT_YET
    for name in ("linear", "linear_one_rate"):
        found[name] = falling_rate(by_name[name]) if blocks else NOT_YET
    found["schedules"] = schedules(by_name["block1"], by_name["linear_one_rate"]) if blocks else NOT_YET
    found["advised early"] = advised(by_name["six_million"]) if blocks else NOT_YET
    found["looks"] = "\n\n".join(look(plan, name, folder) for name in plan["looks"]) if blocks else NOT_YET
    return found


def page(plan: Plan, folder: Path) -> str:
    """Return the text of the page."""
    text = TEXT.read_text()
    for name, table in tables(plan, folder).items():
        text = text.replace(f"{{{name}}}", table)
    return text


def main() -> None:
    """Write the page and the picture."""
    plan = read_plan()
    PAGE.write_text(page(plan, published.FOLDER))
    sys.stdout.write(f"Wrote {PAGE}\n")
    block = Block(plan, "block1", published.FOLDER)
    if block.units:
        draw(block).savefig(PICTURE, dpi=120)
        sys.stdout.write(f"Wrote {PICTURE}\n")


if __name__ == "__main__":
    main()
