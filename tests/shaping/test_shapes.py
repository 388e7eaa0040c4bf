"""The annotations' types and shapes are checked at each call of `functional.py` and `shaping/` while tests run."""

import pytest
import torch
from jaxtyping import TypeCheckError

from steer_trl.functional import entropy_change, stare_weights, steer_weights
from steer_trl.shaping import Rollout
from steer_trl.shaping.order_statistics import extremes
from steer_trl.shaping.scores import standardize

X, WIDER = torch.zeros(2, 3), torch.zeros(2, 4)


@pytest.mark.parametrize(
    "call",
    [
        lambda: entropy_change(X, X, WIDER, X[:, 0]),
        lambda: entropy_change(X, X, X, WIDER[0]),
        lambda: steer_weights(X, WIDER),
        lambda: stare_weights(X, X, WIDER),
        lambda: extremes(X, X),  # the mask must be boolean
        lambda: Rollout(num_generations=2, mask=X.bool(), advantages=X, rewards=WIDER[0]),
        lambda: standardize(X.long(), 2, 1e-4),
    ],
)
def test_a_wrong_shape_or_type_is_refused(call):
    with pytest.raises(TypeCheckError, match="Type-check error"):
        call()
