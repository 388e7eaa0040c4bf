"""What is logged of dynamic sampling: of all that was generated, trained on and dropped, so that no curve flatters.

TRL sees the chosen groups only; what it logs of rewards is corrected here.
"""

import math
from dataclasses import dataclass, fields

import torch
from torch import Tensor
from trl.trainer.utils import nanstd

from steer_trl.trainer.groups import total_reward
from steer_trl.trainer.trl import GRPOTrainer, append_to_log, replace_last


@dataclass(frozen=True)
class Judged:
    """Completions of all ranks, those of a prompt beside each other.

    `rewards` `[N, functions]` are NaN where a function could not score; `correctness` `[N]` are those of the function
    that says what is correct; `lengths` `[N]` count what the policy wrote; `chosen` `[groups]`: is it informative?
    """

    rewards: Tensor
    correctness: Tensor
    lengths: Tensor
    chosen: Tensor

    @property
    def dropped(self) -> Tensor:
        """Which completions are of groups that are not informative `[N]`."""
        return ~self.chosen.repeat_interleave(len(self.rewards) // len(self.chosen))

    @classmethod
    def merged(cls, parts: list["Judged"]) -> "Judged":
        """Put several below each other."""
        return cls(**{one.name: torch.cat([getattr(part, one.name) for part in parts]) for one in fields(cls)})


def tell_sampling(trainer: GRPOTrainer, written: Judged | None, trained: Judged) -> None:
    """Log how the rollout `trained` was chosen of all that was `written` for it, `None` if nothing was, after TRL."""
    replace_last(trainer, _reward_metrics(trainer, written))
    own = {
        "dynamic_sampling/uninformative": _mean(~trained.chosen),
        "dynamic_sampling/accuracy_trained": _mean(_is_correct(trainer, trained)),
        "dynamic_sampling/reward_trained": _mean(total_reward(trainer, trained.rewards)),
    } | (_of_written(trainer, written, trained) if written is not None else {})
    append_to_log(trainer, {key: value for key, value in _to_numbers(own).items() if not math.isnan(value)})


def _reward_metrics(trainer: GRPOTrainer, written: Judged | None) -> dict[str, float]:
    """TRL's keys, over everything that was written; NaN, which TRL's log leaves out, where nothing was."""
    size = trainer.num_generations
    rewards = torch.full((size, len(trainer.reward_funcs)), torch.nan) if written is None else written.rewards
    total = total_reward(trainer, rewards)
    spread = nanstd(total.view(-1, size), dim=1)
    is_flat = torch.isclose(spread, torch.zeros_like(spread)).float()
    values = {"reward": total.nanmean(), "reward_std": nanstd(total), "frac_reward_zero_std": is_flat.mean()}
    if written is None:
        values["frac_reward_zero_std"] = total.nanmean()
    for i, name in enumerate(trainer.reward_func_names):
        values |= {f"rewards/{name}/mean": rewards[:, i].nanmean(), f"rewards/{name}/std": nanstd(rewards[:, i])}
    return _to_numbers(values)


def _of_written(trainer: GRPOTrainer, written: Judged, trained: Judged) -> dict[str, Tensor]:
    correct = _is_correct(trainer, written)
    of_groups = correct.view(-1, trainer.num_generations).nanmean(1)
    tokens, trained_tokens = written.lengths.sum(), trained.lengths.sum()
    return {
        "dynamic_sampling/informative": _mean(written.chosen),
        "dynamic_sampling/all_correct": _mean(~written.chosen & (of_groups > 0.5)),
        "dynamic_sampling/all_incorrect": _mean(~written.chosen & (of_groups <= 0.5)),
        "dynamic_sampling/accuracy": _mean(correct),
        "dynamic_sampling/accuracy_dropped": _mean(correct, written.dropped),
        "dynamic_sampling/reward_dropped": _mean(total_reward(trainer, written.rewards), written.dropped),
        "dynamic_sampling/tokens_per_trained_token": torch.where(
            trained_tokens > 0, tokens / trained_tokens, math.nan
        ),
    }


def _is_correct(trainer: GRPOTrainer, judged: Judged) -> Tensor:
    """1 or 0 for each completion, NaN where it was not scored `[N]`."""
    correct = (judged.correctness > trainer.args.correct_threshold).float()
    return correct.masked_fill(judged.correctness.isnan(), torch.nan)


def _mean(values: Tensor, among: Tensor | None = None) -> Tensor:
    values = values.float()
    return (values if among is None else torch.where(among, values, math.nan)).nanmean()


def _to_numbers(values: dict[str, Tensor]) -> dict[str, float]:
    """Read all values from the device at once."""
    numbers = torch.stack([value.float() for value in values.values()]).tolist()
    return dict(zip(values, numbers, strict=True))
