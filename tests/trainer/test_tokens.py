"""The look at single tokens: whole groups, every number what the loss saw, and nothing when it is off."""

import pytest
import torch
from support.digits import given
from support.runs import OPEN_STARE, count_reward, same_parameters

from steer_trl import SteerGRPOTrainer
from steer_trl.demo.tiny import tiny_tokenizer
from steer_trl.functional import entropy_sensitivity
from steer_trl.monitoring import run_files
from steer_trl.trainer.log.token_export import texts_of


def looks(trainer):
    files = run_files.token_files(run_files.Path(trainer.args.output_dir, "_logs"))
    return {step: list(run_files.lines(path)) for step, path in files}


@torch.no_grad()
def logits_of(model, prompt, completion):
    """The completion's logits `[T, V]` by the model's own pieces, past TRL's fused head."""
    hidden = model.model(torch.tensor([prompt + completion])).last_hidden_state
    return model.lm_head(hidden)[0, len(prompt) - 1 : -1]


class Seeing(SteerGRPOTrainer):
    """Keeps what the loss read, by the completion's tokens."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.read, self.logits, self.shape, self.parts.step.shape = {}, {}, self.parts.step.shape, self.watch

    def watch(self, inputs, score):
        raw = inputs["advantages"]
        self.shape(inputs, score)
        logps, entropies = score.logps, score.entropies
        for row, ids in enumerate(inputs["completion_ids"]):
            key = (self.state.global_step + 1, *ids[inputs["completion_mask"][row].bool()].tolist())
            self.read[key] = raw[row], inputs["advantages"][row], logps[row], entropies[row]
            prompt = inputs["prompt_ids"][row][inputs["prompt_mask"][row].bool()].tolist()
            self.logits[key] = logits_of(self.model, prompt, list(key[1:]))


@pytest.fixture(autouse=True)
def more_groups(monkeypatch):
    monkeypatch.setattr("steer_trl.trainer.log.token_samples.GROUPS", 3)


def texts(lines):
    return ["".join(line["texts"]).replace("<eos>", "") for line in lines]


def test_whole_groups_with_the_numbers_of_the_loss(train):
    """Two optimizer steps per rollout, so that a group's completions are trained on in both."""
    trainer = train(Seeing, **OPEN_STARE, log_tokens=4, steps_per_generation=4, max_steps=6)
    found = looks(trainer)
    assert list(found) == [1, 3]  # the first rollout, and the one in which step 4 falls
    for first, lines in found.items():
        places = sorted((line["group"], line["completion"]) for line in lines)
        assert places == [(group, completion) for group in range(3) for completion in range(4)]
        assert {line["step"] for line in lines} == {first, first + 1}
        assert [line["reward"] for line in lines] == pytest.approx(count_reward(texts(lines)))
        for group in range(3):
            own = [line for line in lines if line["group"] == group]
            assert len({line["prompt"] for line in own}) == 1
            assert abs(sum(line["advantages"][0] for line in own)) < 1e-3
        for line in lines:
            key, count = (line["step"], *line["token_ids"]), len(line["token_ids"])
            raw, shaped, logps, entropies = (x if x.dim() == 0 else x[:count] for x in trainer.read[key])
            expected = {"trainer_logprobs": logps, "surprisals": -logps, "entropy": entropies}
            for name, numbers in (expected | {"shaped_advantages": shaped, "weights": shaped / raw}).items():
                assert line[name] == pytest.approx(numbers.tolist(), rel=1e-4, abs=1e-6), name
            phi = entropy_sensitivity(trainer.logits[key], torch.tensor(line["token_ids"]))
            for i in range(count):  # - I_clip r A Phi, with the advantage that the loss sees
                ratio, advantage = line["importance_ratio"][i], line["shaped_advantages"][i]
                is_clipped = abs(ratio - 1) > 0.2 and (ratio > 1) == (advantage > 0)
                change = 0.0 if is_clipped else -ratio * advantage * phi[i].item()
                assert line["entropy_changes"][i] == pytest.approx(change, rel=1e-3, abs=1e-6)
            assert line["entropy_change_source"] == "exact"
    weights = [w for lines in found.values() for line in lines for w in line["weights"]]
    assert min(weights) == 1 < max(weights)


@pytest.mark.parametrize("method", ["none", "opo", "steer"])
def test_a_look_changes_nothing_that_is_trained(train, tmp_path, monkeypatch, method):
    monkeypatch.setattr("steer_trl.trainer.log.token_export.LONGEST_COMPLETION", 3)
    settings = {"advantage_shaping": method, "num_iterations": 2, "max_steps": 3}
    plain = train(SteerGRPOTrainer, **settings, output_dir=str(tmp_path / "plain"))
    seen = train(SteerGRPOTrainer, **settings, output_dir=str(tmp_path / "seen"), log_tokens=1)
    assert same_parameters(plain, seen)
    assert looks(plain) == {}
    found = looks(seen)
    assert list(found) == [1, 3]  # a rollout lasts two steps; it is looked at in the first
    lines = [line for lines in found.values() for line in lines]
    assert len(lines) == 2 * 8 and all(len(line["token_ids"]) == min(3, line["num_tokens"]) for line in lines)
    assert all(set(line["weights"]) == {1.0} for line in lines) == (method != "steer")


def test_texts_put_together_are_the_completion():
    tokenizer = tiny_tokenizer()  # a token per byte
    text = "naïve 🙂 Ω<script>"
    ids = tokenizer(text)["input_ids"]
    parts = texts_of(tokenizer, ids)
    assert len(parts) == len(ids) == len(text.encode()) and "".join(parts) == text


def of_a_tool(prompts, trainer):
    """A tool wrote the third and fourth token of each completion; the second half of them never ends."""
    ids = [[4 + i % 9, 5, 6, 7, 8] + [1] * (i < len(prompts) // 2) for i in range(len(prompts))]
    return given(["23"] * len(ids), trainer, ids, [[1, 1, 0, 0] + [1] * (len(row) - 4) for row in ids])


def test_tool_tokens_and_truncated_completions_are_marked(train):
    arguments = {"rollout_func": of_a_tool, "reward_funcs": count_reward}
    settings = {"log_tokens": 1, "max_steps": 1, "mask_truncated_completions": True}
    lines = looks(train(SteerGRPOTrainer, **settings, trainer_arguments=arguments))[1]
    ended, cut = lines[:4], lines[4:]
    assert [len(line["token_ids"]) for line in lines] == [6] * 4 + [5] * 4
    for line in ended:
        assert line["is_tool"] == [False, False, True, True, False, False]
        assert line["loss_mask"] == [True, True, False, False, True, True] and not line["is_truncated"]
        assert [value is None for value in line["entropy"]] == [False, False, True, True, False, False]
    assert all(line["is_truncated"] and not any(line["loss_mask"]) for line in cut)


def test_any_end_token_ends_a_completion(make_trainer):
    """A model may have several; one inside, of an earlier turn, ends nothing."""
    other_end = 13

    def write(prompts, trainer):
        last = [trainer.processing_class.eos_token_id, other_end, 5, 5]
        ids = [[4, 4 + i, other_end if i % 4 == 3 else 6, last[i % 4]] for i in range(len(prompts))]
        return given(prompts, trainer, ids)

    arguments = {"rollout_func": write, "reward_funcs": count_reward}
    trainer = make_trainer(SteerGRPOTrainer, log_tokens=1, max_steps=1, trainer_arguments=arguments)
    trainer.eos_token_ids = [*trainer.eos_token_ids, other_end]
    trainer.train()
    assert [line["is_truncated"] for line in looks(trainer)[1]] == [False, False, True, True] * 2
    assert trainer.state.log_history[0]["completions/clipped_ratio"] == 0.5


def test_with_dynamic_sampling_rewards_stay_with_their_completions(train):
    """Groups come from several attempts and change places."""
    settings = {"log_tokens": 1, "max_steps": 3, "dynamic_sampling": "resample"}
    found = looks(train(SteerGRPOTrainer, **settings))
    assert list(found) == [1, 2, 3]
    for lines in found.values():
        places = [(line["group"], line["completion"]) for line in lines]
        assert places == [(group, completion) for group in range(2) for completion in range(4)]
        assert [line["reward"] for line in lines] == pytest.approx(count_reward(texts(lines)))
        assert len({(line["group"], line["prompt"]) for line in lines}) == 2


def test_a_look_continues_after_a_resume(train, make_trainer, tmp_path, monkeypatch):
    monkeypatch.setattr("steer_trl.trainer.log.token_samples.GROUPS", 9)
    settings = {"log_tokens": 4, "steps_per_generation": 6, "max_steps": 3}
    settings |= {"save_strategy": "steps", "save_steps": 1}
    expected = looks(train(SteerGRPOTrainer, **settings))
    assert [line["step"] for line in expected[1]] == [1] * 8 + [2] * 8 + [3] * 8
    resumed = make_trainer(SteerGRPOTrainer, **settings)
    resumed.train(resume_from_checkpoint=str(tmp_path / "run/checkpoint-1"))
    found = looks(resumed)
    assert found.keys() == {1}
    for line, other in zip(found[1], expected[1], strict=True):
        assert line | {"time": 0} == other | {"time": 0}
