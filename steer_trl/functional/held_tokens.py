"""Which tokens' mean entropy is held: a mean over all of them can stay where it is while wrong tokens fill it.

    all                  every trained token: the entropy of the policy
    positive_advantage   those of completions that did better than their group: variety among the good answers
    top_entropy          the fifth with most entropy, the forks at which answers part (arXiv 2506.01939)

None costs a forward pass. Which of them keeps pass@k where the mean of all does not has not been measured.
"""

from jaxtyping import Bool, Float, Shaped
from torch import Tensor

from steer_trl.functional.order_statistics import Reduce, top_threshold

HELD_TOKENS = ("all", "positive_advantage", "top_entropy")
TOP = 0.2


def held_tokens(
    choice: str,
    entropies: Float[Tensor, "B T"],
    advantages: Float[Tensor, "B T"],
    mask: Shaped[Tensor, "B T"],
    reduce: Reduce,
) -> Bool[Tensor, "B T"]:
    """Return where the tokens are whose mean entropy is held `[B, T]`, of the trained ones whose entropy is finite.

    Collective where `reduce` is: the fifth is that of all ranks.
    """
    valid = mask.bool() & entropies.isfinite()
    if choice == "positive_advantage":
        return valid & (advantages > 0)
    if choice == "top_entropy":
        return valid & (entropies >= top_threshold(entropies, valid, TOP, reduce))
    return valid
