r"""The equations of the papers, as functions from tensors to tensors.

Notation: B sequences in this process, T response tokens, V tokens in the vocabulary. For token t of sequence i:

    lp, lq   log-probability of the sampled token under the current and the old policy, nats    logps, old_logps [B, T]
    pi, r    exp(lp) and exp(lp - lq)
    H        entropy of the next-token distribution, nats                                       entropies [B, T]
    A        advantage                                                                         advantages [B] or [B, T]
    m        1 for a token that is trained on, 0 for prompt, padding and tool tokens            mask [B, T]

A weight w > 0 multiplies a token's advantage. It does not depend on the parameters, so w * clipped_loss(A) =
clipped_loss(w * A), and the weights work with any GRPO loss. All results are in float32 and detached. A token whose
log-probability or entropy is not finite gets weight 1 and is not counted in any statistic. The configuration checks
ranges, so these functions do not. Annotations give shapes in jaxtyping's notation, and the tests check them at each
call.
"""

from steer_trl.entropy.regulator import EntropyRegulator
from steer_trl.shaping.methods.stare import stare_statistic, stare_weights
from steer_trl.shaping.methods.steer import steer_statistic, steer_weights
from steer_trl.shaping.sensitivity import (
    entropy_change,
    entropy_sensitivity,
    entropy_sensitivity_without_logits,
    released_entropy_change,
)
from steer_trl.shaping.stare_controller import TargetEntropyController

__all__ = [
    "EntropyRegulator",
    "TargetEntropyController",
    "entropy_change",
    "entropy_sensitivity",
    "entropy_sensitivity_without_logits",
    "released_entropy_change",
    "stare_statistic",
    "stare_weights",
    "steer_statistic",
    "steer_weights",
]
