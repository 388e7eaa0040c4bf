"""Stores completions from TRL's `_generate`, exchanges them between ranks, and gives them back to TRL.

A stored completion is a dictionary with the row number of its prompt in the data set, the values that `_generate`
returned for it, its rewards, and the columns that reward functions add to TRL's table. Plain values are Python's own
numbers, strings, lists and dictionaries, so that a checkpoint can be loaded without running code from the file.
"""

from typing import Any

import numpy as np
from accelerate.utils import gather_object
from torch import Tensor

from steer_trl.support.exceptions import InvalidValueError
from steer_trl.trainer.trl import GRPOTrainer, extra_columns, find_images

StoredCompletion = dict[str, Any]
PromptGroup = list[StoredCompletion]
PLAIN = {bool, int, float, str, type(None)}


def store_completions(
    trainer: GRPOTrainer, numbers: list[int], generated: tuple[Any, ...], rewards: Tensor
) -> list[StoredCompletion]:
    """Return this rank's completions as plain values, and clear TRL's extra columns.

    `numbers` holds, for each completion, the row number of its prompt in the data set.
    """
    prompt_ids, completion_ids, tool_masks, texts, logprobs, _, _, tool_images = generated
    if any(tool_images):
        raise InvalidValueError("dynamic_sampling='resample' cannot be combined with tools that return images.")
    rewards_of_rows = rewards.tolist()
    columns = dict(extra_columns(trainer))
    extra_columns(trainer).clear()
    for name, values in columns.items():
        if len(values) != len(numbers):
            raise InvalidValueError(f"log_extra: {name!r} must have {len(numbers)} values, got {len(values)}.")
    completions = []
    for i, number in enumerate(numbers):
        completion = {
            "number": number,
            "rewards": rewards_of_rows[i],
            "prompt_ids": prompt_ids[i],
            "completion_ids": completion_ids[i],
            "tool_mask": None if tool_masks is None else tool_masks[i],
            "text": texts[i],
            "logprobs": None if logprobs is None else logprobs[i],
            "extra": {name: to_shown(values[i]) for name, values in columns.items()},
        }
        completions.append(to_plain(completion))
    return completions


def to_shown(value: Any) -> Any:
    """Convert a value of `log_extra` to plain values, or to its text if that is impossible. It is only shown."""
    try:
        return to_plain(value)
    except InvalidValueError:
        return str(value)


def to_plain(value: Any) -> Any:
    """Convert `value` to plain values. Raises `ValueError` if it cannot be converted."""
    if isinstance(value, (Tensor, np.ndarray, np.generic)):
        value = value.tolist()
    if type(value) in PLAIN:
        return value
    if isinstance(value, (list, tuple)):
        return list(value) if PLAIN.issuperset(map(type, value)) else [to_plain(part) for part in value]
    if isinstance(value, dict):
        return {to_plain(key): to_plain(part) for key, part in value.items()}
    raise InvalidValueError(
        f"dynamic_sampling='resample' cannot keep a {type(value).__name__} for a later rollout. What a "
        "rollout_func gives must be numbers, strings, or lists and dictionaries of them; use float() or str()."
    )


def exchange_groups(
    completions: list[StoredCompletion], first: int, groups: list[int], group_size: int
) -> list[PromptGroup]:
    """Return the completions of the chosen `groups` on every rank. Collective.

    `completions` are this rank's completions. `first` is the index of the first of them among the completions of
    all ranks. Each group has `group_size` completions.
    """
    chosen = set(groups)
    sent = [(first + i, completion) for i, completion in enumerate(completions) if (first + i) // group_size in chosen]
    by_place = dict(gather_object(sent))
    return [[by_place[group * group_size + i] for i in range(group_size)] for group in groups]


def count_tokens(completion: StoredCompletion) -> int:
    """Return the number of tokens of a completion that the policy wrote."""
    mask = completion["tool_mask"]
    return len(completion["completion_ids"]) if mask is None else sum(mask)


def to_generated(
    trainer: GRPOTrainer, prompts: list[Any], completions: list[StoredCompletion], has_tool_masks: bool
) -> tuple[Any, ...]:
    """Return this rank's `completions` of `prompts` in the form in which TRL's `_generate` returns them.

    `has_tool_masks` states whether a completion of any rank has a tool mask. If so, every completion is given one.
    """
    names = dict.fromkeys(name for completion in completions for name in completion["extra"])
    extras = [completion["extra"] for completion in completions]
    extra_columns(trainer).update({name: [extra.get(name) for extra in extras] for name in names})
    fields = ("prompt_ids", "completion_ids", "tool_mask", "text", "logprobs")
    prompt_ids, ids, masks, texts, logprobs = ([completion[field] for completion in completions] for field in fields)
    tool_masks = [mask or [1] * len(row) for row, mask in zip(ids, masks, strict=True)] if has_tool_masks else None
    # With a `rollout_func`, TRL does not read images from the prompts either.
    images = find_images(trainer, prompts) if trainer.rollout_func is None else None
    return prompt_ids, ids, tool_masks, texts, None if logprobs[0] is None else logprobs, {}, images, []
