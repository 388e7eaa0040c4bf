"""`hold_entropy` in the trainer: one setting is enough, and its level is that of the training's progress."""

import pytest

from steer_trl import SteerGRPOTrainer


def test_hold_entropy_alone_trains_and_stands_in_the_card(train, tmp_path):
    trainer = train(SteerGRPOTrainer, hold_entropy=0.5, max_steps=2)
    assert list(trainer.parts.shapers) == ["stare"]
    entry = trainer.state.log_history[0]
    assert entry["hold_entropy/strength"] == 0 and entry["stare/amplify"] == 1  # until the level is known
    trainer.create_model_card()
    card = (tmp_path / "run/README.md").read_text()
    for line in ("advantage_shaping:", "stare_variant: C2", "stare_gate: none", "hold_entropy: 0.5"):
        assert line in card


@pytest.mark.parametrize("epochs", [{"max_steps": 4}, {"max_steps": -1, "num_train_epochs": 0.5}])
def test_the_level_falls_with_finished_steps(train, prompts, epochs):
    falls = {"hold_entropy": 3.0, "hold_entropy_final": 1.0, "hold_entropy_decay_start": 0.25}
    settings = falls | epochs | {"hold_entropy_unit": "nats", "steps_per_generation": 4}
    trainer = train(SteerGRPOTrainer, advantage_shaping="repo_r", **settings)
    steps, key = trainer.state.max_steps, "hold_entropy/target"
    shares = [max((step - step % 2) / steps - 0.25, 0) / 0.75 for step in range(steps)]
    targets = [entry[key] for entry in trainer.state.log_history if key in entry]
    assert steps >= 4 and targets == pytest.approx([3 - 2 * share for share in shares])


@pytest.mark.parametrize("steps_per_generation", [2, 4])
@pytest.mark.parametrize("share", [0.0, 0.4, 0.5])
def test_the_terminal_names_the_last_step_at_the_level(train, capsys, share, steps_per_generation):
    settings = {"hold_entropy": 3.0, "hold_entropy_final": 1.0, "hold_entropy_decay_start": share, "max_steps": 6}
    settings |= {
        "hold_entropy_unit": "nats",
        "steps_per_generation": steps_per_generation,
        "advantage_shaping": "stare",
    }
    trainer = train(SteerGRPOTrainer, **settings)
    targets = {line["step"]: line["hold_entropy/target"] for line in trainer.state.log_history if "loss" in line}
    last = max(step for step, target in targets.items() if target == 3.0)
    assert f"until step {last} of 6" in capsys.readouterr().out
