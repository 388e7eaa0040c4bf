"""Defines how a setting is described, and the settings that all methods share."""

from collections.abc import Collection, Mapping
from dataclasses import MISSING, dataclass, field, fields
from typing import TYPE_CHECKING, Annotated, Any, TypeVar, get_args, get_type_hints

from trl import GRPOConfig

from steer_trl.options.needs import describe_needs, is_met
from steer_trl.options.trl import INTERVALS
from steer_trl.support.validation import as_tuple, check_choice, check_choices, check_interval, is_number

Config = TypeVar("Config")


@dataclass(frozen=True)
class Setting:
    """Describes a field of a configuration, as in `name: Annotated[float, Setting("...", "(0, 1]")]`.

    Attributes:
        about (`str`): the text for the command line and the documentation.
        within (`str`, *optional*): the interval that a number must be in, such as `"(0, 1]"`.
        choices (`tuple[str, ...]`): the allowed strings. If it is empty, every string is allowed.
        needs (`Mapping[str, Any]`): maps each setting that this setting needs to a value, a tuple of allowed values,
            or an interval (`options/needs.py`). If a need is not met, this setting has no effect and is refused.
        neutral (`float`, *optional*): the value that switches the method off, so that the run equals GRPO bit for bit.
    """

    about: str
    within: str | None = None
    choices: tuple[str, ...] = ()
    needs: Mapping[str, Any] = field(default_factory=dict)
    neutral: float | None = None

    @property
    def help(self) -> str:
        """The text for the command line, which includes the setting's range and the settings that it needs."""
        condition = f" Only with {describe_needs(self.needs)}." if self.needs else ""
        return self.about + condition + (f" In {self.within}." if self.within else "")


def settings_of(config: type) -> dict[str, Setting]:
    """Return the [`Setting`] of each field of a configuration that has one, by the field's name."""
    settings = {}
    for name, hint in get_type_hints(config, include_extras=True).items():
        for note in getattr(hint, "__metadata__", ()):
            if isinstance(note, Setting):
                settings[name] = note
    return settings


def add_help(config: type[Config]) -> type[Config]:
    """Give the fields of a dataclass the help texts that Transformers' parser shows."""
    settings = settings_of(config)
    for item in fields(config):  # type: ignore[arg-type]
        if item.name in settings:
            item.metadata = {"help": settings[item.name].help}  # type: ignore[assignment]
    return config


def find_defaults(config: Any) -> dict[str, Any]:
    """Return the default of each field of a dataclass, or of an instance of one."""
    return {
        item.name: item.default if item.default_factory is MISSING else item.default_factory()
        for item in fields(config)
    }


def find_changes(config: Any) -> dict[str, Any]:
    """Return the fields whose values differ from their defaults. Secret values are not removed."""
    defaults = find_defaults(config).items()
    return {name: getattr(config, name) for name, default in defaults if getattr(config, name) != default}


def option(default: Any, help: str) -> Any:
    """Return a dataclass field for an argument of a command, with its default and its `help` text."""
    return field(default=default, metadata={"help": help})


def list_option(default: list[str], help: str) -> Any:
    """Return a dataclass field for a list of strings, with its default and its `help` text."""
    return field(default_factory=lambda: list(default), metadata={"help": help})


def single_complaints(args: "ShapingConfig") -> list[str]:
    """Return a complaint about each setting that is outside its interval or not among its choices."""
    complaints = []
    for name, interval in INTERVALS.items():
        value = getattr(args, name)
        if value is not None:
            complaints += check_interval(name, value, interval)
    defaults = find_defaults(args)
    kinds = get_type_hints(type(args))
    for name, setting in settings_of(type(args)).items():
        value = getattr(args, name)
        if value is not None or defaults[name] is not None:
            complaints += value_complaints(name, value, setting, kinds[name])
    return complaints


def value_complaints(name: str, value: Any, setting: Setting, kind: Any) -> list[str]:
    """Return a complaint if a value is outside the interval of its setting or not among its choices."""
    if kind in (bool, bool | None) and not isinstance(value, bool):
        return [f"{name} must be true or false, got {value!r}."]
    if setting.choices:
        check = check_choices if list[str] in get_args(kind) else check_choice
        return check(name, value, setting.choices)
    if not setting.within:
        return []
    if kind in (int, int | None) and is_number(value) and not isinstance(value, int):
        return [f"{name} must be a whole number in {setting.within}, got {value!r}."]
    return check_interval(name, value, setting.within)


def idle_complaints(
    settings: Any, args: "ShapingConfig", unread: Collection[str] = (), method: str | None = None
) -> list[str]:
    """Return a complaint about each changed value in `settings` that has no effect because of a setting in `args`.

    `settings` is `args` itself, or holds the options of the method called `method`. Settings in `unread` are left out.
    """
    complaints = []
    needs_of = {name: setting.needs for name, setting in settings_of(type(settings)).items()}
    place = "" if method is None else f"shaping_options.{method}."
    for name, value in find_changes(settings).items():
        needs = needs_of.get(name, {})
        unmet = [setting for setting, allowed in needs.items() if not is_met(allowed, getattr(args, setting))]
        if unmet and name not in unread:
            complaints.append(
                f"{place}{name}={value!r} cannot be combined with {unmet[0]}={getattr(args, unmet[0])!r}: it acts "
                f"only with {describe_needs(needs)}, so it would be ignored. Leave it unset."
            )
    return complaints


def list_methods(shaping: Any) -> tuple[Any, ...]:
    """Return the names of the methods in a value of `advantage_shaping`. `"none"` has none."""
    names = as_tuple(shaping or ())
    return () if names == ("none",) else names


@dataclass
class ShapingConfig(GRPOConfig):
    """Settings that all methods share."""

    # TRL and Transformers compute these fields or parse them from strings. Afterwards, they have these types.
    if TYPE_CHECKING:
        output_dir: str = ""
        num_generations: int = 8
        max_completion_length: int = 512
        generation_batch_size: int = 0
        steps_per_generation: int = 0
        model_init_kwargs: dict[str, Any] | None = None
        gradient_checkpointing_kwargs: dict[str, Any] | None = None

    # Transformers' parser understands a union only in this order.
    advantage_shaping: Annotated[
        None | str | list[str],  # noqa: RUF036  # Transformers' parser reads this order only
        Setting(
            "Name of a method, such as 'steer' or 'stare'; 'none' (exactly GRPO); the import path of a custom method; "
            "or a list of several. Unset: 'steer', or with hold_entropy none but the weights of hold_entropy_by."
        ),
    ] = None
    shaping_scope: Annotated[
        str,
        Setting(
            "Which tokens are compared: 'step' compares all of an optimizer step, on all ranks, as the policy that "
            "generated them scores them; 'exact_step' the same, as the current policy scores them; 'micro_batch' only "
            "those of one micro-batch on one rank, as in the authors' code.",
            choices=("step", "exact_step", "micro_batch"),
        ),
    ] = "step"
    hold_entropy: Annotated[
        float | None,
        Setting(
            "Keep the rollouts' mean entropy from falling below this level, in the unit of hold_entropy_unit, and let "
            "it go at the end of the run (hold_entropy_until). This moves the strength of a method, which is 0 until "
            "the entropy first falls below the level. Unset: do not hold the entropy.",
            "(0, inf)",
        ),
    ] = None
    hold_entropy_by: Annotated[
        str | None,
        Setting(
            "What hold_entropy moves, beside the methods: 'surprisal' (weights of surprising tokens: STARE's C2 with "
            "a strength of ours), 'repo_r', 'entropy_change', 'entropy_bonus', 'kl' (TRL's beta), or the import path "
            "of a method with a strength. Unset: a method of advantage_shaping with a strength, or else 'surprisal'.",
            needs={"hold_entropy": "(0, inf)"},
        ),
    ] = None
    hold_entropy_unit: Annotated[
        str,
        Setting(
            "'initial': a multiple of the mean entropy of the first rollouts, at most 2 (0.8: four fifths of it); or "
            "'nats' per token.",
            choices=("initial", "nats"),
            needs={"hold_entropy": "(0, inf)"},
        ),
    ] = "initial"
    hold_entropy_until: Annotated[
        float | None,
        Setting(
            "Share of the learning (the sum of the learning rates so far, over that of the whole run) after which the "
            "level falls linearly to hold_entropy_final at the end of the run; with max_generated_tokens, the share "
            "of the run. 1: it never falls. Unset: 0.6.",
            "[0, 1]",
            needs={"hold_entropy": "(0, inf)"},
        ),
    ] = None
    hold_entropy_final: Annotated[
        float | None,
        Setting(
            "Level at the end of the run, in the unit of hold_entropy and at most as high. Unset: half of the level.",
            "[0, inf)",
            needs={"hold_entropy": "(0, inf)"},
        ),
    ] = None
    hold_entropy_decay_start: Annotated[
        float | None,
        Setting(
            "Older spelling of hold_entropy_until, as a share of the run (its steps, or max_generated_tokens) instead "
            "of the learning.",
            "[0, 1]",
            needs={"hold_entropy": "(0, inf)"},
        ),
    ] = None
    skip_padding: Annotated[
        bool | None,
        Setting(
            "Run the model without padding, and compute a prompt once for its completions where that is cheaper. "
            "Where Transformers generates, also drop completions that have ended. Except for rounding, the update is "
            "TRL's. Give it the same value in two runs that should be equal to the last bit. Unset: true with a "
            "method, false with 'none'."
        ),
    ] = None
    shaping_options: Annotated[
        dict[str, Any] | str | None,
        Setting(
            'Options of methods, by the method\'s name: {"f_grpo": {"gamma": 0.5}}; JSON on the command line. Those '
            "of a single custom method may stand without its name. `docs/methods.md` lists them."
        ),
    ] = None

    @property
    def shaping_names(self) -> tuple[Any, ...]:
        """The methods in use; empty for `"none"`."""
        return list_methods(self.advantage_shaping)

    @property
    def skips_padding(self) -> bool:
        """Whether padding is skipped.

        If `skip_padding` is unset, it is skipped whenever a method is in use.
        """
        return bool(self.shaping_names) if self.skip_padding is None else self.skip_padding

    @property
    def groups_per_rollout(self) -> int:
        """The number of prompts in a rollout, over all processes.

        Each prompt has `num_generations` completions.
        """
        return self.generation_batch_size // self.num_generations

    @property
    def steps_per_rollout(self) -> float:
        """The number of optimizer steps that train on one rollout."""
        return self.steps_per_generation * self.num_iterations / self.gradient_accumulation_steps


@dataclass
class CorrectnessSettings(ShapingConfig):
    """The settings that decide whether a completion is correct, for some methods and for dynamic sampling."""

    correct_reward: Annotated[
        str | None,
        Setting(
            "Name of the reward function that decides whether a completion is correct. Unset: the only one there is; "
            "with several, dynamic sampling compares their weighted sum, and methods that need it must be told."
        ),
    ] = None
    correct_threshold: Annotated[
        float,
        Setting(
            "A completion is correct if its reward by correct_reward is above this; 0 fits 0/1 and -1/1.",
            "(-inf, inf)",
        ),
    ] = 0.0
