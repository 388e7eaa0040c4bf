"""Where the entropy began: one number, of the first rollouts, kept in the checkpoint; all readers read the same."""

import json
import math

import pytest
from support.runs import OPEN_STARE
from transformers import TrainerState

from steer_trl import SteerGRPOConfig, SteerGRPOTrainer, runlog
from steer_trl.curves import entropy_ends
from steer_trl.diagnostics.start import start_entropy
from steer_trl.diagnostics.watch import Watch
from steer_trl.report.data import page_data
from steer_trl.report.read import find_runs
from steer_trl.trainer.callbacks.terminal import Story
from steer_trl.trainer.log.start_entropy import StartEntropy

START = "rollout_entropy/start"
LARGE = {"per_device_train_batch_size": 32, "gradient_accumulation_steps": 1, "num_generations": 4}  # 8 prompts


def start(**fields):
    return StartEntropy(SteerGRPOConfig("out", use_cpu=True, bf16=False, **LARGE | fields))


def taken(one, *entropies):
    return [one.take(entropy, is_untrained=i == 0).get(START) for i, entropy in enumerate(entropies)]


def test_it_is_the_mean_of_the_first_four_rollouts_and_then_stays():
    one = start()
    assert one.value is None and one.state_dict() == {}
    assert taken(one, 0.8, 0.6, 0.4, 0.2, 0.1) == pytest.approx([0.8, 0.7, 0.6, 0.5, 0.5])
    assert one.is_settled and one.value == pytest.approx(0.5)


def test_it_is_of_as_many_rollouts_as_have_32_prompts():
    small = start(per_device_train_batch_size=8)  # two prompts
    taken(small, *[1.0] * 15)
    assert not small.is_settled
    small.take(17.0, is_untrained=False)
    assert small.is_settled and small.value == pytest.approx(2.0)


@pytest.mark.parametrize("entropy", [math.nan, 0.0, math.inf])
def test_a_rollout_without_an_entropy_is_none_of_them(entropy):
    one = start()
    assert taken(one, entropy) == [None]
    assert taken(one, 0.5, entropy) == [0.5, 0.5]


def test_a_run_that_is_resumed_without_its_start_has_none():
    """The entropy of the middle of a training is not where it began."""
    one = start()
    assert one.take(0.1, is_untrained=False) == {} and one.value is None


def test_it_continues_from_its_state():
    whole, first = start(), start()
    taken(first, 0.8, 0.6)
    second = start()
    second.load_state_dict(json.loads(json.dumps(first.state_dict())))
    for entropy in (0.4, 0.2, 0.1):
        second.take(entropy, is_untrained=False)
    taken(whole, 0.8, 0.6, 0.4, 0.2, 0.1)
    assert second.value == whole.value and second.is_settled


@pytest.mark.parametrize("entropies", [0.5, [0.5, -1.0], [True], ["0.5"], None])
def test_a_state_that_cannot_be_is_refused(entropies):
    with pytest.raises(ValueError, match=r"^entropies must be a list, each a number of nats"):
        start().load_state_dict({"entropies": entropies})
    with pytest.raises(ValueError, match=r"^entropies is missing"):
        start().load_state_dict({})


def test_a_run_logs_it_keeps_it_and_is_resumed_with_it(train, make_trainer, tmp_path):
    settings = OPEN_STARE | {"save_strategy": "steps", "save_steps": 2}
    whole = train(SteerGRPOTrainer, **settings)
    entries = [entry for entry in whole.state.log_history if START in entry]
    entropies = [entry["rollout_entropy"] for entry in entries]
    means = [sum(entropies[: i + 1]) / (i + 1) for i in range(len(entropies))]
    assert [entry[START] for entry in entries] == pytest.approx(means) and len(set(entropies)) == 4
    state = json.loads((tmp_path / "run/checkpoint-2/shaping_state.json").read_text())["start_entropy"]
    assert state == {"entropies": pytest.approx(entropies[:2])}
    resumed = make_trainer(SteerGRPOTrainer, **settings)
    resumed.train(resume_from_checkpoint=str(tmp_path / "run/checkpoint-2"))
    assert resumed.rollouts.start.value == whole.rollouts.start.value


def test_the_level_that_is_held_is_relative_to_it(train):
    settings = {"advantage_shaping": "repo_r", "hold_entropy": 0.5, "max_steps": 5} | LARGE
    log = train(SteerGRPOTrainer, **settings).state.log_history
    held = [entry for entry in log if "hold_entropy/target" in entry]
    assert held and all(entry["hold_entropy/initial_entropy"] == pytest.approx(entry[START]) for entry in held)
    assert held[-1]["hold_entropy/target"] == pytest.approx(0.5 * held[-1][START])


LINES = [
    {"entropy": 1.0, "rollout_entropy": 0.9, START: 0.9, "reward": 0.1},
    {"entropy": 0.7, "rollout_entropy": 0.7, START: 0.8, "reward": 0.1},
    {"entropy": 0.3, "rollout_entropy": 0.3, START: 0.8, "reward": 0.1},
]


def without(*keys):
    return [{key: value for key, value in line.items() if key not in keys} for line in LINES]


@pytest.mark.parametrize(
    ("lines", "expected"),
    [(LINES, 0.8), (without(START), 0.9), (without(START, "rollout_entropy"), 1.0)],
    ids=["logged", "of rollouts", "of the loss"],
)
def test_all_that_compare_with_it_read_the_same(lines, expected, tmp_path):
    assert start_entropy(lines) == expected
    watch, story = Watch(), Story()
    state = TrainerState(max_steps=3)
    for step, line in enumerate(lines, 1):
        state.global_step = step
        watch.take(step, line)
        text = story.line(line, state)
        runlog.append(tmp_path / "run", {"step": step} | line)
    assert watch.state_dict()["numbers"][START] == expected
    assert f"(start {expected:.3g})" in text
    assert entropy_ends([{"step": i} | line for i, line in enumerate(lines)]) == (expected, pytest.approx(2 / 3))
    (run,) = page_data(find_runs([tmp_path / "run"]))["runs"]
    assert {run["ends"][key][0] for key in ("entropy", "rollout_entropy") if key in run["ends"]} == {expected}


def test_numbers_that_are_none_are_no_start():
    assert start_entropy([{"rollout_entropy": None, "entropy": math.nan}, {"entropy": 0.5}, {"entropy": 0.1}]) == 0.5
    assert start_entropy([{"loss": 1.0}]) is None and start_entropy([{"entropy": 0.3}], before=0.6) == 0.6
