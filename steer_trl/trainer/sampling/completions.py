"""Completions as plain values: taken from TRL's `_generate`, sent to other ranks, saved, given back to TRL.

One dictionary each: the number of its prompt's row in the data set, what `_generate` returned for it, its rewards, and
what reward functions want to have in TRL's table. Plain are Python's own numbers, texts, lists and dictionaries: a
checkpoint with these can be loaded without running anything that the file may say.
"""

from typing import Any

import numpy as np
from accelerate.utils import gather_object
from torch import Tensor
from trl.data_utils import is_conversational

from steer_trl.exceptions import InvalidValueError
from steer_trl.trainer.trl import GRPOTrainer, extra_columns

Completion = dict[str, Any]
Group = list[Completion]
PLAIN = {bool, int, float, str, type(None)}


def taken(trainer: GRPOTrainer, numbers: list[int], generated: tuple[Any, ...], rewards: Tensor) -> list[Completion]:
    """Return this rank's completions, of the prompts in the rows `numbers`; `rewards` are theirs."""
    prompt_ids, completion_ids, tool_masks, texts, logprobs, _, _, tool_images = generated
    if any(tool_images):
        raise InvalidValueError("dynamic_sampling='resample' cannot be combined with tools that return images.")
    rewards_of_rows = rewards.tolist()
    columns = dict(extra_columns(trainer))
    extra_columns(trainer).clear()
    for name, values in columns.items():
        if len(values) != len(numbers):
            raise InvalidValueError(f"log_extra: {name!r} must have {len(numbers)} values, got {len(values)}.")
    return [
        {
            "number": number,
            "rewards": rewards_of_rows[i],
            "prompt_ids": plain(prompt_ids[i], "prompt_ids"),
            "completion_ids": plain(completion_ids[i], "completion_ids"),
            "tool_mask": None if tool_masks is None else plain(tool_masks[i], "env_mask"),
            "text": plain(texts[i], "the text of a completion"),
            "logprobs": None if logprobs is None else plain(logprobs[i], "logprobs"),
            "extra": {name: plain(values[i], f"log_extra: {name!r}") for name, values in columns.items()},
        }
        for i, number in enumerate(numbers)
    ]


def plain(value: Any, name: str) -> Any:
    """Return `value` in Python's own numbers, texts, lists and dictionaries; refuse all else, by its `name`."""
    if isinstance(value, (Tensor, np.ndarray, np.generic)):
        value = value.tolist()
    if type(value) in PLAIN:
        return value
    if isinstance(value, (list, tuple)):
        return list(value) if PLAIN.issuperset(map(type, value)) else [plain(part, name) for part in value]
    if isinstance(value, dict):
        return {plain(key, name): plain(part, name) for key, part in value.items()}
    raise InvalidValueError(
        f"{name} must hold numbers, texts, or lists and dictionaries of them, got a {type(value).__name__}, which "
        "dynamic_sampling='resample' cannot keep for a later rollout. Convert it, with float() or str()."
    )


def exchanged(own: list[Completion], first: int, groups: list[int], size: int) -> list[Group]:
    """Return the chosen `groups` of `size` on every rank; `own` are those from the place `first` on. Collective."""
    wanted = set(groups)
    sent = [(first + i, completion) for i, completion in enumerate(own) if (first + i) // size in wanted]
    by_place = dict(gather_object(sent))
    return [[by_place[group * size + i] for i in range(size)] for group in groups]


def written_tokens(completion: Completion) -> int:
    """Tokens that the policy wrote."""
    mask = completion["tool_mask"]
    return len(completion["completion_ids"]) if mask is None else sum(mask)


def given_back(trainer: GRPOTrainer, prompts: list[Any], own: list[Completion], masked: bool) -> tuple[Any, ...]:
    """Return what TRL's `_generate` would for `own` completions of `prompts`; with tool masks if any rank's have."""
    names = dict.fromkeys(name for completion in own for name in completion["extra"])
    extra_columns(trainer).update({name: [one["extra"].get(name) for one in own] for name in names})
    ids, masks, logprobs = ([one[name] for one in own] for name in ("completion_ids", "tool_mask", "logprobs"))
    tool_masks = [mask or [1] * len(row) for row, mask in zip(ids, masks, strict=True)] if masked else None
    prompt_ids, texts = [one["prompt_ids"] for one in own], [one["text"] for one in own]
    images = images_in(prompts) if trainer.rollout_func is None else None  # as TRL's
    return prompt_ids, ids, tool_masks, texts, None if logprobs[0] is None else logprobs, {}, images, []


def images_in(prompts: list[Any]) -> list[list[Any] | None] | None:
    """Return the images inside of the messages of each of the `prompts`; `None` where no message has any."""
    if not is_conversational({"prompt": prompts[0]}):
        return None
    contents = [[message["content"] for message in prompt] for prompt in prompts]
    parts = [[part for content in one if isinstance(content, list) for part in content] for one in contents]
    images = [[part["image"] for part in one if part["type"] == "image"] or None for one in parts]
    return images if any(images) else None
