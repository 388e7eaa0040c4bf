"""How often this package waits for the device in a step: operations for which CUDA would have to be waited for."""

import random
import sys
from collections import Counter
from pathlib import Path

import pytest
import torch
from datasets import Dataset
from torch.utils._python_dispatch import TorchDispatchMode

import steer_trl
from steer_trl import SteerGRPOTrainer

PACKAGE = str(Path(steer_trl.__file__).parent)
WAITS = {"_local_scalar_dense": 1, "nonzero": 1, "masked_select": 1, "bincount": 2, "_unique2": 1, "equal": 1}
C2 = {"advantage_shaping": "stare", "stare_variant": "C2", "stare_gate": "none"}
C2 |= {"stare_amplify": 1.25, "stare_attenuate": 0.8}
CASES = {
    "padding": ({"advantage_shaping": "none"}, 10),
    "constant weight": (C2, 16),
    "dynamic sampling": (C2 | {"dynamic_sampling": "resample"}, 30),
}
STEPS, MICRO_BATCHES = 4, 4
RUN = {"max_steps": STEPS, "num_generations": 8, "per_device_train_batch_size": 8, "skip_padding": True}
RUN |= {"gradient_accumulation_steps": MICRO_BATCHES, "steps_per_generation": 2 * MICRO_BATCHES}


def is_ours():
    """Whether the innermost frame of a trainer, TRL's or this package's, is this package's."""
    frame = sys._getframe(2)
    while frame is not None:
        name = frame.f_code.co_filename
        if name.startswith(PACKAGE):
            return True
        if any(part in name for part in ("/trl/", "/accelerate/", "/transformers/")):
            return False
        frame = frame.f_back
    return False


class Waits(TorchDispatchMode):
    """Counts what waits for the device, by the name of the operation."""

    def __init__(self):
        super().__init__()
        self.counts = Counter()

    def note(self, name, count=1):
        self.counts[name] += count * is_ours()

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        name = func._schema.name.split("::")[-1]
        indices = args[1] if name in ("index", "index_put", "index_put_") else ()
        is_mask = any(index is not None and index.dtype == torch.bool for index in indices)
        if name in WAITS or is_mask:
            self.note(name, WAITS.get(name, 1))
        return func(*args, **(kwargs or {}))


def write(prompts, trainer):
    dice = random.Random(trainer.state.global_step)
    ids = [[dice.randrange(3, 14) for _ in range(dice.randint(3, 8))] for _ in prompts]
    return {"prompt_ids": [[5] * dice.randint(2, 5) for _ in prompts], "completion_ids": ids, "logprobs": None}


def half_of_the_groups(completions, **_):
    return [float(i % 2 and i % 16 < 8) for i, _ in enumerate(completions)]


@pytest.mark.parametrize("case", CASES)
def test_few_operations_wait_for_the_device(make_trainer, monkeypatch, case):
    settings, most = CASES[case]
    data = Dataset.from_dict({"prompt": ["1+1="] * 64})
    arguments = {"rollout_func": write, "reward_funcs": half_of_the_groups, "train_dataset": data}
    trainer = make_trainer(SteerGRPOTrainer, **RUN | settings, trainer_arguments=arguments)
    waits = Waits()
    for name in ("tolist", "cpu", "numpy"):
        method = getattr(torch.Tensor, name)

        def counted(tensor, *args, method=method, name=name, **kwargs):
            waits.note(name)
            return method(tensor, *args, **kwargs)

        monkeypatch.setattr(torch.Tensor, name, counted)
    with waits:
        trainer.train()
    assert 0 < waits.counts.total() / STEPS <= most, waits.counts
