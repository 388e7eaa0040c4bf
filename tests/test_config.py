"""The configuration: the papers' defaults, one clear error for each mistake, YAML and command line."""

import inspect
import math
import re
from dataclasses import fields
from itertools import permutations
from typing import get_type_hints

import pytest
import torch
from trl import GRPOConfig, TrlParser

from steer_trl import SteerGRPOConfig
from steer_trl.functional.stare import STARE_VARIANTS, stare_operations
from steer_trl.options.base import ShapingConfig
from steer_trl.shaping import SHAPERS, Rollout, Shaper, act_on_rollouts, make_shapers, shape_rollout
from steer_trl.shaping.methods import SETTINGS, MethodOptions

NUMBERS = (float, float | None)


def config(**settings):
    return SteerGRPOConfig(output_dir="unused", use_cpu=True, bf16=False, **settings)


class Halved(Shaper):
    def weights(self, batch, measure):
        return 0.5 * batch.mask


class Misspelt(Shaper):
    def weight(self, batch, measure):
        return None


class Fives(Shaper):
    def advantages(self, rollout):
        return torch.full_like(rollout.advantages, 5.0)


class Doubled(Shaper):
    def scales(self, rollout):
        return torch.full((len(rollout.mask),), 2.0)


class OneMore(Shaper):
    def rollout_bonus(self, rollout):
        return torch.ones(len(rollout.mask))


def test_the_released_form_of_steer_has_a_floor():
    assert (config().steer_scale_floor, config(steer_form="released").steer_scale_floor) == (0, 0.02)


def test_every_field_of_trl_keeps_its_default():
    ours, theirs = config(), GRPOConfig(output_dir="unused", use_cpu=True, bf16=False)
    per_run = {"logging_dir", "run_name", "data_seed"}
    for name, value in vars(theirs).items():
        if name not in per_run and not name.startswith("_"):
            assert repr(getattr(ours, name)) == repr(value), name


@pytest.mark.parametrize(
    ("shaping", "names"),
    [("none", ()), (["none"], ()), ("stare", ("stare",)), (["stare", "steer"], ("stare", "steer"))],
)
def test_shaping_names(shaping, names):
    assert config(advantage_shaping=shaping).shaping_names == names


def of(method, **settings):
    return {"advantage_shaping": method} | settings


MISTAKES = [
    (of("ster"), r"advantage_shaping='ster' is unknown. Did you mean 'steer'\? Use one of 'steer', .*, 'none', or"),
    (of(3), "advantage_shaping must be the name of a method or a list of names, got 3"),
    (of([]), r"advantage_shaping must be .*, got \[\]"),
    (of(["steer", "none"]), "'none' cannot be combined"),
    (of(["steer", 3]), "advantage_shaping=3 is unknown"),
    (of(["test_config.Halved", "test_config:Halved"]), "applies a method twice"),
    (of("test_config.Misspelt"), "Misspelt' must answer one of 'advantages', .*'weights'"),
    ({"shaping_options": {"alpha": 1}}, "must be unset without a custom method"),
    ({"max_generated_tokens": 1.5}, r"max_generated_tokens must be a whole number in \[1, inf\), got 1\.5"),
    (of("test_config.Halved", shaping_options="{a"), "shaping_options must be JSON .*, got '{a'"),
    (of("clip_cov", importance_sampling_level="sequence"), "would share one gradient"),
    (of("fork_tokens", importance_sampling_level="sequence"), "would share one gradient"),
    (of("unlikelihood", scale_rewards="none"), "scale_rewards='none' cannot be combined with 'unlikelihood'"),
    (of("gtpo", scale_rewards="none"), "scale_rewards='none' cannot be combined with 'gtpo'"),
    (of("grpo_s", scale_rewards="none"), "scale_rewards='none' cannot be combined with 'grpo_s'"),
    (of("gtpo", off_policy_mask_threshold=0.5), "drops completions by it"),
    (of("kl_cov", off_policy_mask_threshold=0.5), "drops completions by it"),
    (of("gtpo", loss_type="sapo"), "turns the sign of single tokens"),
    (of("steer", gradient_accumulation_steps=4, steps_per_generation=2), "an optimizer step would span rollouts"),
    ({"steer_lambda_min": 0}, r"steer_lambda_min must be in \(0, 1\], got 0\."),
    ({"steer_lambda_min": "0.8"}, "steer_lambda_min must be a number in .*, got '0.8'"),
    ({"steer_mapping": "linear", "steer_lambda_max": 0.7}, r"steer_lambda_max must be in \[0.8, inf\), got 0.7"),
    ({"steer_form": "released", "importance_sampling_level": "sequence"}, "token ratios only"),
    ({"stare_variant": "O5"}, "stare_variant='O5' is unknown. Use one of 'O1', 'O2'"),
    (of("stare", stare_adaptive=True, stare_amplify=2.0), r"stare_amplify_max must be in \[2.0, inf\), got 1.5"),
    (
        of("stare", stare_variant="C2", stare_adaptive=True, stare_attenuate=0.4),
        r"attenuate_min must be in \(0, 0.4",
    ),
    ({"stare_amplify": 2.0}, r"=2.0 is a setting of 'stare', .* Set advantage_shaping to \['steer', 'stare'\], or "),
    (of("none", steer_lambda_min=0.7), "a setting of 'steer', .* Set advantage_shaping to 'steer'"),
    (of("opo", gtpo_entropy_weight=0.5), "=0.5 is a setting of ('grpo_s' and 'gtpo'|'gtpo' and 'grpo_s')"),
    ({"correct_threshold": 0.5}, "correct_threshold=0.5 is a setting of .*'w_reinforce' and 'psr' and 'nsr'"),
    ({"entropy_target": 0.5}, "entropy_target=0.5 .*use_adaptive_entropy.*hold_entropy"),
    ({"per_device_train_batch_size": 256, "num_generations": 7}, r"num_generations=7 .*256 .* 4 or 8\."),
    ({"per_device_train_batch_size": 12, "num_generations": 11}, r"num_generations=11 .*12 .* 6 or 12\."),
    ({"per_device_train_batch_size": 12, "num_generations": 13}, r"num_generations=13 .*12 .* 12\."),
    ({"per_device_train_batch_size": 1, "num_generations": 2}, r"num_generations=2 .* 1 .*batch"),
    (of("psr", w_reinforce_positive=0.5), "is a setting of 'w_reinforce', which"),
]
IGNORED = [  # the last setting, and what ignores it
    ({"stare_gate": "none", "stare_target_entropy": 0.4}, "stare_gate"),
    ({"stare_attenuate": 0.8}, "stare_variant"),
    ({"stare_variant": "C1", "stare_attenuate": 0.8}, "stare_variant"),
    ({"stare_variant": ["O2", "O4"], "stare_amplify": 1.2}, "stare_variant"),
    ({"stare_step": 0.1}, "stare_adaptive"),
    ({"stare_adaptive": True, "stare_attenuate_min": 0.1}, "stare_variant"),
    ({"stare_adaptive": True, "stare_variant": "O2", "stare_amplify_max": 2.0}, "stare_variant"),
    ({"steer_lambda_max": 1.5}, "steer_mapping"),
    ({"steer_mapping": "linear", "steer_quantile": 0.5}, "steer_mapping"),
    ({"steer_signed": True}, "steer_mapping"),
    ({"run_log": False, "log_tokens": 1}, "run_log"),
    ({"hold_entropy_unit": "nats"}, "hold_entropy"),
    ({"hold_entropy_final": 0.3}, "hold_entropy"),
    ({"hold_entropy": 0.8, "hold_entropy_decay_start": 0.3}, "hold_entropy_final"),
    ({"stare_gate": "none", "hold_entropy": 0.8, "stare_amplify": 1.2}, "hold_entropy"),
]


@pytest.mark.parametrize(("settings", "other"), IGNORED, ids=str)
def test_a_setting_that_another_makes_idle_is_refused(settings, other):
    name, value = list(settings.items())[-1]
    with pytest.raises(ValueError, match=rf"{name}={value!r} cannot be combined with {other}=.*: it acts only with "):
        config(**{"advantage_shaping": name.split("_")[0]} | settings if name.startswith("st") else settings)


@pytest.mark.parametrize(("settings", "message"), MISTAKES, ids=[str(settings) for settings, _ in MISTAKES])
def test_a_mistake_is_refused_with_field_value_reason_and_remedy(settings, message):
    with pytest.raises(ValueError, match=message) as error:
        config(**settings)
    assert str(error.value).startswith("SteerGRPOConfig: ") and "\n" not in str(error.value)


ON_POLICY = "with one optimizer step per rollout no token has moved"
CHANGED = "TRL's settings were changed: epsilon from 0.2 to 1.0, epsilon_high from None to 1000000000.0"


@pytest.mark.parametrize(
    ("settings", "remarks"),
    [
        (of("kl_cov"), [CHANGED, f"kl_cov: {ON_POLICY}"]),
        (of("kl_cov", num_iterations=2), [CHANGED]),
        (of("dcpo", steps_per_generation=2), [f"dcpo: it brings a loss of its own, so {CHANGED}."]),
        (of("dcpo", num_iterations=2, epsilon=1.0, epsilon_high=1e9), []),
        (of("grpo_s", num_iterations=2, loss_type="dapo"), [f"{CHANGED}, loss_type from 'dapo' to 'grpo'."]),
        (of("stare", importance_sampling_level="sequence"), ["only the mean of their weights acts"]),
        (of("opo", importance_sampling_level="sequence"), []),
        (of("opo", num_iterations=4), ["opo: it assumes on-policy .* lasts 4 optimizer steps"]),
        (of("steer", num_iterations=4), []),
        (of("repo_r", hold_entropy=0.5), ["hold_entropy=0.5: the entropy of a rollout of 1 prompts"]),
    ],
    ids=str,
)
def test_what_a_method_does_not_do_or_changes_is_said(settings, remarks, caplog):
    config(gradient_accumulation_steps=1, **settings)
    said = [record.getMessage() for record in caplog.records]
    assert len(said) == len(remarks)
    assert all(re.search(remark, text) for remark, text in zip(remarks, said, strict=True)), said


def test_every_setting_belongs_to_a_method_that_reads_it():
    own = {field.name for field in fields(MethodOptions)} - {field.name for field in fields(ShapingConfig)}
    assert own | {"correct_threshold"} == SETTINGS.keys()  # so that no method's class of settings was left out
    assert all(SETTINGS[name] for name in own)
    source = {name: inspect.getsource(inspect.getmodule(SHAPERS[name])) for name in SHAPERS}
    for name, readers in SETTINGS.items():
        if name != "correct_threshold":
            assert any(name in source[reader] for reader in readers), name


def test_what_no_method_minds_is_taken():
    """Any schedule, of one that compares nothing; a loss of a later TRL, which is its own to refuse; any setting of
    others, by a method of one's own, of which nobody knows what it reads."""
    assert config(advantage_shaping="test_config.Halved", steer_lambda_min=0.7).steer_lambda_min == 0.7
    assert config(advantage_shaping="opo", gradient_accumulation_steps=4, steps_per_generation=2)
    for name in ("steer", "kl_cov", "fork_tokens"):
        assert config(advantage_shaping=name, loss_type="new").loss_type == "new"


def test_trls_adaptive_entropy_keeps_its_target():
    assert config(advantage_shaping="none", use_adaptive_entropy=True, entropy_target=0.5).entropy_target == 0.5


def test_yaml_and_command_line(tmp_path):
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text("output_dir: out\nuse_cpu: true\nbf16: false\nadvantage_shaping: [steer, stare]\n")

    def parse(*words):
        (args,) = TrlParser(SteerGRPOConfig).parse_args_and_config(["--config", str(recipe), *words])
        return args

    args = parse("--steer_lambda_min", "0.6")
    assert args.shaping_names == ("steer", "stare") and args.steer_lambda_min == 0.6
    args = parse("--advantage_shaping", "stare", "--stare_variant", "C2")
    assert args.shaping_names == ("stare",) and stare_operations(args.stare_variant) == STARE_VARIANTS["C2"]
    args = parse("--advantage_shaping", "test_config.Halved", "--shaping_options", '{"strength": 0.5}')
    assert args.shaping_options == {"strength": 0.5}


def test_every_number_has_a_range_that_its_help_says():
    theirs = {field.name for field in fields(GRPOConfig)}
    types = get_type_hints(SteerGRPOConfig)
    numbers = [one for one in fields(SteerGRPOConfig) if one.name not in theirs and types[one.name] in NUMBERS]
    assert len(numbers) > 20
    for number in numbers:
        about = number.metadata["help"]
        assert about.endswith(f" In {about.within}."), number.name
        with pytest.raises(ValueError, match=re.escape(f"{number.name} must be in {about.within}, got nan.")):
            config(advantage_shaping="none", **{number.name: math.nan})


@pytest.mark.parametrize(
    "mistakes",
    [
        {"steer_lambda_min": 2, "stare_amplify": 0, "stare_variant": "X"},
        {"advantage_shaping": "kl_cov", "epsilon": 0.1, "off_policy_mask_threshold": 0.5, "steer_signed": True},
    ],
)
def test_all_mistakes_of_a_kind_are_told_at_once(mistakes):
    with pytest.raises(ValueError, match="3 problems found") as error:
        config(**mistakes)
    assert all(name in str(error.value) for name in mistakes if name != "advantage_shaping")


@pytest.mark.parametrize("order", [*permutations(("Fives", "Doubled", "OneMore"))])
def test_a_custom_method_acts_when_its_question_says(order):
    """5 in the place of the advantage, twice that, and one more."""
    shapers = make_shapers(config(advantage_shaping=[f"test_config.{name}" for name in order]))
    rollout = Rollout(2, torch.ones(2, 3), torch.tensor([[1.0], [-1.0]]))
    assert shape_rollout(act_on_rollouts(shapers), rollout).tolist() == [[11.0], [11.0]]
