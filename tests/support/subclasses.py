"""What users override in TRL's trainer, one mixin for each hook, and runs that differ only by their class.

Completions are drawn from a seed that depends on the step alone, so a run is not about generation.
"""

import random

import torch
from datasets import Dataset
from torch.utils.data import DataLoader
from trl import GRPOConfig, GRPOTrainer
from trl.trainer.utils import RepeatSampler

from steer_trl import SteerGRPOConfig, SteerGRPOTrainer
from steer_trl.demo.tiny import tiny_qwen2, tiny_tokenizer
from support.runs import CHARACTERS, ON_CPU, QUIET, sums

TOKENIZER = tiny_tokenizer(CHARACTERS)
SGD = {"learning_rate": 0.5, "optim": "sgd", "max_grad_norm": 1e9, "lr_scheduler_type": "constant"}
RUN = ON_CPU | QUIET | SGD | {"gradient_checkpointing": False, "max_steps": 3, "max_completion_length": 24}
RUN |= {"per_device_train_batch_size": 8, "gradient_accumulation_steps": 2, "num_generations": 4}


def counted(completions, **_):
    return [text.count("1") + 0.5 * text.count("3") - 0.1 * text.count("7") for text in completions]


def pass_over(trainer, model, inputs, completions=None, **others):
    """A forward pass of a subclass's own, over the completions or over other tokens."""
    completions = inputs["completion_ids"] if completions is None else completions
    ids = torch.cat([inputs["prompt_ids"], completions], 1)
    mask = torch.cat([inputs["prompt_mask"], inputs["completion_mask"]], 1)
    return trainer._get_per_token_logps_and_entropies(model, ids, mask, completions.size(1), **others)


class OwnLoss:
    """REINFORCE, without a call of TRL's loss; entropies are not asked for."""

    def _compute_loss(self, model, inputs):
        logps, *_ = pass_over(self, model, inputs)
        mask = inputs["completion_mask"]
        advantages = inputs["advantages"].view(len(mask), -1)
        loss = -((advantages * logps * mask).sum(1) / mask.sum(1)).mean()
        return loss / self.current_gradient_accumulation_steps


class LossBefore:
    """An auxiliary loss over other tokens, computed before TRL's."""

    weight = 0.1

    def compute_loss(self, model, inputs, *args, **kwargs):
        logps, *_ = pass_over(self, model, inputs, inputs["completion_ids"].flip(1))
        own = self.weight * logps.mean() if self.weight else 0.0
        return super().compute_loss(model, inputs, *args, **kwargs) + own


class LossAfter:
    """An auxiliary loss over other tokens, computed after TRL's."""

    weight = 0.1

    def compute_loss(self, model, inputs, *args, **kwargs):
        loss = super().compute_loss(model, inputs, *args, **kwargs)
        logps, *_ = pass_over(self, model, inputs, inputs["completion_ids"].flip(1), compute_entropy=True)
        return loss + (self.weight * logps.mean() if self.weight else 0.0)


class Look(LossBefore):
    weight = 0.0


class LookAfter(LossAfter):
    weight = 0.0


class LookInside:
    """Looks at other tokens in `_compute_loss`, before and after TRL's."""

    def _compute_loss(self, model, inputs):
        self.look(model, inputs)
        loss = super()._compute_loss(model, inputs)
        self.look(model, inputs)
        return loss

    @torch.no_grad()
    def look(self, model, inputs):
        pass_over(self, model, inputs, inputs["completion_ids"].flip(1), compute_entropy=True)


class LookAtRollout:
    """Looks at other tokens, before and after TRL makes a rollout."""

    last = None

    def _generate_and_score_completions(self, inputs):
        self.look()
        self.last = super()._generate_and_score_completions(inputs)
        self.look()
        return self.last

    @torch.no_grad()
    def look(self):
        if self.last is not None:
            pass_over(self, self.model, self.last, self.last["completion_ids"].flip(1), compute_entropy=True)


class RowsLeftOut:
    """The first completion of each micro-batch is not trained on."""

    def compute_loss(self, model, inputs, *args, **kwargs):
        count = len(inputs["completion_ids"])
        kept = {
            name: x[1:] if isinstance(x, torch.Tensor) and x.dim() and len(x) == count else x
            for name, x in inputs.items()
        }
        return super().compute_loss(model, kept, *args, **kwargs)


class InHalves:
    """TRL's loss of each half of a micro-batch; their sum is that of the whole with `loss_type="dapo"`."""

    def _compute_loss(self, model, inputs):
        count = len(inputs["completion_ids"])
        losses = []
        for half in (slice(0, count // 2), slice(count // 2, count)):
            rows = {
                name: x[half] if isinstance(x, torch.Tensor) and x.dim() and len(x) == count else x
                for name, x in inputs.items()
            }
            losses.append(super()._compute_loss(model, rows))
        return sum(losses)


class HolesInMask:
    """Some tokens inside each completion are left out, from the second rollout on."""

    def _generate_and_score_completions(self, inputs):
        rollout = super()._generate_and_score_completions(inputs)
        if self.model.training and self.state.global_step:
            mask = rollout["completion_mask"].clone()
            mask[:, 2:5] = 0
            rollout["completion_mask"] = mask
        return rollout


class CutCompletions:
    """Each completion is cut after three tokens."""

    def _generate(self, prompts):
        prompt_ids, ids, mask, _, *rest = super()._generate(prompts)
        ids = [row[:3] for row in ids]
        texts = self.processing_class.batch_decode(ids, skip_special_tokens=True)
        return prompt_ids, ids, mask, texts, *rest


class OtherRewards:
    def _calculate_rewards(self, *args, **kwargs):
        return 1 - super()._calculate_rewards(*args, **kwargs)


class OwnAdvantages:
    """Advantages from a baseline of the subclass's own, set after TRL's."""

    def _calculate_rewards(self, *args, **kwargs):
        self.rewards = super()._calculate_rewards(*args, **kwargs)
        return self.rewards

    def _generate_and_score_completions(self, inputs):
        rollout = super()._generate_and_score_completions(inputs)
        rollout["advantages"] = (self.rewards.sum(1) - 0.3).to(rollout["advantages"])
        return rollout


class OwnSampler:
    """Prompts in the reverse order."""

    def _get_train_sampler(self, dataset=None):
        class Reversed(RepeatSampler):
            def __iter__(self):
                return iter([len(self.data_source) - 1 - number for number in super().__iter__()])

        repeats = self.num_iterations * self.args.steps_per_generation
        prompts = self.args.generation_batch_size // self.num_generations
        return Reversed(self.train_dataset, self.num_generations, prompts, repeats, shuffle=False)


class OwnLoader:
    """Batches from a list, without a sampler."""

    def get_train_dataloader(self):
        batch = self.args.per_device_train_batch_size * self.args.steps_per_generation
        numbers = [n for n in range(len(self.train_dataset)) for _ in range(self.num_generations)]
        batches = [numbers[i : i + batch] for i in range(0, len(numbers) - batch + 1, batch)]
        return DataLoader(self.train_dataset, batch_sampler=batches, collate_fn=list)


class OwnPass:
    """Other log-probabilities and entropies than the model's."""

    def _get_per_token_logps_and_entropies(self, *args, **kwargs):
        logps, entropies, other = super()._get_per_token_logps_and_entropies(*args, **kwargs)
        return 0.9 * logps, None if entropies is None else entropies + 1, other


class Idle:
    """Every hook is overridden, and nothing is changed."""

    def _generate(self, *args, **kwargs):
        return super()._generate(*args, **kwargs)

    def _calculate_rewards(self, *args, **kwargs):
        return super()._calculate_rewards(*args, **kwargs)

    def _generate_and_score_completions(self, inputs):
        return dict(super()._generate_and_score_completions(inputs))

    def _get_per_token_logps_and_entropies(self, *args, **kwargs):
        return super()._get_per_token_logps_and_entropies(*args, **kwargs)

    def _prepare_inputs(self, inputs):
        return dict(super()._prepare_inputs(inputs))

    def training_step(self, *args, **kwargs):
        return super().training_step(*args, **kwargs)

    def compute_loss(self, model, inputs, *args, **kwargs):
        return super().compute_loss(model, dict(inputs), *args, **kwargs)

    def _compute_loss(self, model, inputs):
        return super()._compute_loss(model, dict(inputs))

    def _get_train_sampler(self, dataset=None):
        return super()._get_train_sampler(dataset)

    def get_train_dataloader(self):
        return super().get_train_dataloader()


CHANGING = {
    mixin.__name__: mixin
    for mixin in (
        *(OwnLoss, LossBefore, LossAfter, RowsLeftOut, HolesInMask, CutCompletions, OtherRewards, OwnAdvantages),
        *(OwnSampler, OwnLoader, OwnPass),
    )
}
"""Mixins that change what is trained."""
NEUTRAL = {mixin.__name__: mixin for mixin in (Idle, Look, LookAfter, LookInside, LookAtRollout)}
"""Mixins that change nothing."""


def below(mixin):
    """The mixin as a trainer of its own, which `class Mine(SteerGRPOTrainer, TheirTrainer)` puts next to TRL's."""
    return type(mixin.__name__, (mixin, GRPOTrainer), {})


def make(
    folder,
    base,
    *above,
    mixins=(),
    under=(),
    reward=counted,
    longest=20,
    arguments=None,
    rows=None,
    model=None,
    **settings,
):
    """A trainer of `base` with the classes `above` it (or `mixins`) and `under` it.

    Its completions have up to `longest` tokens.
    """
    config = SteerGRPOConfig if issubclass(base, SteerGRPOTrainer) else GRPOConfig
    if config is SteerGRPOConfig:
        settings = {"skip_padding": False, "terminal_log": "dict"} | settings
    trainer = type("Sub", (*above, *mixins, base, *under), {})(
        model=model or tiny_qwen2(TOKENIZER, initializer_range=0.15),
        args=config(str(folder), **RUN | settings),
        processing_class=TOKENIZER,
        reward_funcs=reward,
        train_dataset=sums() if rows is None else Dataset.from_dict({"prompt": rows}),
        **arguments or {},
    )
    dice = random.Random(0)

    def write(prompt_ids, *_, **__):
        rows = [
            [dice.randrange(4, len(TOKENIZER)) for _ in range(dice.randrange(3, longest))] + [TOKENIZER.eos_token_id]
            for _ in prompt_ids
        ]
        return rows, None

    trainer._generate_single_turn = write
    return trainer


def update_of(trainer):
    """Train, and return by how much the parameters have changed."""
    trained = [parameter for parameter in trainer.model.parameters() if parameter.requires_grad]
    before = torch.cat([parameter.detach().flatten().clone() for parameter in trained])
    trainer.train()
    return torch.cat([parameter.detach().flatten() for parameter in trained]) - before


def differ(one, other):
    """The relative difference of two updates."""
    return ((one - other).norm() / other.norm()).item()
