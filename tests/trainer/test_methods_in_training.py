"""Methods inside the trainer: what they are given, what it costs, what a checkpoint keeps."""

import pandas
import pytest
import torch
from support.digits import given
from support.groups import Given, is_correct, numbered
from support.methods.batches import ON_ROLLOUTS
from support.methods.cases import CASES, threshold
from support.runs import Watching, has_one

from steer_trl import SteerGRPOTrainer
from steer_trl.shaping import SHAPERS


def settings(name):
    return {"advantage_shaping": name} | threshold(name, 0.5) | (CASES[name].lively if name in CASES else {})


def judged(name, **arguments):
    return {"trainer_arguments": arguments | ({"reward_funcs": has_one} if CASES[name].two_valued else {})}


@pytest.mark.parametrize("sampling", ["none", "resample"])
def test_the_success_rate_is_of_trained_groups(train, sampling):
    arguments = {"reward_funcs": is_correct, "train_dataset": numbered(16), "rollout_func": Given()}
    fields = {"dynamic_sampling": sampling, "max_completion_length": 16, "gradient_accumulation_steps": 4}
    trainer = train(Watching, **settings("maxrl") | fields, trainer_arguments=arguments)
    for rollout in trainer.written:
        texts = trainer.processing_class.batch_decode(rollout["completion_ids"], skip_special_tokens=True)
        rewards = torch.tensor(is_correct(texts)).view(-1, 4)
        rate = rewards.mean(1, keepdim=True)
        expected = torch.where(rate > 0, (rewards - rate) / rate, 0.0)
        torch.testing.assert_close(rollout["advantages"], expected.flatten())
        assert sampling != "resample" or (expected != 0).all()
    assert any((rollout["advantages"] == 1).any() for rollout in trainer.written)


@pytest.mark.parametrize("name", [name for name in CASES if CASES[name].two_valued])
def test_rewards_that_the_method_would_ignore_are_refused(train, name):
    with pytest.raises(ValueError, match=rf"'{name}' needs rewards of two values, one above correct_threshold=0.5"):
        train(SteerGRPOTrainer, **settings(name))


def test_weighted_and_missing_rewards(train):
    """Two functions with weights; the first decides, and where it passes, the advantage is 0."""

    def first(completions, **_):
        return [None if i % 4 == 3 else float(len(text)) for i, text in enumerate(completions)]

    def second(completions, **_):
        return [None if i % 4 == 3 or i % 2 else 1.0 for i, _ in enumerate(completions)]

    fields = settings("w_reinforce") | {"correct_threshold": 2.0, "reward_weights": [1.0, 3.0], "max_steps": 1}
    fields["correct_reward"] = "first"
    trainer = train(Watching, **fields, trainer_arguments={"reward_funcs": [first, second]})
    (rollout,) = trainer.written
    lengths = torch.tensor(list(trainer._logs["rewards"]["first"]))
    expected = torch.where(lengths.nan_to_num() > 2, 0.1, -1.0)
    expected[3::4] = 0
    assert torch.equal(rollout["advantages"], expected)


def one_finished(prompts, trainer):
    """Groups of four: only the first ends, and is right; a tool wrote the second token of each."""
    ids = trainer.processing_class(["1131<eos>", "224590", "77", "0927"] * (len(prompts) // 4))["input_ids"]
    masks = [[int(place != 1) for place in range(len(x))] for x in ids]
    return given(prompts, trainer, ids, masks)


@pytest.mark.parametrize("num_iterations", [1, 2])  # with 2, TRL scores the rollout itself
@pytest.mark.parametrize("name", ON_ROLLOUTS)
def test_truncated_completions_are_compared_but_not_trained(train, name, num_iterations):
    """`mask_truncated_completions` is about the loss: the advantages are those without it.

    `psr` and `nsr` have another factor then, because the loss is to be a mean over what is left.
    """
    fields = settings(name) | {"max_steps": 1, "num_iterations": num_iterations, "loss_type": "grpo"}
    fields |= judged(name, rollout_func=one_finished)
    masked, plain = (train(Watching, **fields, mask_truncated_completions=on).written[0] for on in (True, False))
    assert masked["completion_mask"].sum(1).tolist() == [5, 0, 0, 0] * 2
    assert plain["completion_mask"].sum(1).tolist() == [5, 6, 2, 4] * 2
    if name in ("psr", "nsr"):
        masked["advantages"], plain["advantages"] = masked["advantages"].sign(), plain["advantages"].sign()
    torch.testing.assert_close(masked["advantages"], plain["advantages"])
    assert name in ("nsr", "entrocraft") or (masked["advantages"].view(8, -1)[::4, 0] > 0).all()


@pytest.mark.parametrize("name", ["gtpo", "steer", "w_reinforce"])
def test_the_table_of_completions_has_the_advantages_of_whole_rollouts(train, tmp_path, name):
    """Means over a completion's tokens; what the loss does to them later (STEER's weights) is not in it."""
    trainer = train(Watching, **settings(name), max_steps=2, log_completions=True)
    rollout = trainer.written[-1]
    advantages = rollout["advantages"].view(8, -1)
    mask = rollout["completion_mask"]
    expected = (advantages * mask).sum(1) / mask.sum(1)
    table = pandas.read_parquet(tmp_path / "run/completions/completions_00002.parquet")
    assert table["advantage"].tolist() == pytest.approx(expected.tolist(), abs=1e-6)
    texts = trainer.processing_class.batch_decode(rollout["completion_ids"], skip_special_tokens=True)
    assert table["completion"].tolist() == texts


# Eight completions per rollout and step, in two micro-batches. Groups are compared before they are split; the tokens
# of a step when the loss has scored the first micro-batch.
@pytest.mark.parametrize("name", CASES)
def test_completions_are_scored_once_if_asked_for(train, name):
    trainer = train(Watching, max_steps=2, **settings(name), **judged(name))
    assert trainer.scored == 2 * CASES[name].scored


@pytest.mark.parametrize("name", SHAPERS)
def test_every_method_trains_off_policy(train, name, monkeypatch):
    for bound in ("EPSILON_LOW", "EPSILON_HIGH"):  # which so short a training does not reach
        monkeypatch.setattr(f"steer_trl.shaping.methods.gtpo.{bound}", 1e-3)
    trainer = train(SteerGRPOTrainer, num_iterations=2, **settings(name), **judged(name))
    assert all(parameter.isfinite().all() for parameter in trainer.model.parameters())
    log = trainer.state.log_history
    assert all(0 <= entry["shaping/share_changed"] <= 1 for entry in log[:4])
    changes = ["shaping/advantage_change", "rollout_advantage_change", "entropy_coef", "kl"]
    assert max(entry.get(key, 0) for entry in log[:4] for key in changes) > 0
    for mark in CASES[name].marks:
        assert any(0 < entry[mark] < 1 for entry in log[:4]), mark
