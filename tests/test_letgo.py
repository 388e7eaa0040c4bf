"""Protocol 4: its rule, its tables against another script, its start models and its command."""

import json
import random
import re

import pytest
import yaml
from support import ROOT, letgo_recomputed
from support.processes import run as run_process

from experiments.dial.analysis import over_starts
from experiments.lab.countdown import COUNTDOWN
from experiments.lab.runs import Experiment
from experiments.letgo import page, plan, published, rule, starts
from experiments.letgo.analysis import Block, advised, passing, solved
from steer_trl.cli.recipe_files import load_recipe
from steer_trl.demo.result import PAIRS
from steer_trl.entropy.target import FINAL_OVER_LEVEL, RELEASE_AFTER
from steer_trl.support.exceptions import InvalidValueError

RATES = {"GRPO": 1.25e-4, "F-GRPO": 1.25e-4, "KL 0.03": 1.25e-4, "C2 let go": 2.5e-4}
ARMS = plan.read_plan()["blocks"]["block1"]["arms"]
HELD = {"hold_entropy": 0.65, "hold_entropy_decay_start": 0.6, "hold_entropy_final": 0.325}


needs_starts = pytest.mark.skipif(not starts.FOLDER.exists(), reason="a source distribution has no start models")


def chosen_plan():
    """The plan with a choice of the pilot."""
    made = plan.read_plan()
    made["chosen"] = {"rates": RATES, "form": "half from 0.6"}
    return made


def written_plan():
    """The plan of what [`write_block`] writes, with one block that is not whole."""
    made = chosen_plan()
    made["blocks"]["block1"]["starts"] = [71, 72, 73, 74]
    for block in ("one_rate", "linear", "six_million"):
        made["blocks"][block]["starts"] = [71, 72]
    return made


def evaluations(rng, share, split, problems=30):
    """Random counts at every temperature."""
    found = {}
    for temperature in ("t0.25", "t0.5", "t1"):
        correct = [sum(rng.random() < share * rng.random() for _ in range(16)) for _ in range(problems)]
        columns = {"correct": correct, "distinct": [min(count, 3) for count in correct]}
        texts = {key: "".join("0123456789abcdefg"[one] for one in column) for key, column in columns.items()}
        found[temperature] = {"settings": {}, "benchmarks": {split: {"samples": 16, "ids": f"{split}-"} | texts}}
    return found


def record(arm, start, run, share, split="test"):
    """A published record with random counts and a random log, whose first rollout is that of its unit."""
    rng = random.Random(f"{arm} {start} {run}")
    made = {"arm": arm, "start": start, "run": run, "start_weights": "a", "processor": "b", "settings": {}}
    made["evaluations"] = evaluations(rng, share, split)
    if arm == "start":
        return made
    size = 20
    log = {"generated_tokens": [100 * (i + 1) for i in range(size)], "reward": [0.1] * size}
    log["step"] = [4 * i for i in range(size)]
    log["completions/mean_length"] = [9.0] * size
    log["dynamic_sampling/tokens_per_trained_token"] = [rng.uniform(1, 4) for _ in range(size)]
    log["rollout_entropy"] = [1.0, *(rng.uniform(0.5, 0.75) for _ in range(size - 1))]
    if "let go" in arm:
        made["settings"] = HELD
        falls = sorted((rng.uniform(0.325, 0.65) for _ in range(8)), reverse=True)
        log["hold_entropy/target"] = [None, *[0.65] * (size - 9), *falls]
        log["hold_entropy/strength"] = [0.0, *(rng.choice([3.0, rng.uniform(0, 3)]) for _ in range(size - 1))]
    if arm == "C2 let go":
        made["at_equal_steps"] = {"step": rng.randrange(20, 4 * size), "evaluations": evaluations(rng, share, split)}
    made["stopped_early"] = {"step": 4, "evaluations": evaluations(rng, share, split)}
    if rng.random() < 0.5:
        made["before"] = {}
    made["generated_tokens"] = rng.randint(2000, 3000)
    return made | {"steps": rng.randint(300, 500), "seconds": rng.randint(300, 500), "rollouts": log}


def write(folder, block, start, run, shares, split="test"):
    """Publish a unit with an arm for each share of what is solved."""
    paths = []
    for place, (arm, share) in enumerate(shares.items()):
        paths.append(folder / f"{place}.json")
        paths[-1].write_text(json.dumps(record(arm, start, run, share, split)))
    published.write_unit(folder, plan.unit_name(block, start, run), paths)


SHARES = dict(zip(["start", *ARMS], (0.2, 0.5, 0.7, 0.6, 0.55, 0.7, 0.5, 0.5), strict=True))


def write_block(folder):
    """Publish four starts, two of them with a second run, and a start that lacks an arm."""
    for start, run in ((71, 1), (72, 1), (73, 1), (74, 1), (71, 2), (72, 2)):
        write(folder, "block1", start, run, SHARES)
    write(folder, "block1", 75, 1, {arm: 0.9 for arm in SHARES if arm != "STARE"})
    of_plan = plan.read_plan()
    for block in ("one_rate", "linear", "linear_one_rate", "no_resampling", "six_million", "rivals"):
        arms = ["start", *of_plan["blocks"][block]["arms"]]
        for start in (71, 72)[: 1 if block == "rivals" else 2]:
            write(folder, block, start, of_plan["blocks"][block]["run"], dict.fromkeys(arms, 0.5))
    for block, look in of_plan["looks"].items():
        for start in look["starts"]:
            run = of_plan["blocks"][block]["run"]
            write(folder, plan.look_name(block), start, run, look_shares(of_plan, block), "validation")


def look_shares(of_plan, block):
    """A share of what is solved for each arm and rate of a look, of which the larger rate has more."""
    named = [
        (plan.at_rate(of_plan, arm, rate, form=None), rate)
        for arm in of_plan["looks"][block]["arms"]
        for rate in plan.look_rates(of_plan, block, arm)
    ]
    return {"start": 0.2} | {name: 0.1 + 3000 * rate for name, rate in named}


def pilot_shares(**of_c2):
    """Shares with which the pilot's rule asks for 5e-4 for C2 only."""
    shares = {"start": 0.2}
    for arm in ("GRPO", "F-GRPO", "KL 0.03"):
        shares |= {f"{arm}, rate 0.00025": 0.4, f"{arm}, rate 0.000125": 0.6}
    form = "C2 let go, half from 0.6, rate "
    shares |= {f"{form}0.00025": 0.7, f"{form}0.000125": 0.5, f"{form}0.0005": 0.4}
    return shares | {f"C2 let go, {name.replace('_', ' ')}, rate 0.00025": share for name, share in of_c2.items()}


def test_the_package_has_the_form_and_the_rates_that_the_pilot_chose():
    made = plan.read_plan()
    form = made["forms"][made["chosen"]["form"]]
    level = made["arms"]["C2 let go"]["hold_entropy"]
    assert form["hold_entropy_final"] == pytest.approx(FINAL_OVER_LEVEL * level)
    assert form["hold_entropy_decay_start"] == RELEASE_AFTER
    # F-GRPO with C2 has C2's rate, by the protocol.
    arms = {"demo_grpo": ("GRPO", "GRPO"), "demo_held": ("F-GRPO and C2 let go", "C2 let go")}
    for recipe, (arm, of_rate) in arms.items():
        settings = load_recipe(recipe)
        assert settings["learning_rate"] == made["chosen"]["rates"][of_rate]
        assert settings.get("hold_entropy") == made["arms"][arm].get("hold_entropy")
        assert not settings.keys() & {"hold_entropy_until", "hold_entropy_final", "hold_entropy_decay_start"}


def pilot_of(shares):
    """What the rule sees of a pilot with these shares of what is solved."""
    records = {
        (arm, start): record(arm, start, 1, share, "validation") for arm, share in shares.items() for start in (61, 62)
    }
    return rule.Pilot(plan.read_plan(), records)


@pytest.mark.parametrize("make_plan", [chosen_plan, written_plan])
def test_the_page_is_what_another_script_computes(tmp_path, make_plan):
    write_block(tmp_path)
    forms = {"half from 0.4": 0.72, "zero from 0.6": 0.69, "zero from 0.4": 0.75}
    for start in (61, 62):
        write(tmp_path, "pilot", start, 1, pilot_shares(**forms), "validation")
    made = make_plan()
    text = page.page(made, tmp_path)
    wrong, equal = letgo_recomputed.check(text, tmp_path, numbers_of_units(made))
    progress, claims, tokens, mixture, start_by_start = 1 + 7, 2 * (5 + 4 + 3 + 7) + 4, 4 + 6, 2 * 3, 4
    # One row for each arm and the start, and a table without its own row for each arm that others are compared with.
    values = (8 + 5 + 5 + 7 + 5 + 8 + 10) * 9
    differences = (5 * 7 - 4 + 5 * 4 - 4 + 2 * (4 * 4 - 3) + 4 * 6 - 3 + 5 * 7 - 4 + 4 * 9 - 3) * 9
    logs, equal_steps, held, spread, pilot, looks = 7 * 5, 7, 2 * 2, 7 * 6 + 1, 12 * 5, 4 * 2 + 4 * 2
    schedules = 1 + (4 + 6) * 2
    tables = values, differences, schedules, start_by_start, mixture, logs, equal_steps, held, spread, pilot, looks
    assert wrong == [] and equal == progress + claims + tokens + sum(tables)
    assert "{" not in text


def numbers_of_units(of_plan):
    """The number of starts and runs of each block."""
    return {block: len(plan.block_units(of_plan, block)) for block in of_plan["blocks"]}


@pytest.mark.parametrize("heading", re.findall(r"\n## (.*)\n\n(?=[^#]*\{)", page.TEXT.read_text()))
def test_the_recomputation_finds_a_changed_number(tmp_path, heading):
    write_block(tmp_path)
    for start in (61, 62):
        write(tmp_path, "pilot", start, 1, pilot_shares(), "validation")
    made = written_plan()
    before, text = page.page(made, tmp_path).split(f"\n## {heading}\n")
    section, *rest = text.split("\n## ")
    changed = re.sub(r"\d(?=\D*$)", lambda digit: str((int(digit[0]) + 5) % 10), section)
    text = "\n## ".join([f"{before}\n## {heading}\n{changed}", *rest])
    assert letgo_recomputed.check(text, tmp_path, numbers_of_units(made))[0]


def test_a_start_counts_once_and_only_if_it_is_whole(tmp_path):
    write_block(tmp_path)
    block = Block(chosen_plan(), "block1", tmp_path)
    assert block.starts == [71, 72, 73, 74] and len(block.values("GRPO", lambda model: model.steps)) == 4
    steps = [model.steps for model in block.models("GRPO", 71)]
    assert block.values("GRPO", lambda model: model.steps)[0] == sum(steps) / 2 and len(steps) == 2


@pytest.mark.parametrize("key", ["start_weights", "processor"])
def test_runs_that_cannot_be_compared_are_refused(tmp_path, key):
    write_block(tmp_path)
    unit = plan.unit_name("block1", 71)
    records = published.read_unit(tmp_path, unit)
    records["STEER"][key] = "another"
    paths = [tmp_path / f"{i}.json" for i in range(len(records))]
    for path, one in zip(paths, records.values(), strict=True):
        path.write_text(json.dumps(one))
    published.write_unit(tmp_path, unit, paths)
    with pytest.raises(ValueError, match=f"STEER.*{key}"):
        Block(chosen_plan(), "block1", tmp_path)


def test_the_rule_asks_for_a_larger_rate_only_where_the_first_two_call_for_it():
    shares = pilot_shares()
    pilot = pilot_of(shares)
    assert pilot.rates("GRPO") == [2.5e-4, 1.25e-4] and pilot.rates("C2 let go") == [2.5e-4, 1.25e-4, 5e-4]
    assert {arm: pilot.rate(arm) for arm in RATES} == RATES
    del shares["C2 let go, half from 0.6, rate 0.0005"]
    assert pilot_of(shares).rate("C2 let go") is None and pilot_of(shares).form() is None


def test_the_rule_chooses_the_form_that_solves_most_of_those_that_do_not_lose_in_one_try(monkeypatch):
    shares = pilot_shares(**{"half from 0.4": 0.8, "zero from 0.6": 0.75, "zero from 0.4": 0.7})
    pilot = pilot_of(shares)
    assert pilot.form() == "half from 0.4"
    first = {
        form: pilot.solved(plan.pilot_arm(pilot.plan, "C2 let go", 2.5e-4, form), 1) for form in pilot.plan["forms"]
    }
    baseline = pilot.solved("GRPO, rate 0.000125", 1)
    # Only one form is allowed, and then none.
    second, largest = sorted(first.values())[-2:]
    monkeypatch.setattr(rule, "LARGEST_LOSS", baseline - (second + largest) / 2)
    assert first[pilot.form()] == largest
    monkeypatch.setattr(rule, "LARGEST_LOSS", baseline - 2 * largest)
    assert first[pilot.form()] == largest


def test_a_look_chooses_the_rate_with_the_largest_score_once_all_of_its_runs_are_there(tmp_path):
    made = chosen_plan()
    records = {
        (arm, start): record(arm, start, 5, share, "validation")
        for arm, share in look_shares(made, "six_million").items()
        for start in (61, 62)
    }
    assert rule.look_choice(made, "six_million", records) == RATES
    del records["GRPO, rate 6.25e-05", 62]
    assert rule.look_choice(made, "six_million", records) == RATES | {"GRPO": None}
    with pytest.raises(InvalidValueError, match="chosen: six_million"):
        plan.block_jobs(made, "six_million")
    made["chosen"]["six_million"] = {"GRPO": 6.25e-5}
    rates = {job.arm: job.settings["learning_rate"] for job in plan.block_jobs(made, "six_million")}
    assert rates == RATES | {"GRPO": 6.25e-5}


def test_a_baseline_that_others_wait_for_is_made_one_start_ahead():
    made = chosen_plan()
    made["chosen"]["linear"] = RATES
    jobs = plan.block_jobs(made, "linear")
    assert len(jobs) == 40 and len({(job.start, job.arm) for job in jobs}) == 40
    order = [(job.start, job.arm) for job in jobs]
    assert order[:3] == [(71, "GRPO"), (72, "GRPO"), (71, "C2 let go")] and order[-1] == (80, "F-GRPO and C2 let go")
    for job in jobs:
        if job.tokens_of:
            assert order.index((job.start, "GRPO")) < order.index((job.start, job.arm)) - 1
            assert job.tokens_of.unit == job.unit and job.steps_of.unit == f"block1-start{job.start}-run1"


def test_runs_beside_another_block_differ_from_its_runs_in_nothing_but_the_rate():
    made = plan.read_plan()
    of_linear = {(job.start, job.arm): job for job in plan.block_jobs(made, "linear")}
    jobs = plan.block_jobs(made, "linear_one_rate")
    assert [job.start for job in jobs] == [start for start in range(71, 76) for _ in range(2)]
    for job in jobs:
        same = of_linear[job.start, job.arm.removesuffix(", rate 2.5e-4")]
        assert job.settings == same.settings | {"learning_rate": 2.5e-4} != same.settings
        assert job.steps_of == same.steps_of and job.tokens_of == same.tokens_of


def test_the_advice_prefers_what_is_simple(tmp_path):
    def of(**shares):
        for start in (71, 72, 73):
            write(tmp_path, "block1", start, 1, dict.fromkeys(SHARES, 0.04) | shares)
        return Block(chosen_plan(), "block1", tmp_path)

    both = "F-GRPO and C2 let go"
    assert advised(of(**{"C2 let go": 0.25})) == ("C2 let go", "C2 let go")
    assert advised(of(**{"C2 let go": 0.25, both: 0.9})) == (both, "C2 let go")
    assert advised(of(**{"KL 0.03": 0.2, "C2 let go": 0.2, "F-GRPO": 0.9})) == ("F-GRPO", "KL 0.03")
    # Ahead in the mean, but not by more than the interval.
    block = of(**{"KL 0.03": 0.5, "F-GRPO": 0.505})
    assert passing(block, ["KL 0.03", "F-GRPO"]) == ["KL 0.03", "F-GRPO"] and advised(block) == ("KL 0.03", "KL 0.03")
    assert advised(of(**{"GRPO": 0.9})) == (None, None)


@pytest.mark.skipif(not page.PAGE.exists(), reason="no run of protocol 4 is published yet")
def test_the_published_page_of_protocol_4_is_recomputed():
    text = page.PAGE.read_text()
    assert text == page.page(plan.read_plan(), published.FOLDER)
    assert letgo_recomputed.check(text, published.FOLDER)[0] == []


@needs_starts
def test_a_start_model_is_the_published_file(tmp_path):
    names = [line.split()[1] for line in (starts.FOLDER / starts.SUMS).read_text().splitlines()]
    assert names == sorted(path.name for path in starts.FOLDER.glob("*.safetensors"))
    start = int(names[0].partition(".")[0])
    experiment = Experiment(COUNTDOWN, tmp_path / "runs", seed=start, start_steps=500)
    digest = starts.put(experiment)
    assert (
        digest == starts.digest(starts.FOLDER / names[0]) == starts.digest(experiment.folder("start") / starts.WEIGHTS)
    )
    copied = tmp_path / "starts"
    starts.add(experiment.folder("start"), start, copied)
    (copied / names[0]).write_bytes(b"another model")
    with pytest.raises(InvalidValueError, match="is not the file"):
        starts.put(experiment, copied)
    with pytest.raises(InvalidValueError, match="another number"):
        starts.add(experiment.folder("start"), start, copied)


@needs_starts
def test_a_unit_is_published_when_all_of_its_runs_are_there(tmp_path):
    tiny = chosen_plan()
    tiny["common"] |= {"max_generated_tokens": 5000, "save_steps": 4, "dynamic_sampling": "none"}
    tiny |= {"samplings": ["t1"], "num_problems": 4}
    block = {"split": "test", "starts": [61], "arms": ["GRPO", "C2 let go"], "equal_steps": "C2 let go"}
    tiny["blocks"] = {"block1": block}
    (tmp_path / "plan.yaml").write_text(yaml.safe_dump(tiny, sort_keys=False))
    words = ["-m", "experiments.letgo", "block1", "--plan", "plan.yaml", "--output_dir", "runs", "--published", "out"]

    def make(check=True):
        return run_process(*words, "--workers", 1, folder=tmp_path, PYTHONPATH=str(ROOT), check=check)

    make()
    unit = published.read_unit(tmp_path / "out", "block1-start61-run1")
    assert list(unit) == ["start", "GRPO", "C2 let go"]
    ours = unit["C2 let go"]
    assert ours["seed"] == 6101 and ours["settings"]["hold_entropy_final"] == 0.325 and ours["processor"]
    assert ours["at_equal_steps"]["evaluations"]["t1"]["benchmarks"]["test"]["samples"] == 16
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    make()
    assert before == {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*") if path.is_file()}
    # The records of the published file are enough to go on, unless they are of another machine.
    (path,) = (tmp_path / "runs/records").rglob("c2*.json")
    path.unlink()
    baseline = path.with_name(path.name.replace("c2-let-go", "grpo"))
    baseline.write_text(json.dumps(unit["GRPO"] | {"processor": "another"}))
    (tmp_path / "out/block1-start61-run1.jsonl.xz").unlink()
    failed = make(check=False)
    assert failed.returncode and "differs from" in failed.stderr and not path.exists()


@needs_starts
def test_later_blocks_end_with_the_baselines_tokens_and_stop_early(tmp_path):
    tiny = chosen_plan()
    tiny["common"] |= {"max_generated_tokens": 10_000, "save_steps": 2, "dynamic_sampling": "none"}
    tiny |= {"samplings": ["t1"], "num_problems": 4}
    arms = {"starts": [61], "arms": ["GRPO", "F-GRPO"], "split": "test"}
    early = {"arms": ["F-GRPO"], "every": 8000, "split": "validation", "num_problems": 3}
    falling = tiny["blocks"]["linear"]["settings"]
    tiny["blocks"] = {
        "block1": arms | {"stop_early": early},
        "linear": arms | {"run": 3, "steps_of": "block1", "settings": falling},
    }
    tiny["chosen"]["linear"] = RATES
    (tmp_path / "plan.yaml").write_text(yaml.safe_dump(tiny, sort_keys=False))
    words = ["--plan", "plan.yaml", "--output_dir", "runs", "--published", "out", "--workers", 2]
    failed = run_process(
        "-m", "experiments.letgo", "linear", *words, folder=tmp_path, PYTHONPATH=str(ROOT), check=False
    )
    assert failed.returncode and "block1-start61-run1, GRPO has no record" in failed.stderr
    for block in tiny["blocks"]:
        run_process("-m", "experiments.letgo", block, *words, folder=tmp_path, PYTHONPATH=str(ROOT))
    constant = published.read_unit(tmp_path / "out", "block1-start61-run1")
    linear = published.read_unit(tmp_path / "out", "linear-start61-run3")
    assert linear["GRPO"]["steps"] == constant["GRPO"]["steps"]
    tokens, before = linear["GRPO"]["generated_tokens"], linear["F-GRPO"].get("before")
    first = before or linear["F-GRPO"]
    assert first["steps"] == round(constant["F-GRPO"]["steps"] * tokens / 10_000)
    differs = abs(first["generated_tokens"] / tokens - 1) > 0.03
    assert differs == (before is not None)
    if differs:
        assert linear["F-GRPO"]["steps"] == round(first["steps"] * tokens / first["generated_tokens"])
    stopped = constant["F-GRPO"]["stopped_early"]
    assert stopped["scores"][str(stopped["generated_tokens"])] == max(stopped["scores"].values())
    assert stopped["evaluations"]["t1"]["benchmarks"]["test"]["samples"] == 16 and len(stopped["scores"]) == 2
    assert "stopped_early" not in constant["GRPO"]


NOTEBOOK = ROOT / "examples/notebooks/entropy_on_cpu.ipynb"
INTERVAL = re.compile(r"(\d+\.\d+) ?± ?(\d+\.\d+)")
needs_page = pytest.mark.skipif(not page.PAGE.exists(), reason="a source distribution has no results")


def section(page, title):
    return (ROOT / page).read_text().split(f"# {title}\n")[1].split("\n## ")[0]


def section_of_results():
    return section("docs/results.md", "Hold and let go")


def means_of_pairs():
    """The mean differences of the published pairs."""
    pairs = [json.loads(line) for line in PAIRS.read_text().splitlines()]
    for row in ("solved in one try", "solved in 16 tries"):
        mean = over_starts([100 * pair[row]["difference"] for pair in pairs])
        yield f"{mean.mean:.1f} ± {mean.half:.1f}"


@needs_page
def test_every_interval_of_the_pages_stands_in_a_generated_one():
    """A page may turn the sign of a difference round, so signs are not compared."""
    generated = [path.read_text() for path in page.PAGE.parent.glob("results*.md")]
    generated.append(NOTEBOOK.read_text(encoding="utf-8"))
    known = {pair for text in [*generated, *means_of_pairs()] for pair in INTERVAL.findall(text)}
    of_pairs = section("docs/tutorial.md", "The published pairs")
    for text in ((ROOT / "README.md").read_text(), section_of_results(), of_pairs):
        intervals = INTERVAL.findall(text)
        assert intervals and [pair for pair in intervals if pair not in known] == []


@needs_page
def test_the_table_of_the_results_has_what_each_arm_solves():
    block = Block(plan.read_plan(), "block1", published.FOLDER)
    table = letgo_recomputed.rows(section_of_results())[0]
    for row, arm in zip(table, ["start", *block.arms], strict=True):
        for cell, k in zip(row[1:3], (1, 16), strict=True):
            values = block.values(arm, solved("t1", k))
            assert letgo_recomputed.agrees(cell, [sum(values) / len(values)]), row
