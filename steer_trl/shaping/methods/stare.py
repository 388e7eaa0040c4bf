"""STARE, arXiv 2606.19236: reweights surprising tokens, always or while the entropy is below a target.

    A_hat = omega * A,   omega = W or M on the sets of [`stare_weights`] while the gate is open, else 1

C2, for example, multiplies surprising tokens by W where A > 0 and by M where A < 0. `hold_entropy` moves it: then
W = 1 + u and M = 1 / W. W is the amplifying factor, and M is the attenuating one. The gate is open while an entropy is
below the target. This entropy is the mean of the rollout, the mean of each completion, or that of each token. The gate
can also stay open. Use STARE to hold the entropy at a level, and STEER if you do not know a good level. The usual
entropy of a model is known only after its first rollouts, so the target may be a multiple of the first rollout's
entropy.
"""

from collections.abc import Collection
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

import torch
from jaxtyping import Float, Float32, Shaped
from torch import Tensor

from steer_trl.entropy.actuator import Control
from steer_trl.entropy.start import StartEntropy
from steer_trl.options.base import Setting
from steer_trl.options.methods import StareSettings
from steer_trl.options.stare_variants import AMPLIFYING, ATTENUATING, stare_operations
from steer_trl.shaping import order_statistics
from steer_trl.shaping.base import PAPERS, Shaper
from steer_trl.shaping.batch import TokenBatch, mean_of_tokens
from steer_trl.shaping.options import read_options
from steer_trl.shaping.order_statistics import Reduce, this_process
from steer_trl.shaping.stare_controller import TargetEntropyController
from steer_trl.support.validation import as_tuple, check_interval, read_from_state


class SurprisalLimits(NamedTuple):
    """The smallest surprisals in the sets L+ and L- of [`stare_weights`].

    Both are 0-d tensors in nats, and `inf` for an empty set.
    """

    positive: Tensor
    negative: Tensor


def stare_statistic(
    logps: Float[Tensor, "B T"],
    advantages: Float[Tensor, "B"] | Float[Tensor, "B 1"] | Float[Tensor, "B T"],
    mask: Shaped[Tensor, "B T"],
    *,
    top_fraction: float = 0.1,
    reduce: Reduce = this_process,
) -> SurprisalLimits:
    """Return the smallest surprisals in the sets L+ and L- of [`stare_weights`].

    With `reduce=order_statistics.all_ranks`, the sets contain the tokens of all ranks.
    """
    surprisal, *sides = _split_sides(logps, advantages, mask)
    return SurprisalLimits(*(order_statistics.top_threshold(surprisal, x, top_fraction, reduce) for x in sides))


def _split_sides(logps: Tensor, advantages: Tensor, mask: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Return the surprisals and the masks of tokens with positive and negative advantages, all `[B, T]`."""
    surprisal = -logps.detach().float()
    advantage = advantages.detach()
    advantage = advantage.unsqueeze(1) if advantage.dim() == 1 else advantage
    valid = mask.bool() & surprisal.isfinite()
    return surprisal, valid & (advantage > 0), valid & (advantage < 0)


def stare_weights(
    logps: Float[Tensor, "B T"],
    advantages: Float[Tensor, "B"] | Float[Tensor, "B 1"] | Float[Tensor, "B T"],
    mask: Shaped[Tensor, "B T"],
    *,
    variant: str | Collection[str] = "O1",
    top_fraction: float = 0.1,
    amplify: float = 1.1,
    attenuate: float = 0.9,
    statistic: SurprisalLimits | None = None,
    tolerance: float = 0.0,
) -> Float32[Tensor, "B T"]:
    r"""Weight tokens by their surprisal and the sign of their advantage, as STARE does while its gate is open.

    T+ and T- are the tokens with A > 0 and A < 0. L+ and L- are the `top_fraction` of T+ and of T- with the largest
    surprisal -ln pi, and U+ and U- are the other tokens. That U+ and U- hold all other tokens is our reading, because
    the paper's choice is not public. Four operations raise the entropy. Each multiplies the advantages in one set by W
    (`amplify`) or M (`attenuate`), and has a name in the paper:

        amplify_high_positive     L+ by W    O1        attenuate_low_positive     U+ by M    O2
        amplify_low_negative      U- by W    O3        attenuate_high_negative    L- by M    O4

        C1 = O1 + O3    C2 = O1 + O4    C3 = O2 + O3    C4 = O2 + O4

    Public sources disagree on which operation is O2 and which is O3. The long names of the operations are unambiguous.
    Masked tokens, and tokens whose log-probability is not finite, have the weight 1.

    Args:
        logps (`torch.Tensor` of shape `[B, T]`): current log-probabilities, nats.
        advantages (`torch.Tensor` of shape `[B]`, `[B, 1]` or `[B, T]`): only the signs are read; tokens with an
            advantage of 0 are in no set.
        mask (`torch.Tensor` of shape `[B, T]`): 1 for tokens that count.
        variant (`str` or collection of `str`): one or several of the names above.
        top_fraction (`float`): P in [0, 1], rounded up to whole tokens, at least one token; 0 selects none.
        amplify (`float`): W, at least 1.
        attenuate (`float`): M, in (0, 1].
        statistic (`SurprisalLimits`, *optional*): the result of [`stare_statistic`] for the batch that these
            tokens belong to; by default, for these tokens alone.
        tolerance (`float`): a surprisal below the threshold by at most this, in nats, still counts as equal to it.
    """
    surprisal, *sides = _split_sides(logps, advantages, mask)
    if statistic is None:
        statistic = stare_statistic(logps, advantages, mask, top_fraction=top_fraction)
    highs = []
    lows = []
    for side, limit in zip(sides, statistic, strict=True):
        high = side & (surprisal >= limit - tolerance)
        highs.append(high)
        lows.append(side & ~high & limit.isfinite())
    sets = {
        "amplify_high_positive": (highs[0], amplify),
        "attenuate_low_positive": (lows[0], attenuate),
        "amplify_low_negative": (lows[1], amplify),
        "attenuate_high_negative": (highs[1], attenuate),
    }
    weights = torch.ones_like(surprisal)
    for operation in stare_operations(variant):
        tokens, weight = sets[operation]
        weights = torch.where(tokens, weight, weights)
    return weights


@dataclass
class StareOptions:
    """Options of `"stare"`: the steps and the bounds of W and M with `stare_adaptive`."""

    step: Annotated[float, Setting("Step of W and M.", "[0, inf)", needs={"stare_adaptive": True})] = 0.01
    amplify_max: Annotated[
        float,
        Setting(
            "Upper bound of W, at least stare_amplify.",
            "[1, inf)",
            needs={"stare_adaptive": True, "stare_variant": AMPLIFYING},
        ),
    ] = 1.5
    attenuate_min: Annotated[
        float,
        Setting(
            "Lower bound of M, at most stare_attenuate.",
            "(0, 1]",
            needs={"stare_adaptive": True, "stare_variant": ATTENUATING},
        ),
    ] = 0.5


class Stare(Shaper[StareSettings]):
    """STARE's token weights, and the controller of its gate and factors."""

    settings_class = StareSettings
    options_class = StareOptions
    options: StareOptions
    paper = PAPERS["2606.19236"]

    # `hold_entropy` adjusts W between 1 and 4.
    control = Control(max_strength=3.0, gain=3.0)

    def __init__(self, args: StareSettings) -> None:
        super().__init__(args)
        schedule = args.stare_adaptive, self.options.step, self.options.amplify_max, self.options.attenuate_min
        self.controller = TargetEntropyController(
            args.stare_target_entropy, args.stare_amplify, args.stare_attenuate, *schedule
        )
        # Only one rollout determines the initial entropy, because the gate must be set before the first update.
        self.start = StartEntropy(1)
        self.operations = stare_operations(args.stare_variant)
        # The mean entropy is needed only if tokens are selected, and their factor W or M differs from 1 or can change.
        moves = args.stare_adaptive and self.options.step > 0
        compares = moves or args.stare_target_entropy_unit == "initial" or args.stare_gate == "batch"
        if compares and self._selects() and (moves or self._reweights()):
            self.reads = ("mean_entropy",)

    @classmethod
    def fill_unset(cls, args: StareSettings) -> None:
        """Set the defaults: O1 with the rollout's gate or, if `hold_entropy` is set, C2 without a gate."""
        is_held = args.hold_entropy is not None
        if args.stare_variant is None:
            args.stare_variant = "C2" if is_held else "O1"
        if args.stare_gate is None:
            args.stare_gate = "none" if is_held else "batch"

    @classmethod
    def complaints(cls, args: StareSettings) -> list[str]:
        """Return complaints about a W or M beyond its bound, a target out of range, or a gate with `hold_entropy`."""
        complaints = []
        if args.stare_adaptive:
            above, below = f"[{args.stare_amplify}, inf)", f"(0, {args.stare_attenuate}]"
            bounds = read_options(cls, args)
            complaints += check_interval(
                "shaping_options.stare.amplify_max", bounds.amplify_max, above, "stare_amplify starts above it"
            )
            complaints += check_interval(
                "shaping_options.stare.attenuate_min", bounds.attenuate_min, below, "stare_attenuate starts below it"
            )
        if args.stare_target_entropy_unit == "initial":
            why = "it is a multiple of the entropy that the run begins with"
            complaints += check_interval("stare_target_entropy", args.stare_target_entropy, "(0, 10]", why)
        if args.hold_entropy is not None:
            why = "with 0 no token is weighted, so hold_entropy would move nothing"
            complaints += check_interval("stare_top_fraction", args.stare_top_fraction, "(0, 1]", why)
        if args.hold_entropy is not None and args.stare_gate != "none":
            complaints.append(
                f"stare_gate={args.stare_gate!r} cannot be combined with hold_entropy={args.hold_entropy!r}: the gate "
                "would switch off what holds the entropy. Leave stare_gate unset."
            )
        return complaints

    @classmethod
    def remarks(cls, args: StareSettings) -> list[str]:
        """Return a warning about the two variants that public sources name differently."""
        if not {"O2", "O3"} & set(as_tuple(args.stare_variant)):
            return []
        return ["O2 is attenuate_low_positive and O3 is amplify_low_negative here. Public sources disagree."]

    @property
    def strength(self) -> float:
        """The amplifying factor W minus 1.

        Setting the strength also sets the attenuating factor M to 1 / W.
        """
        return self.controller.amplify - 1

    @strength.setter
    def strength(self, value: float) -> None:
        self.controller.amplify = 1 + value
        self.controller.attenuate = 1 / (1 + value)

    @property
    def active(self) -> bool:
        """False while the rollout's gate is closed, if no token is selected, or if the factors in use are 1."""
        return (self.args.stare_gate != "batch" or self.controller.gate) and self._selects() and self._reweights()

    def _selects(self) -> bool:
        return self.args.stare_top_fraction > 0

    def _reweights(self) -> bool:
        moved = {"amplify": self.controller.amplify > 1, "attenuate": self.controller.attenuate < 1}
        return any(moved[operation.split("_")[0]] for operation in self.operations)

    def measure(self, batch: TokenBatch, reduce: Reduce) -> SurprisalLimits:
        """Return the smallest surprisal of the surprising tokens, for positive and for negative advantages."""
        return stare_statistic(
            batch.logps,
            batch.advantages,
            batch.mask,
            top_fraction=self.args.stare_top_fraction,
            reduce=reduce,
        )

    def weights(self, batch: TokenBatch, measure: SurprisalLimits) -> Float[Tensor, "B T"]:
        """Return the token weights omega `[B, T]`.

        With `stare_gate="batch"`, the gate is assumed to be open.
        """
        weights = stare_weights(
            batch.logps,
            batch.advantages,
            batch.mask,
            variant=self.args.stare_variant,
            amplify=self.controller.amplify,
            attenuate=self.controller.attenuate,
            statistic=measure,
            tolerance=self.tolerance,
        )
        if self.args.stare_gate not in ("sample", "token"):
            return weights
        entropies = batch.old_entropies.float()
        if self.args.stare_gate == "sample":
            entropies = mean_of_tokens(entropies, batch.mask).unsqueeze(1)
        return torch.where(entropies < self.controller.target_entropy, weights, 1.0)

    def on_rollout(self, entropy: float) -> None:
        """Set a relative target at the first rollout, then update the gate and the factors W and M."""
        self.start.add(entropy)
        self._set_target()
        self.controller.update(entropy)

    def _set_target(self) -> None:
        if self.args.stare_target_entropy_unit == "initial" and self.start.value is not None:
            self.controller.target_entropy = self.args.stare_target_entropy * self.start.value

    def metrics(self) -> dict[str, float]:
        """Return the gate, the factors W and M, the target, and whether adaptive factors are at their bounds.

        The target is in nats per token, and left out if it is unknown or not used. The gate is left out unless the
        whole rollout has one gate.
        """
        controller = self.controller
        waits = self.args.stare_target_entropy_unit == "initial" and self.start.value is None
        metrics = {"stare/amplify": controller.amplify, "stare/attenuate": controller.attenuate}
        # Other gates differ between completions or tokens, so no single number can be logged.
        if self.args.stare_gate == "batch":
            metrics["stare/gate"] = float(controller.gate)
        if self.args.stare_gate != "none" and not waits:
            metrics["stare/target_entropy"] = controller.target_entropy
        if self.args.stare_adaptive:
            metrics["stare/saturated"] = float(self._is_saturated())
        return metrics

    def _is_saturated(self) -> bool:
        """Return whether every factor that the operations use is at its bound."""
        bounds = {
            "amplify": self.controller.amplify >= self.options.amplify_max,
            "attenuate": self.controller.attenuate <= self.options.attenuate_min,
        }
        return all(bounds[operation.split("_")[0]] for operation in self.operations)

    def state_dict(self) -> dict[str, Any]:
        """Return the gate, the first rollout's entropy, and the factors W and M if they are adaptive."""
        return self.controller.state_dict() | {"start": self.start.state_dict()}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a [`state_dict`]. Raises `ValueError` if a value is missing or invalid."""
        self.start.load_state_dict(read_from_state(state, "start", lambda start: isinstance(start, dict), "a mapping"))
        self.controller.load_state_dict(state)
        self._set_target()
