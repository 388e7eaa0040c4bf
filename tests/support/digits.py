"""Rollouts of random digits, the same in every run, so that a run is not about generation; and rewards for them."""

import torch


def given(prompts, trainer, ids, masks=None):
    """What a `rollout_func` returns for these completions; of `masks`, 0 is what a tool wrote."""
    rollout = {"prompt_ids": trainer.processing_class(prompts)["input_ids"], "completion_ids": ids, "logprobs": None}
    return rollout if masks is None else rollout | {"env_mask": masks}


def written(prompts, trainer, ends=None):
    """Completions of two to six digits; those that `ends` denies go without an end token, to the last place."""
    tokenizer, count = trainer.processing_class, len(prompts)
    dice = torch.Generator().manual_seed(trainer.state.global_step)
    digits = torch.randint(4, 14, (count, 7), generator=dice).tolist()
    lengths = torch.randint(2, 7, (count,), generator=dice).tolist()
    rows = enumerate(zip(digits, lengths, strict=True))
    ids = [[*r[:length], tokenizer.eos_token_id] if ends is None or ends(i) else r for i, (r, length) in rows]
    return given(prompts, trainer, ids)


def cut_off(prompts, trainer):
    """No completion ends."""
    return written(prompts, trainer, ends=lambda row: False)


def mostly_cut_off(prompts, trainer):
    """Three of four completions do not end."""
    return written(prompts, trainer, ends=lambda row: row % 4 == 0)


def ones(completion_ids, **_):
    """The share of one digit, so that a policy can be sure; all different."""
    return [ids.count(5) / len(ids) + 0.01 * ids[0] + 0.001 * len(ids) for ids in completion_ids]


def nothing(completion_ids, **_):
    """The same for all."""
    return [0.0] * len(completion_ids)
