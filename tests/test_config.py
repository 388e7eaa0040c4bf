"""The configuration: the papers' defaults, one clear error for each mistake, YAML and command line."""

import copy
import inspect
import math
import pickle
import re
from dataclasses import fields
from itertools import permutations
from typing import get_type_hints

import pytest
import torch
from support.mistakes import REFUSED, WARNED, config, of
from trl import GRPOConfig, TrlParser

from steer_trl import SteerGRPOConfig, SteerGRPOTrainer
from steer_trl.options.base import OLD_NAMES, ShapingConfig, settings_of
from steer_trl.shaping import SHAPERS, Rollout, Shaper, act_on_rollouts, make_shapers, shape_rollout
from steer_trl.shaping.methods import READERS, MethodOptions
from steer_trl.shaping.methods.stare_settings import STARE_VARIANTS, stare_operations
from steer_trl.support.validation import Refusal


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


@pytest.mark.parametrize("settings", REFUSED, ids=str)
def test_a_mistake_is_refused_by_name(settings):
    """The sentences are in `tests/messages.txt`."""
    with pytest.raises(ValueError, match=rf"\b{[*settings][-1]}") as error:
        config(**settings)
    assert str(error.value).startswith("SteerGRPOConfig: ")


@pytest.mark.parametrize("settings", WARNED, ids=str)
def test_a_surprising_setting_is_warned_about(settings, caplog):
    config(gradient_accumulation_steps=1, **settings)
    assert caplog.records


@pytest.mark.parametrize(
    "settings",
    [
        of("dcpo", num_iterations=2, epsilon=1.0, epsilon_high=1e9),
        of("opo", importance_sampling_level="sequence"),
        of("steer", num_iterations=4),
    ],
    ids=str,
)
def test_an_ordinary_setting_causes_no_warning(settings, caplog):
    config(gradient_accumulation_steps=1, **settings)
    assert caplog.records == []


def test_every_setting_has_a_method_reading_it():
    own = {field.name for field in fields(MethodOptions)} - {field.name for field in fields(ShapingConfig)}
    assert own == READERS.keys()  # so that no method's class of settings was left out
    assert all(READERS[name] for name in own)
    source = {name: inspect.getsource(inspect.getmodule(SHAPERS[name])) for name in SHAPERS}
    for name, readers in READERS.items():
        if name not in ("correct_reward", "correct_threshold"):
            assert any(name in source[reader] for reader in readers), name


def test_what_no_method_minds_is_taken():
    """Any schedule, of one that compares nothing; a loss of a later TRL, which is its own to refuse; any setting of
    others, by a method of one's own, of which nobody knows what it reads."""
    assert config(advantage_shaping="support.mistakes.Halved", steer_lambda_min=0.7).steer_lambda_min == 0.7
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
    args = parse("--advantage_shaping", "support.mistakes.Halved", "--shaping_options", '{"strength": 0.5}')
    assert args.shaping_options == {"strength": 0.5}


def test_every_number_has_a_range_in_its_help():
    kinds = get_type_hints(SteerGRPOConfig)
    described = settings_of(SteerGRPOConfig).items()
    numbers = {name: one for name, one in described if kinds[name] in (int, float, int | None, float | None)}
    assert len(numbers) > 20
    help_of = {one.name: one.metadata.get("help") for one in fields(SteerGRPOConfig)}
    for name, setting in numbers.items():
        assert help_of[name] == setting.help and setting.help.endswith(f" In {setting.within}.")
        with pytest.raises(ValueError, match=rf"{name} must be .*{re.escape(setting.within)}"):
            config(advantage_shaping="none", **{name: math.nan})


def test_every_setting_of_ours_is_described():
    theirs = {one.name for one in fields(GRPOConfig)}
    assert {one.name for one in fields(SteerGRPOConfig)} - theirs - OLD_NAMES.keys() == settings_of(
        SteerGRPOConfig
    ).keys() - theirs


def test_mistakes_of_a_kind_are_reported_together():
    for settings in REFUSED[-2:]:
        with pytest.raises(Refusal) as error:
            config(**settings)
        assert len(error.value.complaints) == 3
        assert all(name in str(error.value) for name in settings if name != "advantage_shaping")


@pytest.mark.parametrize("order", [*permutations(("Fives", "Doubled", "OneMore"))])
def test_a_custom_method_acts_when_its_question_says(order):
    """5 in the place of the advantage, twice that, and one more."""
    shapers = make_shapers(config(advantage_shaping=[f"test_config.{name}" for name in order]))
    rollout = Rollout(2, torch.ones(2, 3), torch.tensor([[1.0], [-1.0]]))
    assert shape_rollout(act_on_rollouts(shapers), rollout).tolist() == [[11.0], [11.0]]


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, lambda args: pickle.loads(pickle.dumps(args))])
@pytest.mark.parametrize("is_sealed", [False, True])
def test_copies_are_whole_and_sealed_pickles_marked(how, is_sealed):
    """A pickle leaves this machine with every push, a copy does not."""
    kept = {"hub_token": "easy", "lr_scheduler_kwargs": {"num_cycles": 2}, "generation_kwargs": {"stop_strings": "9"}}
    args = SteerGRPOConfig("out", use_cpu=True, bf16=False, model_init_kwargs={"headers": "easy"}, **kept)
    if is_sealed:
        args.seal()
    copied = how(args)
    is_pickle = how not in (copy.copy, copy.deepcopy)
    assert copied.is_incomplete == (is_sealed and is_pickle)
    if copied.is_incomplete:
        assert "easy" not in str(vars(copied))
        with pytest.raises(ValueError, match="args were read from a pickle"):
            SteerGRPOTrainer("a/missing-model", args=copied)
    else:
        names = {field.name for field in fields(SteerGRPOConfig)}
        assert {name: getattr(copied, name) for name in names} == {name: getattr(args, name) for name in names}
    assert (copied.lr_scheduler_kwargs is args.lr_scheduler_kwargs) == (how is copy.copy)
