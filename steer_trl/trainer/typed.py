"""TRL's `GRPOTrainer`: at run time itself, for a type checker with what TRL's own annotations leave open."""

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from datasets import Dataset, DatasetDict, IterableDataset, IterableDatasetDict
from transformers import PreTrainedModel

RewardFunc = str | PreTrainedModel | Callable[..., Sequence[float | None]]
EvalDataset = (
    Dataset | IterableDataset | DatasetDict | IterableDatasetDict | dict[str, Dataset | IterableDataset] | None
)

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    import trl

    from steer_trl.config import SteerGRPOConfig
    from steer_trl.shaping import Shaper

    class GRPOTrainer(trl.GRPOTrainer):
        """The attributes as they are once the trainer is made."""

        args: SteerGRPOConfig
        shapers: Mapping[str, Shaper]  # ours
        model: PreTrainedModel
        num_generations: int
        pad_to_multiple_of: int | None  # "auto" is settled
        _buffered_inputs: list[dict[str, Any]]  # type: ignore[assignment]  # TRL declares the None it begins with
        _logs: dict[str, Any]
else:
    from trl import GRPOTrainer

__all__ = ["EvalDataset", "GRPOTrainer", "RewardFunc"]
