"""Training runs that take a second on a CPU: their settings, model, prompts and reward."""

import torch
from datasets import Dataset
from transformers import Qwen2Config, Qwen2ForSequenceClassification

from steer_trl import SteerGRPOTrainer
from steer_trl.demo.tiny import tiny_qwen2, tiny_tokenizer

CHARACTERS = "0123456789+="
ON_CPU = {"use_cpu": True, "bf16": False}
QUIET = {"logging_steps": 1, "save_strategy": "no", "report_to": "none", "disable_tqdm": True}
TINY_RUN = ON_CPU | QUIET | {"gradient_checkpointing": False, "max_steps": 4, "learning_rate": 1e-2}
TINY_RUN |= {"per_device_train_batch_size": 4, "per_device_eval_batch_size": 4, "gradient_accumulation_steps": 2}
TINY_RUN |= {"num_generations": 4, "max_completion_length": 8}
OPEN_STARE = {"advantage_shaping": "stare", "stare_target_entropy": 100.0}  # its gate is open


def save_tiny_model(folder, characters=None, **sizes):
    """Save a model and its tokenizer, as a user would have on disk; return the folder."""
    tokenizer = tiny_tokenizer(characters)
    tiny_qwen2(tokenizer, **sizes).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return folder


def save_judge(folder):
    """Save a model that rewards texts, and its tokenizer."""
    save_tiny_model(folder, CHARACTERS)
    config = Qwen2Config.from_pretrained(folder, num_labels=1)
    with torch.random.fork_rng():
        torch.manual_seed(0)
        Qwen2ForSequenceClassification(config).save_pretrained(folder)


def sums():
    return Dataset.from_dict({"prompt": [f"{i}+{j}=" for i in range(10) for j in range(3)]})


def count_reward(completions, **_):
    """Many different values, so that every group has advantages of both signs."""
    return [text.count("1") + 0.5 * text.count("3") - 0.1 * text.count("7") for text in completions]


def has_one(completions, **_):
    """Two values."""
    return [float("1" in text) for text in completions]


def same_parameters(one, other):
    """Whether two trainers' models are equal bit for bit."""
    pairs = zip(one.model.parameters(), other.model.parameters(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)


class Watching(SteerGRPOTrainer):
    """Keeps each rollout, before it is shuffled, and counts the completions that get a pass of their own."""

    scored = 0

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.written = []
        self.score, self.parts.rollouts.score = self.parts.rollouts.score, self.count

    def _generate_and_score_completions(self, inputs):
        self.written.append(super()._generate_and_score_completions(inputs))
        return self.written[-1]

    def count(self, rollout):
        self.scored += len(rollout["completion_ids"])
        return self.score(rollout)


class Spy(SteerGRPOTrainer):
    """Records what TRL's own loss reads, and whether our copy of the inputs was the only thing written to."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.seen, self.shape, self.parts.step.shape = [], self.parts.step.shape, self.watch

    def compute_loss(self, model, inputs, **kwargs):
        before = dict(inputs)
        raw = inputs["advantages"].clone()
        loss = super().compute_loss(model, inputs, **kwargs)
        assert inputs.keys() == before.keys() and all(inputs[key] is before[key] for key in before)
        assert torch.equal(inputs["advantages"], raw) and raw.dim() == 1
        return loss

    def watch(self, inputs, score):
        raw = inputs["advantages"]
        self.shape(inputs, score)
        logps, entropies, _ = score
        old_logps = inputs.get("old_per_token_logps", logps)
        self.seen.append((raw, inputs["advantages"], logps, old_logps, entropies, inputs))


def of_method(method, **options):
    """The setting that gives a method its options."""
    return {"shaping_options": {method: options}}
