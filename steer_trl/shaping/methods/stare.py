"""STARE, arXiv 2606.19236: reweight surprising tokens while the entropy is below a target.

    A_hat = omega * A,   omega = W or M on the sets of `functional/stare.py` while the gate is open, else 1

The gate compares the rollout's mean entropy with the target (or each completion's, or each token's; or it stays open).
Choose it to hold the entropy at a level; choose STEER where no good level is known. What the entropy of your model
means is told by its first rollouts, so the target may be given relative to the first one.
"""

import logging
import math
from typing import Any

import torch
from torch import Tensor

from steer_trl.functional import stare_statistic, stare_weights
from steer_trl.functional.controller import TargetEntropyController
from steer_trl.functional.order_statistics import Reduce
from steer_trl.shaping.base import Paper, Shaper
from steer_trl.shaping.batch import TokenBatch, mean_of_tokens
from steer_trl.shaping.methods.stare_options import StareOptions, complaints, conflicts
from steer_trl.validation import from_state, is_within, listed, stare_operations

logger = logging.getLogger(__name__)


class Stare(Shaper[StareOptions]):
    """STARE's token weights and its closed loop."""

    paper = Paper(
        "STARE: Surprisal-Guided Token-Level Advantage Reweighting for Policy Entropy Stability",
        "Haipeng Luo and Qingfeng Sun and Songli Wu and Can Xu and Wenfeng Deng and Han Hu and Yansong Tang",
        2026,
        "2606.19236",
    )

    def __init__(self, args: StareOptions) -> None:
        super().__init__(args)
        self.controller = TargetEntropyController(
            args.stare_target_entropy,
            args.stare_amplify,
            args.stare_attenuate,
            adaptive=args.stare_adaptive,
            step=args.stare_step,
            amplify_max=args.stare_amplify_max,
            attenuate_min=args.stare_attenuate_min,
        )
        self.initial_entropy: float | None = None
        self.operations = stare_operations(args.stare_variant)
        if {"O2", "O3"} & set(listed(args.stare_variant)):
            logger.warning("O2 is taken for attenuate_low_positive, O3 for amplify_low_negative: sources disagree.")
        # With W = M = 1 that never move, or with nothing selected, no entropy can open anything.
        moves = args.stare_adaptive and args.stare_step > 0
        reads = moves or args.stare_target_entropy_unit == "initial" or args.stare_gate == "batch"
        self.needs_rollout_entropy = self._selects() and (moves or self._reweights()) and reads

    @classmethod
    def complaints(cls, args: StareOptions) -> list[str]:
        """Check the settings."""
        return complaints(args)

    @classmethod
    def conflicts(cls, args: StareOptions) -> list[str]:
        """Refuse settings that others make idle."""
        return conflicts(args)

    @property
    def compares(self) -> bool:
        """False for a fixed threshold."""
        return self.args.stare_fixed_probability is None

    @property
    def active(self) -> bool:
        """False while the gate is closed, and where nothing is selected or no operation has a weight but 1."""
        return (self.args.stare_gate != "batch" or self.controller.gate) and self._selects() and self._reweights()

    def _selects(self) -> bool:
        return self.args.stare_top_fraction > 0 or self.args.stare_fixed_probability is not None

    def _reweights(self) -> bool:
        moved = {"amplify": self.controller.amplify > 1, "attenuate": self.controller.attenuate < 1}
        return any(moved[operation.split("_")[0]] for operation in self.operations)

    def measure(self, batch: TokenBatch, reduce: Reduce) -> Tensor:
        """Return the surprisals that delimit the sets."""
        return stare_statistic(
            batch.logps,
            batch.advantages,
            batch.mask,
            top_fraction=self.args.stare_top_fraction,
            low_set=self.args.stare_low_set,
            reduce=reduce,
        )

    def weights(self, batch: TokenBatch, measure: Tensor | None) -> Tensor:
        """Return omega of shape `[B, T]`; the batch's gate is taken as open."""
        weights = stare_weights(
            batch.logps,
            batch.advantages,
            batch.mask,
            variant=self.args.stare_variant,
            amplify=self.controller.amplify,
            attenuate=self.controller.attenuate,
            low_set=self.args.stare_low_set,
            fixed_probability=self.args.stare_fixed_probability,
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
        """Fix a relative target at the first rollout, then update the gate and the schedule."""
        if self.initial_entropy is None and math.isfinite(entropy):
            self._start_from(entropy)
        self.controller.update(entropy)

    def _start_from(self, entropy: float) -> None:
        self.initial_entropy = entropy
        if self.args.stare_target_entropy_unit == "initial":
            self.controller.target_entropy = self.args.stare_target_entropy * entropy

    def metrics(self) -> dict[str, float]:
        """Return gate (0 or 1), W, M and the target in nats, NaN while a relative target waits for its rollout."""
        controller = self.controller
        waits = self.args.stare_target_entropy_unit == "initial" and self.initial_entropy is None
        return {
            # A sample's or a token's gate is no single number.
            "stare/gate": {"batch": float(controller.gate), "none": 1.0}.get(self.args.stare_gate, math.nan),
            "stare/amplify": controller.amplify,
            "stare/attenuate": controller.attenuate,
            "stare/target_entropy": math.nan if waits else controller.target_entropy,
        }

    def state_dict(self) -> dict[str, Any]:
        """Return the gate, W and M if they move, and the first rollout's entropy; what is set is not state."""
        return self.controller.state_dict() | {"initial_entropy": self.initial_entropy}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue from a [`state_dict`].

        Raises:
            `ValueError`: a value is missing or cannot be.
        """
        initial = from_state(
            state,
            "initial_entropy",
            lambda x: x is None or is_within(x, "[0, inf)"),
            "null or a number of nats in [0, inf)",
        )
        self.controller.load_state_dict(state)
        if initial is not None:
            self._start_from(initial)
