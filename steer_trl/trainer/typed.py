"""TRL's `GRPOTrainer`: at run time itself, for a type checker with what TRL's own annotations leave open."""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import Any

    import trl
    from transformers import PreTrainedModel

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

__all__ = ["GRPOTrainer"]
