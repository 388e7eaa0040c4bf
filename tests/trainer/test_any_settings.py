"""With `advantage_shaping="none"`, a subclass of ours trains as the same subclass of TRL's trainer, whatever is set.

Settings of TRL and a hook of a subclass are drawn at random. The update must be TRL's with and without padding, and so
must each number of the log if completions keep their order. `SWEEP=full` makes more draws.
"""

import math
import os
import random

import pytest
import torch
from datasets import Dataset
from support.digits import given
from torch.nn.utils import parameters_to_vector
from trl import GRPOTrainer

from steer_trl import SteerGRPOTrainer
from steer_trl.trainer.forward.ordering import Ordering

DRAWS = 150 if os.environ.get("SWEEP") == "full" else 6

RUN = {"optim": "sgd", "learning_rate": 0.3, "max_grad_norm": 1e9, "max_steps": 3, "lr_scheduler_type": "constant"}
RUN |= {"num_generations": 4, "max_completion_length": 16}
SCHEDULES = [
    {"per_device_train_batch_size": 4, "gradient_accumulation_steps": 4, "steps_per_generation": 4},
    {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 4, "steps_per_generation": 8},
    {"per_device_train_batch_size": 8, "gradient_accumulation_steps": 2, "steps_per_generation": 1},
    {"per_device_train_batch_size": 1, "gradient_accumulation_steps": 8, "steps_per_generation": 8},
    {"per_device_train_batch_size": 6, "gradient_accumulation_steps": 3, "steps_per_generation": 4},
]
SETTINGS = [
    {},
    {"importance_sampling_level": "sequence"},
    {"beta": 0.1},
    {"mask_truncated_completions": True},
    {"top_entropy_quantile": 0.5},
    {"entropy_coef": 0.05},
    {"scale_rewards": "none"},
    {"pad_to_multiple_of": 8},
    {"num_iterations": 2},
    {"accelerator_config": {"split_batches": True}},
    {"off_policy_mask_threshold": 0.5},
    {"gradient_checkpointing": True, "gradient_checkpointing_kwargs": {"use_reentrant": False}},
    {"temperature": 0.7},
]
LOSSES = ["dapo", "grpo", "dr_grpo", "bnpo", "cispo", "sapo", "vespo", "luspo"]


def mean_of_rows(trainer, model, inputs):
    """A mean over the rows of a micro-batch, which does not know of the order of a step."""
    ids = torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], 1)
    mask = torch.cat([inputs["prompt_mask"], inputs["completion_mask"]], 1)
    own = inputs["completion_mask"]
    width = own.size(1)
    logps, *_ = trainer._get_per_token_logps_and_entropies(model, ids, mask, width, compute_entropy=True)
    rows = (inputs["advantages"].view(len(own), -1) * logps * own).sum(1) / own.sum(1).clamp(min=1)
    return -rows.mean() / trainer.current_gradient_accumulation_steps


class OwnLoss:
    def _compute_loss(self, model, inputs):
        return mean_of_rows(self, model, inputs)


class LossAdded:
    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        ones = inputs | {"advantages": torch.ones(len(inputs["completion_ids"]))}
        return super().compute_loss(model, inputs) + 0.1 * mean_of_rows(self, model, ones)


class FirstRowLeftOut:
    """A micro-batch loses its first row's advantage."""

    def compute_loss(self, model, inputs, return_outputs=False, num_items_in_batch=None):
        advantages = inputs["advantages"].clone()
        advantages[0] = 0
        return super().compute_loss(model, inputs | {"advantages": advantages})


class HolesInMask:
    """From the second rollout on, every third token is hidden."""

    def _generate_and_score_completions(self, inputs):
        rollout = super()._generate_and_score_completions(inputs)
        if self.state.global_step:
            rollout["completion_mask"] = rollout["completion_mask"].clone()
            rollout["completion_mask"][:, 1::3] = 0
        return rollout


class ListInRollout:
    def _generate_and_score_completions(self, inputs):
        rollout = super()._generate_and_score_completions(inputs)
        return rollout | {"texts": ["text"] * len(rollout["completion_ids"])}


class OtherMasks:
    """A mask of another type."""

    def _generate_and_score_completions(self, inputs):
        rollout = super()._generate_and_score_completions(inputs)
        return rollout | {"weights": torch.ones(len(rollout["completion_ids"]), dtype=torch.bool)}


class Plain:
    pass


HOOKS = [Plain, OwnLoss, LossAdded, FirstRowLeftOut, HolesInMask, ListInRollout, OtherMasks]


def write(prompts, trainer):
    """Completions of all lengths, of which some do not end."""
    words = random.Random(trainer.state.global_step)
    end = trainer.processing_class.eos_token_id
    texts = [[words.randrange(4, 14) for _ in range(words.randint(1, 15))] for _ in prompts]
    return given(prompts, trainer, [text if len(text) == 15 else [*text, end] for text in texts])


def draw(seed):
    dice = random.Random(seed)
    hook = HOOKS[seed % len(HOOKS)]
    settings = {"loss_type": dice.choice(LOSSES)} | dice.choice(SCHEDULES)
    for more in dice.sample(SETTINGS, 2):
        settings |= more
    if settings["loss_type"] == "cispo":
        settings["epsilon_high"] = 5.0
    return hook, settings


NAMED = {
    "a loss of its own": (OwnLoss, SCHEDULES[1]),
    "split_batches": (Plain, SCHEDULES[0] | {"accelerator_config": {"split_batches": True}}),
    "ratios of sequences": (Plain, SCHEDULES[1] | {"importance_sampling_level": "sequence", "loss_type": "grpo"}),
    "holes in a mask": (HolesInMask, SCHEDULES[0]),
    "a second iteration that begins within a step": (Plain, SCHEDULES[4] | {"num_iterations": 2}),
}
"""Cases in which a loss would differ if micro-batches had other numbers of rows, or the model saw another mask."""


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("case", NAMED)
def test_where_the_split_or_the_mask_matters_a_subclass_trains_as_that_of_trl(make_trainer, monkeypatch, case):
    assert_trains_alike(make_trainer, monkeypatch, *NAMED[case])


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize("seed", range(DRAWS))
def test_a_subclass_trains_as_that_of_trl(make_trainer, monkeypatch, seed):
    assert_trains_alike(make_trainer, monkeypatch, *draw(seed))


def assert_trains_alike(make_trainer, monkeypatch, hook, settings):
    texts = ["1+1=", "7=", "1+2+3+4+5+6+7+8=", "2+2+2+2="]
    arguments = {"rollout_func": write, "train_dataset": Dataset.from_dict({"prompt": texts * 8})}

    def run(parent, **fields):
        subclass = type("Subclass", (hook, parent), {})
        trainer = make_trainer(subclass, **RUN | settings | fields, trainer_arguments=arguments)
        start = parameters_to_vector(trainer.model.parameters()).detach().double()
        trainer.train()
        update = parameters_to_vector(trainer.model.parameters()).detach().double() - start
        return update, trainer.state.log_history

    expected, log = run(GRPOTrainer)
    off = {"advantage_shaping": "none", "alarms": False, "run_log": False, "diagnostics": False}
    padded, _ = run(SteerGRPOTrainer, **off)
    packed, _ = run(SteerGRPOTrainer, **off, skip_padding=True)
    assert torch.equal(padded, expected)
    assert (packed - expected).norm() <= 1e-4 * expected.norm(), settings
    monkeypatch.setattr(Ordering, "is_on", False)
    in_order, log_in_order = run(SteerGRPOTrainer, **off, skip_padding=True)
    assert (in_order - expected).norm() <= 1e-4 * expected.norm(), settings
    for entry, other in zip(log, log_in_order, strict=True):
        for key in entry.keys() - {"step_time", "train_runtime", "train_samples_per_second", "train_steps_per_second"}:
            if isinstance(entry[key], (int, float)) and not math.isnan(entry[key]):
                assert other[key] == pytest.approx(entry[key], rel=2e-3, abs=1e-4), key
