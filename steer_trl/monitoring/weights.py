"""Statistics of how the methods change the advantages and how their weights are spread."""

import torch
from torch import Tensor

from steer_trl.monitoring.estimators import EFFECTIVE_SHARE, MEAN_WEIGHT
from steer_trl.monitoring.statistics import Statistic, mean, ratio, total
from steer_trl.shaping import Shaped, TokenBatch


def shaping_statistics(batch: TokenBatch, result: Shaped) -> dict[str, Statistic]:
    """Return the mean weight of the tokens, the share of changed tokens, and the mean size of the changes.

    If methods mark sets of tokens, the share of tokens in each set is also returned.
    """
    trained = batch.mask.bool()
    weights = result.weights
    count = trained.sum(dtype=torch.float32)
    change = torch.zeros_like(weights) if result.advantages is None else result.advantages - batch.advantages
    return {
        "shaping/weight_mean": Statistic((total(weights - 1, trained), count), MEAN_WEIGHT),
        "shaping/share_changed": mean((weights != 1) | (change != 0), trained, count),
        "shaping/advantage_change": mean(change.abs(), trained, count),
        "shaping/relative_change": ratio(change.abs(), batch.advantages.expand_as(weights).abs(), trained),
        **{key: mean(tokens, trained, count) for key, tokens in result.marks.items()},
    }


def weight_statistics(weights: Tensor, mask: Tensor) -> dict[str, Statistic]:
    """Return the share of tokens whose weight lies in each of seven ranges, and the effective share of tokens.

    The shares of the ranges add up to 1. The effective share is (sum w)^2 / (n sum w^2) for n tokens with weights w.
    """
    trained = mask.bool()
    count = trained.sum(dtype=torch.float32)
    bins = {
        "weights/under_0.5": weights < 0.5,
        "weights/0.5_to_0.9": (weights >= 0.5) & (weights < 0.9),
        "weights/0.9_to_1": (weights >= 0.9) & (weights < 1),
        "weights/1": weights == 1,
        "weights/1_to_1.1": (weights > 1) & (weights <= 1.1),
        "weights/1.1_to_2": (weights > 1.1) & (weights <= 2),
        "weights/over_2": weights > 2,
    }
    means = {key: mean(tokens, trained, count) for key, tokens in bins.items()}
    moments = (total(weights - 1, trained), total((weights - 1).square(), trained), count)
    return means | {"weights/effective_share": Statistic(moments, EFFECTIVE_SHARE)}
