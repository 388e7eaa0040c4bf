"""The configuration: the papers' defaults, one clear error for each mistake, YAML and command line."""

import copy
import inspect
import math
import pickle
import re
import sys
from dataclasses import dataclass, fields
from itertools import permutations
from types import SimpleNamespace
from typing import Annotated, get_type_hints

import pytest
import torch
from support.mistakes import REFUSED, WARNED, config, of
from trl import GRPOConfig, TrlParser

from steer_trl import SteerGRPOConfig, SteerGRPOTrainer
from steer_trl.options.base import Setting, ShapingConfig, settings_of
from steer_trl.options.former_names import FORMER_NAMES, find_present_name
from steer_trl.options.methods import MethodSettings
from steer_trl.options.stare_variants import STARE_VARIANTS, stare_operations
from steer_trl.shaping import SHAPERS, Rollout, Shaper, find_rollout_methods, make_shapers, shape_rollout
from steer_trl.shaping.methods import READERS
from steer_trl.shaping.methods.steer import Steer
from steer_trl.support.redact import select_public
from steer_trl.support.validation import InvalidValuesError


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
    floors = [Steer(config(steer_form=form)).scale_floor for form in ("paper", "released")]
    assert floors == [0, 0.02]


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
    own = {field.name for field in fields(MethodSettings)} - {field.name for field in fields(ShapingConfig)}
    assert own == READERS.keys()  # so that no method's class of settings was left out
    assert all(READERS[name] for name in own)
    source = {name: inspect.getsource(inspect.getmodule(SHAPERS[name])) for name in SHAPERS}
    for name, readers in READERS.items():
        if name not in ("correct_reward", "correct_threshold"):
            assert any(name in source[reader] for reader in readers), name


@pytest.mark.parametrize(
    ("methods", "actuator", "names"),
    [
        (None, None, ("stare",)),
        ("none", None, ("stare",)),
        ("none", "surprisal", ("stare",)),
        ("f_grpo", None, ("f_grpo", "stare")),
        (["f_grpo", "opo"], "repo_r", ("f_grpo", "opo", "repo_r")),
        ("repo_r", None, ("repo_r",)),
        ("repo_r", "repo_r", ("repo_r",)),
        (None, "entropic.Entropic", ("entropic.Entropic",)),
    ],
)
def test_the_method_that_the_level_moves_is_added(methods, actuator, names):
    held = config(advantage_shaping=methods, hold_entropy=0.5, hold_entropy_by=actuator)
    assert held.shaping_names == names
    assert copy.copy(held).shaping_names == names
    again = config(advantage_shaping=held.advantage_shaping, hold_entropy=0.5, hold_entropy_by=actuator)
    assert again.shaping_names == names


@pytest.mark.parametrize("name", [name for name, successor in FORMER_NAMES.items() if successor.option is None])
def test_a_renamed_setting_works_under_both_names(name):
    """A former name with another unit is still a setting; any other gives its value to the present one."""
    new, _, has_other_unit = FORMER_NAMES[name]
    level = {"hold_entropy": 0.5} if has_other_unit else {"dynamic_sampling": "resample"}
    value = 0.25 if has_other_unit else "accuracy"
    args = config(**level, **{name: value})
    assert getattr(args, find_present_name(name)) == value
    assert (getattr(args, new), getattr(args, name)) == ((None, value) if has_other_unit else (value, None))
    with pytest.raises(ValueError, match=f"{name}=.*{new}=|{new}=.*{name}="):
        config(**level, **{name: value, new: 0.5 if has_other_unit else "other"})


@pytest.mark.parametrize("name", [name for name, successor in FORMER_NAMES.items() if successor.option is not None])
def test_a_former_setting_names_its_new_place(name):
    method, option = FORMER_NAMES[name].option
    (default,) = [field.default for field in fields(SHAPERS[method].options_class) if field.name == option]
    with pytest.raises(ValueError, match=rf"{name} .*'{method}': {{'{option}'"):
        config(advantage_shaping=method, **{name: default})
    assert config(advantage_shaping=method, shaping_options={method: {option: default}})


def test_every_option_is_described():
    for name, method in SHAPERS.items():
        declared = settings_of(method.options_class)
        assert declared.keys() == {field.name for field in fields(method.options_class)}, name
        kinds = get_type_hints(method.options_class)
        assert all(setting.within for option, setting in declared.items() if kinds[option] is not bool), name


@dataclass
class FadeOptions:
    last: Annotated[float, Setting("Weight of the last token.", "[0, 1]")] = 0.5
    shape: Annotated[str, Setting("How the weight falls.", choices=("line", "step"))] = "line"


class Fade(Shaper):
    options_class = FadeOptions

    def weights(self, batch, measure):
        return self.options.last * batch.mask


FADE = f"{__name__}.Fade"


@pytest.mark.parametrize("options", [{"last": 0.25}, {FADE: {"last": 0.25}}], ids=["flat", "nested"])
def test_a_custom_method_has_checked_options(options):
    (fade,) = make_shapers(config(advantage_shaping=FADE, shaping_options=options)).values()
    assert (fade.options.last, fade.options.shape) == (0.25, "line")


@pytest.mark.parametrize("options", [{"last": 2}, {"lost": 0.5}, {FADE: {"shape": "curve"}}, {FADE: 3}, 3], ids=str)
def test_wrong_options_of_a_custom_method_are_refused(options):
    with pytest.raises(ValueError, match="shaping_options"):
        config(advantage_shaping=FADE, shaping_options=options)


def test_options_of_several_methods_stand_under_their_names():
    options = {FADE: {"last": 0.25}, "f_grpo": {"gamma": 2.0}}
    methods = make_shapers(config(advantage_shaping=["f_grpo", FADE], shaping_options=options))
    assert (methods[FADE].options.last, methods["f_grpo"].options.gamma) == (0.25, 2.0)


def test_methods_with_the_same_class_name_keep_their_options_apart(monkeypatch):
    names = []
    for module in ("first_fades", "second_fades"):
        fade = type("Fade", (Fade,), {"__module__": module})
        monkeypatch.setitem(sys.modules, module, SimpleNamespace(Fade=fade))
        names.append(f"{module}.Fade")
    options = {name: {"last": last} for name, last in zip(names, (0.25, 0.75), strict=True)}
    for given in (options, {names[0]: options[names[0]]}, {names[1]: options[names[1]]}):
        methods = make_shapers(config(advantage_shaping=names, shaping_options=given))
        lasts = [methods[name].options.last for name in names]
        assert lasts == [given.get(name, {"last": FadeOptions().last})["last"] for name in names]


def test_declared_texts_in_options_are_public():
    config(advantage_shaping=FADE)
    given = {"shaping_options": {FADE: {"shape": "step", "last": 0.5, "token": "sesame"}}}
    assert select_public(given) == {"shaping_options": {FADE: {"shape": "step", "last": 0.5}}}


def test_settings_that_no_method_objects_to_are_accepted():
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
    assert len(numbers) > 12
    help_of = {one.name: one.metadata.get("help") for one in fields(SteerGRPOConfig)}
    for name, setting in numbers.items():
        assert help_of[name] == setting.help and setting.help.endswith(f" In {setting.within}.")
        with pytest.raises(ValueError, match=rf"{name} must be .*{re.escape(setting.within)}"):
            config(advantage_shaping="none", **{name: math.nan})


def test_every_setting_of_ours_is_described():
    theirs = {one.name for one in fields(GRPOConfig)}
    ours = {one.name for one in fields(SteerGRPOConfig)} - theirs
    assert {name for name in ours if find_present_name(name) == name} == settings_of(SteerGRPOConfig).keys() - theirs


def test_mistakes_of_a_kind_are_reported_together():
    for settings in REFUSED[-2:]:
        with pytest.raises(InvalidValuesError) as error:
            config(**settings)
        assert len(error.value.complaints) == 3
        assert all(name in str(error.value) for name in settings if name != "advantage_shaping")


@pytest.mark.parametrize("order", [*permutations(("Fives", "Doubled", "OneMore"))])
def test_custom_hooks_act_in_the_documented_order(order):
    """5 in the place of the advantage, twice that, and one more."""
    shapers = make_shapers(config(advantage_shaping=[f"test_config.{name}" for name in order]))
    rollout = Rollout(2, torch.ones(2, 3), torch.tensor([[1.0], [-1.0]]))
    assert shape_rollout(find_rollout_methods(shapers), rollout).tolist() == [[11.0], [11.0]]


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, lambda args: pickle.loads(pickle.dumps(args))])
@pytest.mark.parametrize("is_sealed", [False, True])
def test_copies_keep_secrets_and_sealed_pickles_do_not(how, is_sealed):
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
