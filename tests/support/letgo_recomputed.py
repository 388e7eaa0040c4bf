"""Recompute the tables of results4.md from the published files, with nothing but the standard library.

    python tests/support/letgo_recomputed.py

It shares no line with the analysis, and reads the page itself: every number of what is there, of the registered
sentences with their verdicts and Holm's p, of what each arm solves, of the differences, of the best mixture, of what
it takes, of equal steps, of the held part, of the spread between runs, of the advice, and of the pilot with its choice
must be the one that is found here, to its printed digits. So must the tables of the other blocks, and the rates that
the looks before them choose. Exits 1 if one is not, or if a table lacks a row.
"""

import json
import lzma
import math
import re
import sys
from pathlib import Path

RESULTS = Path(__file__).parents[2] / "experiments/results"
ARMS = ["GRPO", "C2 let go", "F-GRPO", "KL 0.03", "F-GRPO and C2 let go", "STEER", "STARE"]
RIVALS = ["Differential smoothing", "Entrocraft", "JS to the start"]
EARLY = ", stopped early"
LOWER = ["C2 let go, rate 2.5e-4", "F-GRPO and C2 let go, rate 2.5e-4"]
# Other blocks in the page's order, the sections of their tables, and their arms.
OTHERS = {
    "one_rate": ("One learning rate for all", ARMS[:4]),
    "linear": ("A learning rate that falls linearly to 0", [*ARMS[:3], ARMS[4]]),
    "linear_one_rate": ("A learning rate that falls linearly, with C2 at GRPO's rate", [*ARMS[:3], ARMS[4], *LOWER]),
    "no_resampling": ("Without dynamic sampling", [*ARMS[:3], ARMS[4]]),
    "six_million": ("Six million tokens", ARMS[:4] + [f"{arm}{EARLY}" for arm in ("GRPO", "F-GRPO", "KL 0.03")]),
    "rivals": ("Rivals", ARMS[:3] + [arm + rate for arm in RIVALS for rate in ("", ", rate 2.5e-4")]),
}
# Blocks that are compared with the runs of another one, and how many arms they have of their own.
BESIDE = {"linear_one_rate": ("linear", 2)}
# The starts and runs that the protocol has for each block.
PLANNED = {
    "block1": 12,
    "one_rate": 5,
    "linear": 10,
    "linear_one_rate": 5,
    "no_resampling": 5,
    "six_million": 10,
    "rivals": 1,
}
FORMS = ["half from 0.6", "half from 0.4", "zero from 0.6", "zero from 0.4"]
TEMPERATURES = ["t0.25", "t0.5", "t1"]
# Student's t, two-sided 95 %, by degrees of freedom.
T = [12.7062, 4.30265, 3.18245, 2.77645, 2.57058, 2.44691, 2.36462, 2.30600, 2.26216]


def lines_of(path):
    """Return the records of a file by arm."""
    with lzma.open(path, "rt") as file:
        return {one["arm"]: one for one in map(json.loads, file)}


def average(numbers):
    """Return the mean."""
    numbers = list(numbers)
    return math.fsum(numbers) / len(numbers)


def misses(correct, k, n=16):
    """Return the probability that k of n samples, drawn without replacement, are all wrong."""
    return math.prod((n - correct - i) / (n - i) for i in range(k)) if correct <= n - k else 0.0


TABLE_OF_MISSES = [[misses(c, k) for c in range(17)] for k in range(17)]


def share(record, temperature, k, split="test"):
    """Return the percentage of problems that k tries solve."""
    digits = record["evaluations"][temperature]["benchmarks"][split]["correct"]
    return 100 - 100 * average(TABLE_OF_MISSES[k][int(digit, 36)] for digit in digits)


def distinct(record, temperature):
    """Return the mean number of different correct answers."""
    return average(int(digit, 36) for digit in record["evaluations"][temperature]["benchmarks"]["test"]["distinct"])


def by_start(units, number):
    """Return a number of a unit's records for each start: the mean over its runs."""
    of = {}
    for (start, _), records in sorted(units.items()):
        of.setdefault(start, []).append(number(records))
    return [average(numbers) for numbers in of.values()]


def error(numbers):
    """Return the standard error of the mean."""
    middle = average(numbers)
    return math.sqrt(sum((one - middle) ** 2 for one in numbers) / (len(numbers) - 1) / len(numbers))


def bounds(numbers):
    """Return the mean, and half of the interval if there is one."""
    return [average(numbers), *([T[len(numbers) - 2] * error(numbers)] if len(numbers) > 1 else [])]


def chance(numbers):
    """Return the two-sided p of Student's t for a mean of 0, by Simpson's rule, or 1 if the mean is not above 0."""
    if average(numbers) <= 0 or len(numbers) < 2:
        return 1.0
    freedom = len(numbers) - 1
    ratio = average(numbers) / error(numbers)
    scale = math.exp(math.lgamma((freedom + 1) / 2) - math.lgamma(freedom / 2)) / math.sqrt(freedom * math.pi)
    # With t = sqrt(freedom) tan(a) the density is a power of the cosine, over a finite range.
    end, pieces = math.atan(ratio / math.sqrt(freedom)), 2000
    weights = [1, *([4, 2] * pieces)[: 2 * pieces - 1], 1]
    heights = [math.cos(end * i / (2 * pieces)) ** (freedom - 1) for i in range(2 * pieces + 1)]
    area = math.fsum(w * h for w, h in zip(weights, heights, strict=True)) * end / (2 * pieces) / 3
    return 1 - 2 * scale * math.sqrt(freedom) * area


def holm(chances):
    """Return the corrected p-values, in the order of the input."""
    corrected, before = [0.0] * len(chances), 0.0
    for rank, place in enumerate(sorted(range(len(chances)), key=chances.__getitem__)):
        before = max(before, min(1.0, (len(chances) - rank) * chances[place]))
        corrected[place] = before
    return corrected


def section(page, heading):
    """Return the text below a heading."""
    return page.split(f"\n## {heading}\n")[1].split("\n## ")[0]


def rows(text):
    """Return the rows of all tables in a text without their heads, by table."""
    found = []
    for block in re.findall(r"(?:^\|.*\n?)+", text, re.MULTILINE):
        found.append(
            [[cell.strip() for cell in line.strip().strip("|").split(" | ")] for line in block.splitlines()[2:]]
        )
    return found


def agrees(text, numbers):
    """Return whether a text has exactly these numbers, each rounded to its printed digits."""
    printed = re.findall(r"[+-]?\d+(?:\.\d+)?", text)
    if len(printed) != len(numbers):
        return False
    units = [10.0 ** -len(one.partition(".")[2]) for one in printed]
    return all(
        abs(float(one) - number) <= 0.5001 * unit + 1e-9
        for one, number, unit in zip(printed, numbers, units, strict=True)
    )


CLAIMS = [("GRPO", "t1", 16, 0), ("F-GRPO", "t1", 16, 0), ("KL 0.03", "t1", 16, 0), ("GRPO", "t1", 1, -1.5)]
CLAIMS += [("GRPO", "t0.25", 1, 0), (f"GRPO{EARLY}", "t1", 16, 0), (f"GRPO{EARLY}", "t1", 1, -1.5)]
CLAIMS_OF = {"block1": [0, 1, 2, 3, 4], "linear": [0, 1, 3, 4], "no_resampling": [0, 1, 3]}
CLAIMS_OF |= {"six_million": [0, 1, 2, 3, 4, 5, 6]}
TRIES = [(temperature, k) for temperature in TEMPERATURES for k in (1, 16)]


class Check:
    """What agrees and what does not."""

    def __init__(self):
        self.wrong, self.equal = [], 0

    def __call__(self, place, text, numbers):
        """Compare the numbers of a text."""
        if agrees(text, numbers):
            self.equal += 1
        else:
            self.wrong.append(f"{place}: printed {text!r}, computed {numbers}")

    def names(self, place, found, expected):
        """Compare a table's rows with the expected ones."""
        if found != expected:
            self.wrong.append(f"{place}: rows {found}, expected {expected}")


def check(page, folder, planned=PLANNED):
    """Return what differs from the published files, and how many cells are equal."""
    compare = Check()
    blocks = {name: units_of(folder, name, arms) for name, (_, arms) in {"block1": ("", ARMS), **OTHERS}.items()}
    whole = check_progress(page, folder, blocks, planned, compare)
    check_claims(page, blocks, whole, compare)
    if blocks["block1"]:
        check_block(page, blocks["block1"], compare)
    check_schedules(section(page, "A constant rate and one that falls"), blocks, compare)
    for name, (heading, arms) in OTHERS.items():
        if blocks[name]:
            tables = rows(section(page, heading))
            check_values(tables[0], arms, blocks[name], compare)
            if name.startswith("linear"):
                check_tokens(tables.pop(), arms, blocks[name], compare)
            check_differences(tables[1:], arms, blocks[name], compare)
    for name, heading in (("block1", "What is advised"), ("six_million", "Six million tokens")):
        check_advice(section(page, heading), blocks[name], name in whole, compare)
    check_pilot(page, folder, compare)
    check_looks(page, folder, compare)
    return compare.wrong, compare.equal


def units_of(folder, block, arms):
    """Return the whole units of a block by start and run."""
    paths = folder.glob(f"{block}-start*.jsonl.xz")
    units = {tuple(map(int, re.findall(r"-(?:start|run)(\d+)", path.name))): lines_of(path) for path in paths}
    if block in BESIDE:
        others = units_of(folder, BESIDE[block][0], [])
        units = {key: others.get(key, {}) | records for key, records in units.items()}
    for records in units.values():
        records |= {f"{arm}{EARLY}": one["stopped_early"] for arm, one in records.items() if "stopped_early" in one}
    return {key: records for key, records in units.items() if set(arms) <= set(records)}


def less(units, arm, than, temperature, k):
    """Return what an arm solves less what another does, for each start."""
    return by_start(units, lambda one: share(one[arm], temperature, k) - share(one[than], temperature, k))


def check_progress(page, folder, blocks, planned, compare):
    """Check how many runs and units are there, and return the blocks of which all are."""
    (table,) = rows(section(page, "What is there"))
    pilots = [lines_of(path) for path in folder.glob("pilot-start*.jsonl.xz")]
    compare("pilot", table[0][1], [sum(len(one) - ("start" in one) for one in pilots)])
    compare.names("blocks", [row[0].strip("`") for row in table[1:]], list(blocks))
    whole = set()
    for row, (name, units) in zip(table[1:], blocks.items(), strict=True):
        arms = [arm for arm in (ARMS if name == "block1" else OTHERS[name][1]) if not arm.endswith(EARLY)]
        runs = BESIDE[name][1] if name in BESIDE else len(arms)
        compare(f"{name}, runs and units", " ".join(row[1:]), [runs * len(units), len(units), planned[name]])
        if len(units) == planned[name]:
            whole.add(name)
    return whole


def check_claims(page, blocks, whole, compare):
    """Check the registered sentences of all blocks, and Holm's correction over those of whole blocks."""
    judged = [(name, CLAIMS[i]) for name, claims in CLAIMS_OF.items() if blocks[name] for i in claims]
    if not judged:
        return
    text = section(page, "The registered sentences")
    (table,) = rows(text)
    against = [less(blocks[name], "C2 let go", *claim[:3]) for name, claim in judged]
    places = [i for i, (name, _) in enumerate(judged) if name in whole]
    p = dict(zip(places, holm([chance([x - judged[i][1][3] for x in against[i]]) for i in places]), strict=True))
    compare.names("registered", len(table), len(judged))
    verdicts = []
    for i, (row, numbers, (name, claim)) in enumerate(zip(table, against, judged, strict=True)):
        compare(row[1], row[2], bounds(numbers))
        compare(f"{row[1]}, p", row[4], [p[i]] if i in p else [])
        low = bounds(numbers)[0] - bounds(numbers)[1] if len(numbers) > 1 else -math.inf
        verdicts.append(low > claim[3])
        so_far = "" if name in whole else " so far"
        compare.names(row[1], row[3], ("holds" if verdicts[-1] else "does not hold") + so_far)
    for name in dict.fromkeys(name for name, _ in judged):
        count = re.search(rf"(\d+) starts in `{name}`", text)[1]
        compare(f"starts of {name}", count, [len({start for start, _ in blocks[name]})])
    if blocks["block1"]:
        start = "" if "block1" in whole else "So far, "
        state = "**lets go without a price**" if all(verdicts[:4]) else "does **not** let go without a price"
        sentence = f"{start}C2 let go {state}: that needs sentences 1 to 4 of `block1`."
        compare.names("price", text.strip().splitlines()[-1], sentence)


def check_tokens(table, arms, units, compare):
    """Check by how much the tokens of each arm differ from GRPO's, and how many runs were repeated."""
    compare.names("tokens", [row[0] for row in table], arms)
    for row in table:
        pairs = [(one[row[0]]["generated_tokens"], one["GRPO"]["generated_tokens"]) for one in units.values()]
        more = [100 * (ours - theirs) / theirs for ours, theirs in pairs]
        again = len([one for one in units.values() if "before" in one[row[0]]])
        compare(f"tokens, {row[0]}", " ".join(row[1:]), [min(more), max(more), again])


def check_schedules(text, blocks, compare):
    """Check what the arms solve at a constant rate and at one that falls, from the starts that have both."""
    constant, falling = blocks["block1"], blocks["linear_one_rate"]
    starts = sorted({start for start, _ in constant} & {start for start, _ in falling})
    if not starts:
        return
    compare("starts with both", text.split("Starts: ")[1].splitlines()[0], starts)
    (table,) = rows(text)
    arms = OTHERS["linear_one_rate"][1]
    expected = [["constant", arm] for arm in arms[:4]] + [["linear", arm] for arm in arms]
    compare.names("schedules", [row[:2] for row in table], expected)

    def solved(units, arm, k):
        """Return the percentage of problems that an arm solves, for each of these starts."""
        of_these = {key: records for key, records in units.items() if key[0] in starts}
        return by_start(of_these, lambda records: share(records[arm], "t1", k))

    for row in table:
        units = constant if row[0] == "constant" else falling
        is_advised = row[:2] == ["constant", "F-GRPO and C2 let go"]
        for cells, k in ((row[2:4], 1), (row[4:6], 16)):
            ours, advised = solved(units, row[1], k), solved(constant, "F-GRPO and C2 let go", k)
            less_advised = [] if is_advised else bounds([a - b for a, b in zip(ours, advised, strict=True)])
            compare(f"schedules, {row[:2]}, {k}", " ".join(cells), [average(ours), *less_advised])


def check_advice(text, units, is_whole, compare):
    """Check the arm that is advised, and the one where nothing knows what is correct."""
    found = re.search(r"Advised: \*\*(.*)\*\*\. Where no reward decides what is correct: \*\*(.*)\*\*\.", text)
    compare.names("advice is given", bool(found), is_whole)
    if not is_whole:
        return

    def ends(arm, than, k=16):
        middle, half = bounds(less(units, arm, than, "t1", k))
        return middle - half, middle + half

    def good(arms):
        """Return the arms that the first rule lets pass."""
        best = max(arms, key=lambda arm: average(by_start(units, lambda one: share(one[arm], "t1", 16))))
        near = [arm for arm in arms if arm == best or ends(arm, best)[1] >= 0]
        return [arm for arm in near if ends(arm, "GRPO", 1)[0] > -1.5]

    plain = [arm for arm in (f"GRPO{EARLY}", "KL 0.03", "C2 let go") if arm in next(iter(units.values()))]
    judging = [arm for arm in ("F-GRPO", "F-GRPO and C2 let go") if arm in next(iter(units.values()))]
    without = (good(plain) or [None])[0]
    ahead = [arm for arm in good(plain + judging) if arm in judging and (without is None or ends(arm, without)[0] > 0)]
    compare.names("advised", found[1], (ahead or [without])[0] or "nothing")
    compare.names("advised without", found[2], without or "nothing")


def check_block(page, units, compare):
    """Check the tables of block 1."""
    check_values(rows(section(page, "One temperature for all"))[0], ARMS, units, compare)
    check_differences(rows(section(page, "Differences")), ARMS, units, compare)
    (table,) = rows(section(page, "Start by start"))
    pairs = [less(units, arm, "GRPO", "t1", k) for arm in ("C2 let go", "F-GRPO and C2 let go") for k in (1, 16)]
    compare.names("starts", [row[0] for row in table], sorted({str(start) for start, _ in units}))
    for row, numbers in zip(table, zip(*pairs, strict=True), strict=True):
        compare(f"start {row[0]}", " ".join(row[1:]), [*numbers])
    check_mixture(page, units, compare)
    check_logs(page, units, compare)


def check_values(table, arms, units, compare):
    """Check what each arm solves."""
    compare.names("values", [row[0] for row in table], ["start", *arms])
    for row in table:
        for cell, (temperature, k) in zip(row[1:7], TRIES, strict=True):
            found = by_start(units, lambda one, a=row[0], t=temperature, k=k: share(one[a], t, k))
            compare(f"values, {row[0]}, {temperature}, {k}", cell, [average(found)])
        for cell, temperature in zip(row[7:], TEMPERATURES, strict=True):
            found = by_start(units, lambda one, a=row[0], t=temperature: distinct(one[a], t))
            compare(f"different, {row[0]}, {temperature}", cell, [average(found)])


def check_differences(tables, arms, units, compare):
    """Check each arm less GRPO, F-GRPO, the KL penalty, C2 let go and the start, as far as they are arms."""
    references = [than for than in ("GRPO", "F-GRPO", "KL 0.03", "C2 let go") if than in arms] + ["start"]
    for than, table in zip(references, tables, strict=True):
        compare.names(f"less {than}", [row[0] for row in table], [arm for arm in arms if arm != than])
        for row in table:
            for cell, (temperature, k) in zip(row[1:7], TRIES, strict=True):
                numbers = bounds(less(units, row[0], than, temperature, k))
                compare(f"{row[0]} less {than}, {temperature}, {k}", cell, numbers)
            for cell, t in zip(row[7:], TEMPERATURES, strict=True):
                numbers = by_start(units, lambda one, a=row[0], b=than, t=t: distinct(one[a], t) - distinct(one[b], t))
                compare(f"{row[0]} less {than}, {t}, different", cell, bounds(numbers))


def check_mixture(page, units, compare):
    """Check the table of the best mixtures."""

    def mixed(one, arm, m, ours, others):
        a, b = (
            one[name]["evaluations"][t]["benchmarks"]["test"]["correct"]
            for name, t in ((arm, ours), ("start", others))
        )
        lost = (
            TABLE_OF_MISSES[m][int(x, 36)] * TABLE_OF_MISSES[16 - m][int(y, 36)] for x, y in zip(a, b, strict=True)
        )
        return 100 - 100 * average(lost)

    options = [(m, ours, others) for m in range(17) for ours in TEMPERATURES for others in TEMPERATURES]
    (table,) = rows(section(page, "The best mixtures of an arm and its start"))
    compare.names("mixed arms", [row[0] for row in table], ["GRPO", "F-GRPO"])
    for arm, tries, ours, theirs, solved, *beyond in table:
        found = {key: by_start(units, lambda one, a=arm, key=key: mixed(one, a, *key)) for key in options}
        best = max(found, key=lambda key: round(average(found[key]), 9))
        printed = (int(tries), ours.replace("T = ", "t"), theirs.replace("T = ", "t"))
        compare.names(f"mixture of {arm}", printed, best)
        compare(f"mixture of {arm}", solved, [average(found[best])])
        for held, cell in zip(("C2 let go", "F-GRPO and C2 let go"), beyond, strict=True):
            alone = by_start(units, lambda one, a=held: share(one[a], "t1", 16))
            numbers = bounds([a - b for a, b in zip(alone, found[best], strict=True)])
            compare(f"{held} less the mixture of {arm}", cell, numbers)


def check_logs(page, units, compare):
    """Check the tables that come from the logs and the second runs."""
    (table,) = rows(section(page, "What it takes"))
    compare.names("costs", [row[0] for row in table], ARMS)
    for row in table:
        numbers = [by_start(units, lambda one, a=row[0], i=i: costs(one[a])[i]) for i in range(10)]
        for i in range(4):
            compare(f"costs, {row[0]}, {i}", row[i + 1], [average(numbers[i])])
        compare(f"entropy, {row[0]}", row[5], [average(one) for one in numbers[4:]])

    text = section(page, "At equal optimizer steps")
    falls = [100 * fallen(one["C2 let go"]) for one in units.values()]
    compare(
        "the fall at equal steps", text.split("over runs:")[1].split(".")[0], [average(falls), min(falls), max(falls)]
    )
    (table,) = rows(text)
    for cell, (temperature, k) in zip(table[0][1:], TRIES, strict=True):
        found = by_start(
            units,
            lambda one, t=temperature, k=k: share(one["C2 let go"]["at_equal_steps"], t, k) - share(one["GRPO"], t, k),
        )
        compare(f"equal steps, {temperature}, {k}", cell, bounds(found))

    (table,) = rows(section(page, "Was the level held?"))
    compare.names("held", [row[0] for row in table], ["C2 let go", "F-GRPO and C2 let go"])
    for row in table:
        pairs = [one for records in units.values() if (one := kept(records[row[0]]))]
        for i, cell in enumerate(row[1:]):
            numbers = [100 * pair[i] for pair in pairs]
            compare(f"held, {row[0]}, {i}", cell, [average(numbers), min(numbers), max(numbers)] if numbers else [])

    twice = [start for start, run in units if run == 2 and (start, 1) in units]
    text = section(page, "From run to run")
    if twice:
        compare("starts with two runs", re.search(r"two runs: (\d+)", text)[1], [len(twice)])
    for table in rows(text):
        for row in table:
            for cell, (temperature, k) in zip(row[1:], TRIES, strict=True):
                gaps = [
                    share(units[n, 1][row[0]], temperature, k) - share(units[n, 2][row[0]], temperature, k)
                    for n in twice
                ]
                compare(f"run to run, {row[0]}", cell, [math.sqrt(average(gap**2 / 2 for gap in gaps))])


def costs(record):
    """Return tokens per trained token of the whole run and of its last fifth, steps, seconds, and six entropies."""
    log = record["rollouts"]
    totals, ratios = log["generated_tokens"], log["dynamic_sampling/tokens_per_trained_token"]
    spent, of = [], []
    for i, total in enumerate(totals):
        tokens = total - (totals[i - 1] if i else 0)
        if ratios[i] is not None:
            spent.append((total, tokens, tokens / ratios[i]))
    for least in (0.0, 0.8 * totals[-1]):
        late = [one for one in spent if one[0] > least]
        of.append(sum(one[1] for one in late) / sum(one[2] for one in late))
    entropies = log.get("rollout_entropy") or log["entropy"]
    sixths = [[] for _ in range(7)]
    for total, entropy in zip(totals, entropies, strict=True):
        if entropy is not None:
            sixths[math.floor(6 * total / totals[-1])].append(entropy)
    sixths[5] += sixths.pop()
    return [*of, record["steps"], record["seconds"], *map(average, sixths)]


def fallen(record):
    """Return how much of its fall the level has fallen at the checkpoint of equal steps."""
    log, settings = record["rollouts"], record["settings"]
    known = [(step, of) for step, of in zip(log["step"], log["hold_entropy/target"], strict=True) if of is not None]
    (at,) = [of for step, of in known if step <= record["at_equal_steps"]["step"]][-1:]
    top = known[0][1]
    return (top - at) / (top - top / settings["hold_entropy"] * settings["hold_entropy_final"])


def kept(record):
    """Return the shares of the held part within a tenth of the level, and with the largest strength."""
    log = record["rollouts"]
    until = log["generated_tokens"][-1] * record["settings"]["hold_entropy_decay_start"]
    inside, bound, begun = [], [], False
    for i, total in enumerate(log["generated_tokens"]):
        entropy, level, strength = (
            log[key][i] for key in ("rollout_entropy", "hold_entropy/target", "hold_entropy/strength")
        )
        if total > until or None in (entropy, level, strength):
            continue
        begun = begun or entropy <= 1.1 * level
        if begun:
            inside.append(abs(entropy / level - 1) <= 0.1)
            bound.append(strength >= 2.997)
    return (average(inside), average(bound)) if inside else None


def check_pilot(page, folder, compare):
    """Check the pilot's table and the choice by the rule."""
    starts = [path for n in (61, 62) if (path := folder / f"pilot-start{n}-run1.jsonl.xz").exists()]
    records = [lines_of(path) for path in starts]
    if len(records) < 2:
        return
    tables = rows(section(page, "Pilot"))
    scores, one_try, sixteen = {}, {}, {}
    for row in tables[0]:
        both = [record.get(row[0]) for record in records]
        numbers = [share(one, "t1", k, "validation") if one else None for k in (1, 16) for one in both]
        for cell, number in zip(row[1:5], numbers, strict=True):
            compare(f"pilot, {row[0]}", cell, [] if number is None else [number])
        if None not in both:
            of_tries = [average(share(one, "t1", k, "validation") for one in both) for k in (1, 2, 4, 8, 16)]
            scores[row[0]], one_try[row[0]], sixteen[row[0]] = average(of_tries), of_tries[0], of_tries[-1]
            compare(f"pilot, {row[0]}, score", row[5], [scores[row[0]]])
    compare.names(
        "pilot", sorted(row[0] for row in tables[0]), sorted({arm for one in records for arm in one} - {"start"})
    )
    if len(tables) < 2:
        return
    rates = {}
    for row in tables[1]:
        form = ", half from 0.6" if row[0] == "C2 let go" else ""
        found = {float(name.rpartition(" ")[2]): name for name in scores if name.startswith(f"{row[0]}{form}, rate")}
        rates[row[0]] = max(sorted(found), key=lambda rate: round(scores[found[rate]], 9))
        compare.names(f"pilot, {row[0]}, rate", float(row[1]), rates[row[0]])
        for cell, of in zip(row[2:], (one_try, sixteen), strict=True):
            best = max(sorted(found), key=lambda rate, found=found, of=of: round(of[found[rate]], 9))
            compare.names(f"pilot, {row[0]}, another rule", float(cell), best)
    form = re.search(
        r"Form by the rule: (.*)\. By one try alone: (.*)\. By 16 tries alone: (.*)\.\n", section(page, "Pilot")
    )
    forms = {
        name.split(", ")[1]: name
        for name in scores
        if name.endswith(f", rate {rates['C2 let go']:g}") and " from " in name
    }
    if form and len(forms) == 4:
        least = one_try[f"GRPO, rate {rates['GRPO']:g}"] - 1.5
        good = [one for one in forms if one_try[forms[one]] >= least]
        value = scores if good else one_try
        compare.names("form", form[1], max(good or forms, key=lambda one: value[forms[one]]))
        for stated, of in zip(form.groups()[1:], (one_try, sixteen), strict=True):
            best = max(FORMS, key=lambda one, of=of: round(of[forms[one]], 9))
            compare.names("form by tries alone", stated, best)


# The looks before blocks: their starts, and the rates of each arm.
LOOKS = {
    "linear": ([61], {arm: (5e-4, 2.5e-4) if "C2" in arm else (2.5e-4, 1.25e-4) for arm in [*ARMS[:3], ARMS[4]]}),
    "six_million": ([61, 62], dict.fromkeys(ARMS[:4], (1.25e-4, 6.25e-5)) | {"C2 let go": (2.5e-4, 1.25e-4)}),
}


def check_looks(page, folder, compare):
    """Check the scores of the looks, and the rates that they choose."""
    found = section(page, "The rates of blocks 2 and 3").split("_look`")[1:]
    for text, (block, (starts, rates)) in zip(found, LOOKS.items(), strict=True):
        paths = [path for n in starts for path in folder.glob(f"{block}_look-start{n}-run*.jsonl.xz")]
        if len(paths) < len(starts):
            continue
        records = [lines_of(path) for path in paths]
        (table,) = rows(text)
        compare.names(block, [row[0] for row in table], [f"{arm}, rate {r:g}" for arm in rates for r in rates[arm]])
        scores = {}
        for row in table:
            if all(row[0] in record for record in records):
                solved = [share(one[row[0]], "t1", k, "validation") for one in records for k in (1, 2, 4, 8, 16)]
                scores[row[0]] = average(solved)
                compare(f"{block}, {row[0]}", row[1], [scores[row[0]]])
        for arm in rates:
            of = {f"{arm}, rate {rate:g}": scores.get(f"{arm}, rate {rate:g}") for rate in sorted(rates[arm])}
            best = None if None in of.values() else max(of, key=lambda name, of=of: round(of[name], 9))
            chosen = [row[0] for row in table if row[0] in of and row[2] == "chosen"]
            compare.names(f"{block}, {arm}", chosen, [] if best is None else [best])


def main():
    """Check the page."""
    wrong, equal = check((RESULTS / "results4.md").read_text(), RESULTS / "letgo")
    sys.stdout.write("".join(f"{line}\n" for line in wrong))
    sys.stdout.write(f"{equal} numbers are equal, {len(wrong)} are not.\n")
    sys.exit(bool(wrong))


if __name__ == "__main__":
    main()
