"""Shared parts: a character tokenizer, a two-layer Qwen2 made in memory, and short training runs on them."""

import os

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"  # rollout_func is experimental; its warning says nothing about us
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

import json
from pathlib import Path

import pytest
import torch
from datasets import Dataset
from hypothesis import settings
from transformers import PrinterCallback
from trl import GRPOConfig, GRPOTrainer

from steer_trl import SteerGRPOConfig, SteerGRPOTrainer
from steer_trl.tiny import tiny_qwen2, tiny_tokenizer

torch.set_num_threads(1)
settings.register_profile("steer_trl", deadline=None)  # a slow machine is not a failure
settings.load_profile("steer_trl")

SHARED = Path(__file__).parents[2] / "shared"
CHARACTERS = "0123456789+="


@pytest.fixture(scope="session")
def tokenizer():
    return tiny_tokenizer(CHARACTERS)


@pytest.fixture(scope="session")
def model_dir(tokenizer, tmp_path_factory):
    """A saved model and tokenizer, as a user would have on disk."""
    folder = tmp_path_factory.mktemp("model")
    tiny_qwen2(tokenizer).save_pretrained(folder)
    tokenizer.save_pretrained(folder)
    return str(folder)


@pytest.fixture(scope="session")
def vectors():
    """Inputs and outputs of the authors' released functions and of the papers' formulas."""
    return json.loads((Path(__file__).parent / "data/released_code.json").read_text())


@pytest.fixture(scope="session")
def prompts():
    return Dataset.from_dict({"prompt": [f"{i}+{j}=" for i in range(10) for j in range(3)]})


def count_reward(completions, **_):
    """Many different values, so that every group has advantages of both signs."""
    return [text.count("1") + 0.5 * text.count("3") - 0.1 * text.count("7") for text in completions]


@pytest.fixture
def make_trainer(tmp_path, model_dir, tokenizer, prompts):
    """Build a trainer: `make_trainer(SteerGRPOTrainer, advantage_shaping="stare", ...)`."""

    def make(trainer_class=GRPOTrainer, *, model=None, trainer_arguments=None, **fields):
        config_class = SteerGRPOConfig if issubclass(trainer_class, SteerGRPOTrainer) else GRPOConfig
        defaults = {
            "output_dir": str(tmp_path / "run"),
            "per_device_train_batch_size": 4,
            "per_device_eval_batch_size": 4,
            "gradient_accumulation_steps": 2,
            "num_generations": 4,
            "max_completion_length": 8,
            "max_steps": 4,
            "learning_rate": 1e-2,
            "use_cpu": True,
            "bf16": False,
            "gradient_checkpointing": False,
            "logging_steps": 1,
            "save_strategy": "no",
            "report_to": "none",
            "disable_tqdm": True,
        }
        arguments = {"reward_funcs": count_reward, "train_dataset": prompts, "processing_class": tokenizer}
        trainer = trainer_class(
            model=model or model_dir,
            args=config_class(**defaults | fields),
            **arguments | (trainer_arguments or {}),
        )
        trainer.remove_callback(PrinterCallback)
        return trainer

    return make


@pytest.fixture
def train(make_trainer):
    """Build a trainer and train it; the trainer comes back."""

    def run(*args, **kwargs):
        trainer = make_trainer(*args, **kwargs)
        trainer.train()
        return trainer

    return run


def same_parameters(one, other):
    """Whether two trainers' models are equal bit for bit."""
    pairs = zip(one.model.parameters(), other.model.parameters(), strict=True)
    return all(torch.equal(a, b) for a, b in pairs)
