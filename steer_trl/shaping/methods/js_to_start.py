r"""The Jensen-Shannon divergence from the initial model instead of TRL's KL penalty, after arXiv 2509.07430.

    A_hat_it = A_it - beta ln(2 u / (u + 1)),   u = pi(y_it) / pi_ref(y_it),   without TRL's KL penalty

The paper measures the distance from the initial model by E_ref[f(u)], with f(u) = u ln u - (u + 1) ln((u + 1) / 2).
This is twice the Jensen-Shannon divergence. Its gradient over the next token is

    grad E_ref[f(u)] = E_ref[f'(u) grad u] = E_pi[f'(u) grad ln pi],   f'(u) = ln(2 u / (u + 1))

because grad u = u grad ln pi. So subtracting beta f'(u) from the advantage of each token that the policy samples adds
beta times this gradient to that of the loss, as far as the loss does not clip the token. A token that the reference
prefers gains ln(1 + 1 / u) - ln 2, and one that the policy prefers loses at most ln 2.

This is not all of DPH-RL. The authors (seamoke/DPH-RL) let the initial model answer all problems beforehand. They
compute the divergence on its stored correct answers to the problems that it nearly always solves, which are then not
trained on by rewards. Nothing here draws from the initial model: the divergence is over the next token along the
policy's own completions, of all problems, and an answer that the policy has stopped writing is not rehearsed. The
authors' coefficient for this generator is 0.05 to 0.2, on their stored answers. In their code, `js` is another
estimate, whose second half counts in one micro-batch in ten.

The paper's other divergence, the forward KL with f(u) = -ln u, needs no method: in expectation, the gradient of TRL's
own penalty with `use_bias_correction_kl=False` is that of the forward KL, because 1 - 1 / u = f'(u) + 1, and a
constant does not matter. With TRL's default, `True`, it is that of the reverse KL.

The coefficient is TRL's `beta`, which makes TRL load the reference model. The logged loss is without the divergence.
Use the method if a model forgets in training what it could do before.
"""

import math
from typing import ClassVar

import torch
from jaxtyping import Float
from torch import Tensor
from torch.nn.functional import softplus

from steer_trl.options.base import ShapingConfig
from steer_trl.options.needs import ALL_TOKENS, SIGNS, TOKEN_RATIOS, Need
from steer_trl.shaping.base import PAPERS, Shaper
from steer_trl.shaping.batch import TokenBatch


class JsToStart(Shaper[ShapingConfig]):
    """A penalty on the Jensen-Shannon divergence from the reference model."""

    paper = PAPERS["2509.07430"]
    replaces_kl: ClassVar[bool] = True
    needs = SIGNS | TOKEN_RATIOS | ALL_TOKENS
    needs |= {"sync_ref_model": Need((False,), "the reference would not stay the initial model")}

    @classmethod
    def complaints(cls, args: ShapingConfig) -> list[str]:
        """Return a complaint if there is no coefficient, and so no reference model."""
        if args.beta > 0:
            return []
        return [
            f"beta must be above 0 with advantage_shaping='js_to_start', whose coefficient it is, got {args.beta!r}. "
            "Set it, for instance to 0.05."
        ]

    def bonus(self, batch: TokenBatch, measure: None) -> Float[Tensor, "B T"]:
        """Return -beta f'(u) for each token; 0 where a log-probability is not finite."""
        assert batch.ref_logps is not None
        # -ln(2 u / (u + 1)) = ln(1 + 1 / u) - ln 2
        log_inverse = batch.ref_logps.float() - batch.logps.float()
        bonus = self.args.beta * (softplus(log_inverse) - math.log(2))
        return torch.where(log_inverse.isfinite(), bonus, 0.0)
