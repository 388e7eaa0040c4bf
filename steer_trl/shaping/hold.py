"""`hold_entropy`: keep the policy's entropy from falling below a level, by the strength of a method in use.

It is a loop, not a method. Before any update with a new rollout it is given the rollout's entropy, and moves the
strength of the method (`functional/regulator.py`). That one states in which range its strength lies and how much of it
answers an error (`Shaper.strengths`).

The strength is never negative: while the entropy is above the level it is 0, and the run is GRPO. Entropy is spent
only where `hold_entropy_spends` asks for it. A relative level is a multiple of the mean entropy of the first rollouts,
and until that is known the strength is 0 as well. The level can fall over the last part of the training
(`hold_entropy_final`); it stays one that is kept, and where the entropy does not fall by itself nothing pushes it.

Token weights multiply advantages: where all completions of a prompt are rewarded alike there is nothing to multiply,
and no weight can hold anything. Then the strength goes to its bound and stays, `hold_entropy/out_of_reach` counts the
rollouts, and an alarm reports it.
"""

import logging
import math
from collections.abc import Mapping
from functools import partial
from statistics import fmean
from typing import Any

from steer_trl.functional.regulator import SCHEDULE, EntropyRegulator
from steer_trl.options.base import ShapingConfig
from steer_trl.options.conflicts import idle_conflicts
from steer_trl.shaping.base import Shaper
from steer_trl.validation import from_state, in_interval, is_within

logger = logging.getLogger(__name__)

FIRST_ROLLOUTS = 4
"""Rollouts, at least, whose mean entropy is the initial one: that of one spans 5 % over the seeds of one model."""
GAINS = ("hold_entropy_proportional_gain", "hold_entropy_integral_gain", "hold_entropy_deadband")
ENOUGH_GROUPS = 32
"""Groups, at least, of these rollouts together, and of each one whose entropy is compared with the level."""


def first_rollouts(args: ShapingConfig) -> int:
    """How many rollouts the entropy that a run begins with is the mean of."""
    return max(FIRST_ROLLOUTS, -(-ENOUGH_GROUPS // max(args.groups_per_rollout, 1)))


class HoldEntropy:
    """Moves the strength of a method; its `strength` and `error` are in the log."""

    name = "hold_entropy"

    def __init__(self, args: ShapingConfig, shapers: Mapping[str, Shaper]) -> None:
        self.args, self.tokens = args, args.hold_entropy_tokens
        self.shaper = next(shaper for shaper in shapers.values() if shaper.strengths is not None)
        self.regulator: EntropyRegulator | None = None
        self.first_rollouts = first_rollouts(args)
        self.initial_entropy: float | None = None
        self._first: list[float] = []
        self._entropy = math.nan
        self.shaper.strength = 0.0
        self._start()

    def _start(self) -> None:
        """Make the regulator as soon as the level is known in nats."""
        unit = 1.0 if self.args.hold_entropy_unit == "nats" else self.initial_entropy
        if self.regulator is None and unit is not None:
            assert self.shaper.strengths is not None and self.args.hold_entropy is not None
            low, high = self.shaper.strengths
            low = low if self.args.hold_entropy_spends else 0.0
            final = self.args.hold_entropy_final
            self.regulator = EntropyRegulator(
                self.args.hold_entropy * unit,
                low,
                high,
                gain=self.shaper.strength_gain,
                proportional=self.args.hold_entropy_proportional_gain,
                integral=self.args.hold_entropy_integral_gain,
                deadband=self.args.hold_entropy_deadband,
                final=None if final is None else final * unit,
                decay_start=self.args.hold_entropy_decay_start,
            )

    def on_rollout(self, entropy: float, progress: float) -> None:
        """Take part of a relative level from the first rollouts, then move the strength."""
        self._entropy = entropy
        if self.initial_entropy is None and math.isfinite(entropy) and entropy > 0:
            self._first.append(entropy)
            if len(self._first) >= self.first_rollouts:
                self.initial_entropy, self._first = fmean(self._first), []
                self._start()
        if self.regulator is not None:
            self.shaper.strength = self.regulator.update(entropy, progress)

    def level(self, progress: float) -> float | None:
        """Return the level (nats) after a share `progress` of the training, in [0, 1]; `None` until it is known."""
        return None if self.regulator is None else self.regulator.level(progress)

    def metrics(self) -> dict[str, float]:
        """Return level and path to it (nats), relative error of the last rollout, strength, rollouts out of reach.

        The entropy that the run began with (nats) as soon as it is known; the level too, where it is relative to it.
        That of the last rollout where it is of other tokens than all.
        """
        initial = {} if self.initial_entropy is None else {"hold_entropy/initial_entropy": self.initial_entropy}
        initial |= {"hold_entropy/entropy": self._entropy} if self.tokens != "all" else {}
        if self.regulator is None:
            return initial | {"hold_entropy/strength": 0.0}
        return initial | {
            "hold_entropy/target": self.regulator.target,
            "hold_entropy/reference": self.regulator.reference,
            "hold_entropy/error": self.regulator.error,
            "hold_entropy/strength": self.regulator.strength,
            "hold_entropy/out_of_reach": float(self.regulator.at_bound),
            "hold_entropy/dead_time": float(self.regulator.dead_time.rollouts),
        }

    def state_dict(self) -> dict[str, Any]:
        """Return the initial entropy, or the entropies so far that it is the mean of, and where the regulator is."""
        regulator = None if self.regulator is None else self.regulator.state_dict()
        first = {"first_entropies": list(self._first)} if self._first else {}
        tokens: dict[str, Any] = {}
        if self.tokens != "all":
            tokens = {"tokens": self.tokens, "entropy": self._entropy if math.isfinite(self._entropy) else None}
        return {"initial_entropy": self.initial_entropy, "regulator": regulator} | first | tokens

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a [`state_dict`]. Where the level has changed since, the entropy moves there from where it is.

        Raises:
            `ValueError`: a value is missing or cannot be.
        """
        if (before := state.get("tokens", "all")) != self.tokens:
            logger.warning(
                "The entropy of hold_entropy_tokens=%r was held when the checkpoint was saved, and %r will be: the "
                "level is taken from the next rollouts.",
                *(before, self.tokens),
            )
            return
        nats = "a number of nats in (0, inf)"
        is_positive = partial(is_within, interval="(0, inf)")
        initial = from_state(state, "initial_entropy", lambda x: x is None or is_positive(x), f"null or {nats}")
        regulator = from_state(state, "regulator", lambda x: x is None or isinstance(x, dict), "null or a mapping")
        first = from_state(
            {"first_entropies": []} | state,
            "first_entropies",
            lambda x: isinstance(x, list) and all(map(is_positive, x)),
            f"a list, each {nats}",
        )
        self.initial_entropy, self._first = initial, list(first)
        if state.get("entropy") is not None:
            self._entropy = from_state(state, "entropy", partial(is_within, interval="[0, inf)"), nats)
        self._start()
        if regulator is not None and self.regulator is not None:
            self.regulator.load_state_dict(regulator)
            self.shaper.strength = self.regulator.strength
            schedule = {name: regulator[name] for name in SCHEDULE if name in regulator}
            if schedule != self.regulator.schedule:
                logger.warning(
                    "The entropy was held at %s when the checkpoint was saved, and will be held at %s: it moves there "
                    "from what it is now.",
                    _in_words(schedule),
                    _in_words(self.regulator.schedule),
                )


def _in_words(schedule: Mapping[str, float]) -> str:
    if "target" not in schedule:
        return "an unknown level"
    text = f"{schedule['target']:.4g} nats"
    if "final" not in schedule:
        return text
    return f"{text}, falling to {schedule['final']:.4g} after {schedule['decay_start']:.0%} of the training"


def hold_conflicts(methods: Mapping[str, type[Shaper]], args: ShapingConfig) -> list[str]:
    """Complain about an entropy that cannot be held with these methods or settings."""
    if args.hold_entropy is None:
        words = {"hold_entropy_unit": "initial", "hold_entropy_tokens": "all"}
        return [
            f"{name}={getattr(args, name)!r} must be unset without hold_entropy: it would be ignored. Set "
            "hold_entropy, or leave it unset."
            for name, usual in words.items()
            if getattr(args, name) != usual
        ] + idle_conflicts(
            args,
            [
                ("hold_entropy_spends", True, "hold_entropy=None", "there is no level to spend entropy down to"),
                ("hold_entropy_final", True, "hold_entropy=None", "there is no level that could fall"),
                ("hold_entropy_decay_start", True, "hold_entropy=None", "there is no level that could fall"),
                *((name, True, "hold_entropy=None", "there is no regulator") for name in GAINS),
            ],
        )
    if args.hold_entropy_proportional_gain == args.hold_entropy_integral_gain == 0:
        return [
            "hold_entropy_proportional_gain=0 cannot be combined with hold_entropy_integral_gain=0: the strength "
            "would never move. Leave one of them unset."
        ]
    no_final = args.hold_entropy_final is None, "hold_entropy_final=None", "the level stays"
    complaints = idle_conflicts(args, [("hold_entropy_decay_start", *no_final)])
    if args.hold_entropy_final is not None:
        why = "the level can only fall; to begin higher, raise hold_entropy"
        complaints += in_interval("hold_entropy_final", args.hold_entropy_final, f"(0, {args.hold_entropy}]", why)
    if args.hold_entropy_unit == "initial":
        why = "it is a multiple of the entropy that the run begins with"
        complaints += in_interval("hold_entropy", args.hold_entropy, "(0, 2]", why)
    able = {name: method.strengths for name, method in methods.items() if method.strengths is not None}
    if len(able) != 1:
        complaints.append(
            f"hold_entropy={args.hold_entropy!r} moves the strength of one method, and of those in "
            f"advantage_shaping={args.advantage_shaping!r} {len(able) or 'none'} can be moved. Use "
            "advantage_shaping='repo_r', 'entropic', 'entropy_change', 'clip_bounds' or 'entropy_bonus', or 'stare' "
            "with stare_gate='none'."
        )
    for name, (low, _) in able.items():
        if args.hold_entropy_spends and low == 0:
            complaints.append(
                f"hold_entropy_spends=True cannot be combined with {name!r}, which can only raise the entropy. Leave "
                "it unset, or use advantage_shaping='repo_r'."
            )
    return complaints
