"""pass@k of a run's own groups, over everything that was generated."""

from itertools import combinations
from statistics import fmean

import pytest
from support.runs import has_one

from steer_trl import SteerGRPOTrainer
from steer_trl.monitoring import run_files
from steer_trl.report.data import page_data
from steer_trl.report.read import find_runs

KS = (1, 2, 4, 8)


def all_subsets(correct, size, k):
    """The share of all subsets of k completions with a correct one: what pass@k estimates, without a formula."""
    groups = [correct[start : start + size] for start in range(0, len(correct), size)]
    return fmean(fmean(max(subset) for subset in combinations(group, k)) for group in groups)


class Recorded:
    """A reward that keeps the rewards of each call."""

    __name__ = "recorded"

    def __init__(self, threshold=0.0):
        self.calls = []
        self.threshold = threshold

    def __call__(self, completions, trainer_state, **_):
        rewards = has_one(completions)
        self.calls.append((trainer_state.global_step, [float(reward > self.threshold) for reward in rewards]))
        return rewards

    def by_step(self):
        found = {}
        for step, rewards in self.calls:
            found.setdefault(step, []).extend(rewards)
        return found


@pytest.mark.parametrize("size", [2, 4, 8])
@pytest.mark.parametrize("dynamic_sampling", ["none", "resample"])
def test_logged_pass_at_k_counts_subsets_of_everything_generated(train, tmp_path, dynamic_sampling, size):
    reward = Recorded()
    sizes = {"per_device_train_batch_size": 16, "gradient_accumulation_steps": 1, "num_generations": size}
    settings = sizes | {"advantage_shaping": "none", "dynamic_sampling": dynamic_sampling, "max_steps": 3}
    trainer = train(SteerGRPOTrainer, trainer_arguments={"reward_funcs": reward}, **settings)
    log = {entry["step"] - 1: entry for entry in trainer.state.log_history if "loss" in entry}
    generated = reward.by_step()
    assert generated and generated.keys() <= log.keys()
    for step, entry in log.items():
        keys = {key for key in entry if key.startswith("rollout_pass@")}
        assert keys == ({f"rollout_pass@{k}" for k in KS if k <= size} if step in generated else set())
    for step, correct in generated.items():
        for k in (k for k in KS if k <= size):
            assert log[step][f"rollout_pass@{k}"] == pytest.approx(all_subsets(correct, size, k))
    (run,) = page_data(find_runs([tmp_path / "run"]))["runs"]
    assert "rollout_pass@2" in run["curves"]


def test_without_a_deciding_reward_pass_at_k_is_not_logged(train, tmp_path):
    arguments = {"reward_funcs": [has_one, Recorded()]}
    trainer = train(SteerGRPOTrainer, trainer_arguments=arguments, advantage_shaping="none", max_steps=1)
    assert not any(key.startswith("rollout_pass@") for entry in trainer.state.log_history for key in entry)
    entries = run_files.lines(tmp_path / "run/_logs/metrics.jsonl")
    assert any("loss" in entry for entry in entries)
