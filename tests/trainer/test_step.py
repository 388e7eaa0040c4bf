"""An optimizer step: what the loss is given, what of it is logged."""

import math

import pytest
import torch
from support.runs import TINY_RUN, Spy, of_method, same_parameters
from transformers import TrainerCallback

from steer_trl import SteerGRPOTrainer
from steer_trl.functional import released_entropy_change, steer_weights
from steer_trl.monitoring import run_files
from steer_trl.support.randomness import draw_uniform
from steer_trl.trainer.inputs import Score, token_batch


def test_the_released_form_reads_the_rollouts_entropies(train):
    """With several steps per rollout the authors' code mixes the rollout's entropies with current log-probs."""
    settings = {"num_iterations": 2, "max_steps": 2, "gradient_accumulation_steps": 1, "shaping_scope": "exact_step"}
    trainer = train(Spy, **settings, steer_form="released")
    rollout_entropies = trainer.seen[0][4]
    raw, shaped, logps, old_logps, entropies, inputs = trainer.seen[1]
    assert not torch.equal(rollout_entropies, entropies)
    assert torch.equal(old_logps, trainer.seen[0][2])  # those of the first pass
    omega = released_entropy_change(logps, old_logps, rollout_entropies, raw)
    weights = steer_weights(omega, inputs["completion_mask"], floor=0.02)
    torch.testing.assert_close(shaped, raw.unsqueeze(1) * weights, atol=1e-6, rtol=0)


def test_rollouts_of_one_step_get_different_draws(train, monkeypatch):
    """Their completions have the same row numbers."""
    drawn = []

    def record(*given):
        drawn.append(draw_uniform(*given))
        return drawn[-1]

    monkeypatch.setattr("steer_trl.trainer.inputs.draw_uniform", record)
    sizes = {"gradient_accumulation_steps": 4, "steps_per_generation": 2, "max_steps": 2}
    train(SteerGRPOTrainer, advantage_shaping="clip_cov", shaping_scope="micro_batch", **sizes)
    rows = {tuple(row[:4].tolist()) for draws in drawn for row in draws}
    completions = 2 * 4 * TINY_RUN["per_device_train_batch_size"]
    assert len(rows) == completions


def test_a_bad_token_spares_its_sequences_ratio(make_trainer):
    trainer = make_trainer(SteerGRPOTrainer, importance_sampling_level="sequence")
    logps = torch.tensor([[-0.1, torch.nan, -2.0, -3.0], [-1.0, -0.5, -2.5, -0.3]])
    old = torch.tensor([[-0.2, -0.4, -1.9, -3.0], [-1.0, -0.6, -2.0, -0.3]])
    inputs = {"completion_mask": torch.ones(2, 4, dtype=torch.long), "advantages": torch.tensor([1.0, -1.0])}
    inputs["old_per_token_logps"] = old
    trainer.parts.step.shape(inputs, Score(logps, torch.ones(2, 4)))
    shaped = inputs["advantages"]
    assert shaped.isfinite().all() and shaped[0, 1] == 1
    assert (shaped[0, [0, 2, 3]] < 1).all()
    batch = token_batch(trainer, inputs, Score(logps, torch.ones(2, 4)), draws=False)
    torch.testing.assert_close(batch.ratio[0], torch.ones(1))  # the three good tokens: exp((0.1 - 0.1 + 0) / 3)
    assert torch.equal(batch.old_logps, old)  # what they are is not what the loss makes of them


def test_evaluations_stay_out_of_step_metrics(make_trainer, prompts):
    class EvaluateWithin(TrainerCallback):
        def on_substep_end(self, *_, **__):
            self.trainer.evaluate()

    logged = []
    for callbacks in ([], [EvaluateWithin()]):
        arguments = {"eval_dataset": prompts.select(range(3)), "callbacks": callbacks}
        EvaluateWithin.trainer = make_trainer(SteerGRPOTrainer, max_steps=1, trainer_arguments=arguments)
        EvaluateWithin.trainer.train()
        log = EvaluateWithin.trainer.state.log_history
        (entry,) = [entry for entry in log if "shaping/weight_mean" in entry]
        logged.append({key: value for key, value in entry.items() if key.startswith("shaping/")})
    assert logged[0] == logged[1] and any("eval_shaping/weight_mean" in entry for entry in log)


def test_impossible_numbers_are_counted(make_trainer):
    trainer = make_trainer(SteerGRPOTrainer)  # as in an evaluation
    highest = math.log(trainer.model.config.vocab_size)
    logps = torch.tensor([[-1.0, 1e-5, 0.0, -2.0], [123.0, torch.nan, -torch.inf, 123.0]])
    entropies = torch.tensor([[highest + 1e-5, -1e-5, highest + 0.1, -0.1], [1.0, 1.0, 1.0, torch.nan]])
    mask = torch.tensor([[1, 1, 1, 1], [1, 1, 1, 0]])
    inputs = {"completion_mask": mask, "advantages": torch.tensor([1.0, -1.0])}
    trainer.parts.step.shape(inputs, Score(logps, entropies))
    trainer.parts.step.write()
    assert trainer._metrics["eval"]["sanity/out_of_bounds"] == [pytest.approx(3 / 7)]
    assert trainer._metrics["eval"]["sanity/not_finite"] == [pytest.approx(2 / 7)]


class Interrupted(TrainerCallback):
    """Ctrl-C, once: between the two micro-batches of an optimizer step."""

    def __init__(self, step):
        self.step = step

    def on_substep_end(self, args, state, control, **_):
        if state.global_step == self.step:
            self.step = None
            raise KeyboardInterrupt


class Taking(SteerGRPOTrainer):
    def compute_loss(self, model, inputs, **kwargs):
        self.taken.append((self.state.global_step, self._buffered_inputs))
        return super().compute_loss(model, inputs, **kwargs)


@pytest.mark.parametrize(("settings", "interrupted_at"), [({}, 0), ({"num_iterations": 2}, 1)])
def test_training_after_an_interruption_begins_anew(make_trainer, monkeypatch, settings, interrupted_at):
    monkeypatch.setattr("steer_trl.trainer.log.token_samples.GROUPS", 9)
    settings = settings | {"steer_lambda_min": 0.3, "max_steps": 4, "log_tokens": 1}
    trainer = make_trainer(Taking, **settings, trainer_arguments={"callbacks": [Interrupted(interrupted_at)]})
    trainer.taken = []
    with pytest.raises(KeyboardInterrupt):
        trainer.train()
    before, trainer.taken = trainer.taken, []
    trainer.train()
    for step in range(4):
        first, second = (rollout for taken_at, rollout in trainer.taken if taken_at == step)
        assert first is second
    assert trainer.taken[0][1] is not before[-1][1]
    log = trainer.state.log_history[:-1]
    of_new_rollouts = log[:: trainer.num_iterations]  # later steps of a rollout need not reach its extreme
    assert all(entry["shaping/weight_min"] == pytest.approx(0.3) for entry in of_new_rollouts)
    looks = dict(run_files.token_files(run_files.Path(trainer.args.output_dir, "_logs")))
    assert all(len(list(run_files.lines(path))) == 8 for path in looks.values()) and min(looks) == 1


@pytest.mark.parametrize(("per_rollout", "per_step"), [(3, 2), (2, 4)])
def test_uncomparing_methods_take_any_schedule(train, per_rollout, per_step):
    """Nothing is measured, so no token of an optimizer step waits for another, and the scope makes no difference."""
    schedule = {"steps_per_generation": per_rollout, "gradient_accumulation_steps": per_step}
    fixed = {"advantage_shaping": "repo_r", **of_method("repo_r", zeta=0.2)} | schedule
    one, other = (train(SteerGRPOTrainer, shaping_scope=scope, **fixed) for scope in ("step", "micro_batch"))
    assert same_parameters(one, other)
    assert one.state.log_history[0]["shaping/share_changed"] > 0
