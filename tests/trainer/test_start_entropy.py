"""Where the entropy began: one number, of the first rollouts, kept in the checkpoint; all readers read the same."""

import json
import math

import pytest
from support.runs import OPEN_STARE
from transformers import TrainerState

from steer_trl import SteerGRPOConfig, SteerGRPOTrainer
from steer_trl.entropy.start import StartEntropy, count_first_rollouts
from steer_trl.monitoring import run_files
from steer_trl.monitoring.start import entropy_ends, start_entropy
from steer_trl.monitoring.watch import AlarmWatch
from steer_trl.report.data import page_data
from steer_trl.report.read import find_runs
from steer_trl.trainer.log.terminal import LogFormatter

START = "rollout_entropy/start"
LARGE = {"per_device_train_batch_size": 32, "gradient_accumulation_steps": 1, "num_generations": 4}  # 8 prompts


def start(**fields):
    return StartEntropy(count_first_rollouts(SteerGRPOConfig("out", use_cpu=True, bf16=False, **LARGE | fields)))


def taken(one, *entropies):
    found = []
    for entropy in entropies:
        one.add(entropy)
        found.append(one.value)
    return found


def test_the_start_is_the_mean_of_the_first_four_rollouts():
    one = start()
    assert one.value is None and one.state_dict() == {}
    assert taken(one, 0.8, 0.6, 0.4) == pytest.approx([0.8, 0.7, 0.6]) and one.settled is None
    assert taken(one, 0.2, 0.1) == pytest.approx([0.5, 0.5]) and one.settled == one.value
    small = start(per_device_train_batch_size=8)  # two prompts: sixteen rollouts have 32
    taken(small, *[1.0] * 15)
    assert small.settled is None
    assert taken(small, 17.0) == [pytest.approx(2.0)] and small.settled


@pytest.mark.parametrize("entropy", [math.nan, 0.0, math.inf])
def test_rollouts_without_an_entropy_are_not_counted(entropy):
    one = start()
    assert taken(one, entropy) == [None]
    assert taken(one, 0.5, entropy) == [0.5, 0.5]
    assert one.skipped == 2


def test_the_start_continues_from_its_state():
    whole, first, second = start(), start(), start()
    first.add(0.8, is_late=True)
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    assert taken(second, 0.6, 0.4, 0.2, 0.1) == taken(whole, 0.8, 0.6, 0.4, 0.2, 0.1)[1:]
    assert second.is_late and not whole.is_late
    second.load_state_dict({})
    assert second.value is None


def test_a_state_that_cannot_be_is_refused():
    for entropies in (0.5, [0.5, -1.0], [True], ["0.5"], None):
        with pytest.raises(ValueError, match=r"^entropies must be a list, each a number of nats"):
            start().load_state_dict({"entropies": entropies, "is_late": False})
    with pytest.raises(ValueError, match=r"^is_late is missing"):
        start().load_state_dict({"entropies": [0.5]})


def test_the_start_entropy_is_logged_and_resumed(train, make_trainer, tmp_path):
    settings = OPEN_STARE | {"save_strategy": "steps", "save_steps": 2}
    whole = train(SteerGRPOTrainer, **settings)
    entries = [entry for entry in whole.state.log_history if START in entry]
    entropies = [entry["rollout_entropy"] for entry in entries]
    means = [sum(entropies[: i + 1]) / (i + 1) for i in range(len(entropies))]
    assert [entry[START] for entry in entries] == pytest.approx(means) and len(set(entropies)) == 4
    checkpoint = tmp_path / "run/checkpoint-2"
    state = json.loads((checkpoint / "shaping_state.json").read_text())["start_entropy"]
    assert state["entropies"] == pytest.approx(entropies[:2]) and state["is_late"] is False
    resumed = make_trainer(SteerGRPOTrainer, **settings)
    resumed.train(resume_from_checkpoint=str(checkpoint))
    assert resumed.parts.rollouts.start.value == whole.parts.rollouts.start.value
    (checkpoint / "shaping_state.json").unlink()  # as plain TRL's: the entropy of its middle is no start
    late = make_trainer(SteerGRPOTrainer, **settings)
    late.train(resume_from_checkpoint=str(checkpoint))
    assert not [entry for entry in late.state.log_history[2:] if START in entry] and late.parts.rollouts.start.value


def test_the_held_level_is_relative_to_the_start_entropy(train):
    settings = {"advantage_shaping": "repo_r", "hold_entropy": 0.5, "max_steps": 5} | LARGE
    settings |= {"hold_entropy_until": 1.0}
    log = train(SteerGRPOTrainer, **settings).state.log_history
    held = [entry for entry in log if "hold_entropy/target" in entry]
    assert held and held[-1]["hold_entropy/target"] == pytest.approx(0.5 * held[-1][START])


NUMBERS = (1.0, 0.9, 0.9), (0.7, 0.7, 0.8), (0.3, 0.3, 0.8)
LINES = [{"entropy": loss, "rollout_entropy": rollout, START: mean, "reward": 0.1} for loss, rollout, mean in NUMBERS]


def without(*keys):
    return [{key: value for key, value in line.items() if key not in keys} for line in LINES]


ENDED = {"completions/clipped_ratio": 0.5}
TRUNCATED = [{"entropy": 0.0, "completions/clipped_ratio": 1.0}, {"entropy": 0.0}, {"entropy": 0.0}]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [
        (LINES, 0.8),
        (without(START), 0.9),
        (without(START, "rollout_entropy"), 1.0),
        (TRUNCATED + [line | ENDED for line in without(START, "rollout_entropy")], 1.0),
    ],
    ids=["logged", "of rollouts", "of the loss", "after a truncated rollout"],
)
def test_every_reader_finds_the_same_start(lines, expected, tmp_path):
    assert start_entropy(lines) == expected
    watch, story = AlarmWatch(), LogFormatter()
    for step, line in enumerate(lines, 1):
        watch.read_entry(step, line)
        text = story.line(line, TrainerState(global_step=step, max_steps=3))
        run_files.append(tmp_path / "run", {"step": step} | line)
    assert watch.state_dict()["numbers"][START] == expected
    assert f"(start {expected:.3g})" in text
    begin, end = entropy_ends([{"step": i} | line for i, line in enumerate(lines)])
    assert begin == expected and (end == pytest.approx(2 / 3) or len(lines) > 3)
    (run,) = page_data(find_runs([tmp_path / "run"]))["runs"]
    assert run["entropy"]["start"] == expected
