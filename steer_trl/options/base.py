"""What a setting is, and those that every method has: the ground on which each method's own settings stand."""

from dataclasses import MISSING, Field, dataclass, field, fields
from typing import TYPE_CHECKING, Any

from trl import GRPOConfig

from steer_trl.redact import defaults
from steer_trl.validation import each_of, in_interval, listed, one_of


class About(str):
    """A help text that knows what its setting may be: the command line's parser takes no metadata of ours."""

    within: str | None
    choices: tuple[str, ...]

    def __new__(cls, help: str, within: str | None = None, choices: tuple[str, ...] = ()) -> "About":
        about = super().__new__(cls, help if within is None else f"{help} In {within}.")
        about.within, about.choices = within, choices
        return about


def option(default: Any, help: str, within: str | None = None) -> Any:
    """Make a field with the text that the command line shows; `within` is the interval of a number, `"(0, 1]"`."""
    return field(default=default, metadata={"help": About(help, within)})


def choice(default: str | None, choices: tuple[str, ...], help: str) -> Any:
    """Make a field that holds one of the `choices`."""
    return field(default=default, metadata={"help": About(help, choices=choices)})


def one_or_several(default: str | None, help: str, choices: tuple[str, ...] = ()) -> Any:
    """Make a field that holds a text or a list of them; the command line's parser forgets its default otherwise."""
    return field(default_factory=lambda: default, metadata={"help": About(help, choices=choices)})


def choices_of(setting: Field) -> tuple[str, ...]:
    """The names that a setting of ours is held to; empty where it is not."""
    about = setting.metadata.get("help")
    return about.choices if isinstance(about, About) else ()


def single_complaints(args: "ShapingConfig") -> list[str]:
    """Complain about each setting that is wrong by itself: outside its interval, or none of its choices."""
    complaints = []
    usual = defaults(args)
    for setting in fields(args):
        about, value = setting.metadata.get("help"), getattr(args, setting.name)
        if value is None and usual[setting.name] is None:
            continue
        if isinstance(about, About) and about.within:
            wrong = in_interval(setting.name, value, about.within)
            if not wrong and setting.type in (int, int | None) and not isinstance(value, int):
                wrong = [f"{setting.name} must be a whole number in {about.within}, got {value!r}."]
            complaints += wrong
        if choices := choices_of(setting):
            check = one_of if setting.default_factory is MISSING else each_of
            complaints += check(setting.name, value, choices)
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
        "or a list of several. Unset: 'steer', or with hold_entropy 'stare' (stare_variant='C2', stare_gate='none').",
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
    )
    hold_entropy_final: float | None = option(
        None,
        "Let the level fall: what it is at the end of the training, in the unit of hold_entropy and at most that. "
        "Unset: it stays.",
        "(0, inf)",
    )
    hold_entropy_decay_start: float = option(
        0.6,
        "Share of the training (of its steps, or of max_generated_tokens) after which the level falls linearly to "
        "hold_entropy_final.",
        "[0, 1)",
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
