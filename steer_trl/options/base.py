"""What a setting is, and those that every method has."""

from collections.abc import Collection, Mapping
from copy import copy
from dataclasses import MISSING, Field, dataclass, field, fields
from typing import TYPE_CHECKING, Any

from trl import GRPOConfig

from steer_trl.options.needs import in_words, is_met
from steer_trl.options.trl import INTERVALS
from steer_trl.redact import changed, defaults
from steer_trl.validation import each_of, in_interval, listed, one_of

Needs = Mapping[str, Any] | None


class About(str):
    """A help text that knows what its setting may be: the command line's parser takes no metadata of ours."""

    text: str
    within: str | None
    choices: tuple[str, ...]
    needs: Mapping[str, Any]

    @classmethod
    def of(
        cls, text: str, within: str | None = None, choices: tuple[str, ...] = (), needs: Needs = None
    ) -> dict[str, "About"]:
        """Return a field's metadata, with the text that the parser shows."""
        text += f" Only with {in_words(needs)}." if needs else ""
        about = cls(text if within is None else f"{text} In {within}.")
        about.text, about.within, about.choices, about.needs = text, within, choices, needs or {}
        return {"help": about}


def option(default: Any, help: str, within: str | None = None, needs: Needs = None) -> Any:
    """Make a field with the text that the command line shows.

    `within` is the interval of a number, `"(0, 1]"`. `needs` are values of other settings without which this one is
    ignored, and refused: of each one value, a tuple of several, or an interval.
    """
    return field(default=default, metadata=About.of(help, within, needs=needs))


def choice(default: str | None, choices: tuple[str, ...], help: str, needs: Needs = None) -> Any:
    """Make a field that holds one of the `choices`; `needs` as for [`option`]."""
    return field(default=default, metadata=About.of(help, choices=choices, needs=needs))


def one_or_several(default: str | list[str] | None, help: str, choices: tuple[str, ...] = ()) -> Any:
    """Make a field that holds a text or a list of them; the command line's parser forgets its default otherwise."""
    return field(default_factory=lambda: copy(default), metadata=About.of(help, choices=choices))


def own_fields(args: Any) -> dict[Field, About]:
    """The settings of ours, each with what it may be."""
    return {field: about for field in fields(args) if isinstance(about := field.metadata.get("help"), About)}


def single_complaints(args: "ShapingConfig") -> list[str]:
    """Complain about each setting that is wrong by itself: outside its interval, or none of its choices."""
    usual, complaints = defaults(args), []
    for name, interval in INTERVALS.items():
        if (value := getattr(args, name)) is not None:
            complaints += in_interval(name, value, interval)
    for setting, about in own_fields(args).items():
        value = getattr(args, setting.name)
        if value is None and usual[setting.name] is None:
            continue
        if about.within:
            wrong = in_interval(setting.name, value, about.within)
            if not wrong and setting.type in (int, int | None) and not isinstance(value, int):
                wrong = [f"{setting.name} must be a whole number in {about.within}, got {value!r}."]
            complaints += wrong
        if about.choices:
            check = one_of if setting.default_factory is MISSING else each_of
            complaints += check(setting.name, value, about.choices)
    return complaints


def idle_complaints(args: "ShapingConfig", unread: Collection[str] = ()) -> list[str]:
    """Complain about each setting that is not at its default and that others make idle; not about the `unread`."""
    complaints = []
    given = changed(args)
    for setting, about in own_fields(args).items():
        name = setting.name
        idle = [other for other, wanted in about.needs.items() if not is_met(wanted, getattr(args, other))]
        if idle and name in given and name not in unread:
            complaints.append(
                f"{name}={given[name]!r} cannot be combined with {idle[0]}={getattr(args, idle[0])!r}: it acts only "
                f"with {in_words(about.needs)}, so it would be ignored. Leave it unset."
            )
    return complaints


@dataclass
class ShapingConfig(GRPOConfig):
    """What to do to the advantages, whatever the method."""

    if TYPE_CHECKING:  # what TRL and Transformers fill in or read from a text
        output_dir: str = ""
        num_generations: int = 8
        max_completion_length: int = 512
        generation_batch_size: int = 0
        steps_per_generation: int = 0
        model_init_kwargs: dict[str, Any] | None = None
        gradient_checkpointing_kwargs: dict[str, Any] | None = None

    advantage_shaping: None | str | list[str] = option(  # noqa: RUF036  # Transformers' parser reads this order only
        None,
        "Name of a method, such as 'steer' or 'stare'; 'none' (exactly GRPO); the import path of a custom method; "
        "or a list of several. Unset: 'steer', or with hold_entropy ['f_grpo', 'stare'].",
    )
    shaping_scope: str = choice(
        "step",
        ("step", "exact_step", "micro_batch"),
        "What a token is compared with: the whole optimizer 'step' on all ranks, using the old policy's "
        "log-probabilities and entropies; 'exact_step' uses the current policy's; 'micro_batch' is one micro-batch on "
        "one rank, as in the authors' code.",
    )
    correct_threshold: float = option(
        0.0,
        "A completion is correct where its reward is above this, for methods that ask: 0 fits 0/1 and -1/1.",
        "(-inf, inf)",
    )
    hold_entropy: float | None = option(
        None,
        "Keep the rollouts' mean entropy from falling below this level, in the unit of hold_entropy_unit, by the "
        "strength of the method in use. A run that stays above the level by itself is not changed. Unset: leave the "
        "entropy to the method.",
        "(0, inf)",
    )
    hold_entropy_unit: str = choice(
        "initial",
        ("initial", "nats"),
        "'initial': a multiple of the mean entropy of the first rollouts, at most 2 (0.8: four fifths of it); or "
        "'nats' per token.",
        needs={"hold_entropy": "(0, inf)"},
    )
    hold_entropy_final: float | None = option(
        None,
        "Let the level fall: what it is at the end of the training, in the unit of hold_entropy and at most that. "
        "Unset: it stays.",
        "(0, inf)",
        needs={"hold_entropy": "(0, inf)"},
    )
    hold_entropy_decay_start: float = option(
        0.6,
        "Share of the training (of its steps, or of max_generated_tokens) after which the level falls linearly to "
        "hold_entropy_final.",
        "[0, 1)",
        needs={"hold_entropy_final": "(0, inf)"},
    )
    skip_padding: bool | None = option(
        None,
        "Compute no padding: a pass sees the columns that have tokens, and the completions of an optimizer step are "
        "ordered by length. The update is the same but for rounding. Unset: with a method, and not with 'none'.",
    )
    shaping_options: dict[str, Any] | str | None = option(
        None, "Settings of a custom method; it reads them as self.args.shaping_options."
    )

    @property
    def shaping_names(self) -> tuple[Any, ...]:
        """The methods in use; empty for `"none"`."""
        names = listed(self.advantage_shaping or ())
        return () if names == ("none",) else names

    @property
    def skips_padding(self) -> bool:
        """Whether padding is not computed: `skip_padding`, settled."""
        return bool(self.shaping_names) if self.skip_padding is None else self.skip_padding

    @property
    def groups_per_rollout(self) -> int:
        """Prompts of a rollout, over all processes; each is written `num_generations` times."""
        return self.generation_batch_size // self.num_generations
