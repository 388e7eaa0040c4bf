"""The configuration: the papers' defaults, one clear error for each mistake, YAML and command line."""

import math

import pytest
from trl import GRPOConfig, TrlParser

from steer_trl import SteerGRPOConfig
from steer_trl.validation import STARE_VARIANTS, stare_operations


def config(**settings):
    return SteerGRPOConfig(output_dir="unused", use_cpu=True, bf16=False, **settings)


def test_defaults_are_the_papers():
    args = config()
    assert (args.advantage_shaping, args.shaping_names) == ("steer", ("steer",))
    steer = (args.steer_lambda_min, args.steer_mapping, args.steer_form, args.steer_lambda_max, args.steer_quantile)
    assert steer == (0.8, "exponential", "paper", 1.2, 0.8)
    stare = (args.stare_variant, args.stare_top_fraction, args.stare_amplify, args.stare_attenuate)
    assert stare == ("O1", 0.1, 1.1, 0.9)
    assert (args.stare_target_entropy, args.stare_target_entropy_unit, args.stare_adaptive) == (0.3, "nats", False)


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


def test_the_floor_follows_the_form():
    assert config().steer_scale_floor == 0
    assert config(steer_form="released").steer_scale_floor == 0.02
    assert config(steer_form="released", steer_mapping="linear").steer_scale_floor == 0
    assert config(steer_form="released", steer_floor=0.0).steer_scale_floor == 0


MISTAKES = [
    (
        {"advantage_shaping": "ster"},
        "advantage_shaping='ster' is unknown. Use one of 'steer', 'stare', .*, 'none', or",
    ),
    ({"advantage_shaping": None}, "advantage_shaping=None is refused"),
    ({"advantage_shaping": []}, r"advantage_shaping=\[\] is refused"),
    ({"advantage_shaping": ["steer", "none"]}, "'none' cannot be combined"),
    ({"advantage_shaping": ["steer", "steer"]}, "a method applied twice"),
    ({"advantage_shaping": ["steer", 3]}, "advantage_shaping=3 is unknown"),
    ({"steer_lambda_min": 0}, r"steer_lambda_min=0 is refused.* Give a number in \(0, 1\]"),
    ({"steer_lambda_min": 1.01}, "steer_lambda_min=1.01 is refused"),
    ({"steer_lambda_min": math.nan}, "steer_lambda_min=nan is refused"),
    ({"steer_lambda_min": "0.8"}, "steer_lambda_min='0.8' is refused"),
    ({"steer_lambda_min": "0.8", "steer_mapping": "linear"}, "steer_lambda_min='0.8' is refused"),
    ({"steer_lambda_min": True}, "steer_lambda_min=True is refused"),
    ({"steer_mapping": "sigmoid"}, "steer_mapping='sigmoid' is unknown"),
    ({"steer_form": "verl"}, "steer_form='verl' is unknown"),
    ({"steer_mapping": "linear", "steer_lambda_max": 0.7}, r"steer_lambda_max=0.7 is refused.*\[0.8, inf\)"),
    ({"steer_quantile": -0.1}, "steer_quantile=-0.1 is refused"),
    ({"steer_signed": True}, "steer_signed=True is refused with steer_mapping='exponential'"),
    ({"steer_floor": 0.02, "steer_mapping": "binary"}, "steer_floor=0.02 is refused with steer_mapping='binary'"),
    ({"steer_form": "released", "importance_sampling_level": "sequence"}, "token ratios only"),
    ({"stare_variant": "O5"}, "stare_variant='O5' is unknown. Use one of 'O1', 'O2'"),
    ({"stare_top_fraction": 1.5}, r"stare_top_fraction=1.5 is refused.*\[0, 1\]"),
    ({"stare_top_fraction": -0.5}, "stare_top_fraction=-0.5 is refused"),
    ({"stare_amplify": 0.99}, r"stare_amplify=0.99 is refused.*\[1, inf\)"),
    ({"stare_amplify": math.inf}, "stare_amplify=inf is refused"),
    ({"stare_attenuate": 0.0}, r"stare_attenuate=0.0 is refused.*\(0, 1\]"),
    ({"stare_attenuate": 1.1}, "stare_attenuate=1.1 is refused"),
    ({"stare_target_entropy": 0.0}, r"stare_target_entropy=0.0 is refused.*\(0, inf\)"),
    ({"stare_target_entropy": -0.3}, "stare_target_entropy=-0.3 is refused"),
    ({"stare_target_entropy": "0.3"}, "stare_target_entropy='0.3' is refused"),
    ({"stare_target_entropy": math.nan}, "stare_target_entropy=nan is refused"),
    ({"stare_target_entropy_unit": "bits"}, "stare_target_entropy_unit='bits' is unknown"),
    ({"stare_adaptive": True, "stare_step": -0.1}, "stare_step=-0.1 is refused"),
    ({"stare_adaptive": True, "stare_amplify": 2.0}, r"stare_amplify_max=1.5 is refused.*\[2.0, inf\)"),
    ({"stare_adaptive": True, "stare_attenuate": 0.4}, r"stare_attenuate_min=0.5 is refused.*\(0, 0.4\]"),
]


@pytest.mark.parametrize(("settings", "message"), MISTAKES, ids=[str(settings) for settings, _ in MISTAKES])
def test_a_mistake_is_refused_with_field_value_reason_and_remedy(settings, message):
    with pytest.raises(ValueError, match=message) as error:
        config(**settings)
    assert str(error.value).startswith("SteerGRPOConfig: 1 problem(s) found.")


def test_all_mistakes_are_told_at_once():
    with pytest.raises(ValueError, match="3 problem") as error:
        config(steer_lambda_min=2, stare_amplify=0, stare_variant="X")
    assert len(str(error.value).splitlines()) == 4


def test_bounds_of_the_schedule_bind_only_the_schedule():
    assert config(stare_amplify=2.0, stare_attenuate=0.1).stare_amplify == 2.0


def test_trls_own_checks_still_run():
    with pytest.raises(ValueError, match="at least 2 generations"):
        config(num_generations=1)


def test_yaml_and_command_line(tmp_path):
    recipe = tmp_path / "recipe.yaml"
    recipe.write_text("output_dir: out\nuse_cpu: true\nbf16: false\nadvantage_shaping: [steer, stare]\n")
    (args,) = TrlParser(SteerGRPOConfig).parse_args_and_config(["--config", str(recipe), "--steer_lambda_min", "0.6"])
    assert args.shaping_names == ("steer", "stare") and args.steer_lambda_min == 0.6
    line = ["--config", str(recipe), "--advantage_shaping", "stare", "--stare_target_entropy_unit", "initial"]
    (args,) = TrlParser(SteerGRPOConfig).parse_args_and_config(line)
    assert args.shaping_names == ("stare",) and args.stare_target_entropy_unit == "initial"
    recipe.write_text("output_dir: out\nuse_cpu: true\nbf16: false\n")
    line = ["--config", str(recipe), "--stare_variant", "C2", "--shaping_options", '{"strength": 0.5}']
    (args,) = TrlParser(SteerGRPOConfig).parse_args_and_config(line)
    assert args.shaping_names == ("steer",) and stare_operations(args.stare_variant) == STARE_VARIANTS["C2"]
    assert args.shaping_options == {"strength": 0.5}


def test_the_settings_survive_a_round_trip():
    args = config(advantage_shaping=["stare", "steer"], steer_floor=0.1)
    again = {key: value for key, value in args.to_dict().items() if key.startswith(("steer_", "stare_", "advantage_"))}
    assert vars(config(**again)).items() >= again.items()
