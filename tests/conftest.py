"""A character tokenizer, a two-layer Qwen2 made in memory, and short training runs on them."""

import importlib
import os
import sys
import tempfile
from pathlib import Path

os.environ["HF_HUB_OFFLINE"] = "1"
os.environ["TRL_EXPERIMENTAL_SILENCE"] = "1"  # rollout_func is experimental; its warning says nothing about us
os.environ.setdefault("TOKENIZERS_PARALLELISM", "false")

from jaxtyping import install_import_hook

# Types and shapes of the annotations are checked at each call; an int is a float.
CHECKER = "beartype.beartype(conf=beartype.BeartypeConf(is_pep484_tower=True))"
install_import_hook(
    ["steer_trl.monitoring", "steer_trl.entropy", "steer_trl.functional", "steer_trl.shaping"], CHECKER
)

import pytest
import torch
from filelock import FileLock
from hypothesis import settings
from support.runs import CHARACTERS, TINY_RUN, count_reward, save_tiny_model, sums
from transformers import PrinterCallback
from trl import GRPOConfig, GRPOTrainer

from steer_trl import SteerGRPOConfig, SteerGRPOTrainer
from steer_trl.demo.tiny import tiny_tokenizer

torch.set_num_threads(1)
settings.register_profile("steer_trl", deadline=None)  # a slow machine is not a failure
settings.load_profile("steer_trl")

LONGEST = ["notebooks", "distributed"]  # folders, longest first


def pytest_collection_modifyitems(items):
    """Begin with the longest files, so that several workers end at about the same time."""
    items.sort(key=lambda item: (*LONGEST, item.path.parent.name).index(item.path.parent.name))


def pytest_collection_finish():
    importlib.import_module("support.frozen")


@pytest.fixture(autouse=True)
def import_path(monkeypatch):
    """Forget the folders that a test's command line adds: a later test's module may have the same name."""
    monkeypatch.setattr(sys, "path", list(sys.path))


@pytest.fixture(scope="session")
def tokenizer():
    return tiny_tokenizer(CHARACTERS)


@pytest.fixture(scope="session")
def model_dir(tmp_path_factory):
    return str(save_tiny_model(tmp_path_factory.mktemp("model"), CHARACTERS))


@pytest.fixture(scope="session")
def prompts():
    return sums()


@pytest.fixture
def make_trainer(tmp_path, model_dir, tokenizer, prompts):
    """Build a trainer: `make_trainer(SteerGRPOTrainer, advantage_shaping="stare", ...)`."""

    def make(trainer_class=GRPOTrainer, *, model=None, trainer_arguments=None, **fields):
        config_class = GRPOConfig
        if issubclass(trainer_class, SteerGRPOTrainer):
            config_class = SteerGRPOConfig
            fields = {"skip_padding": False} | fields  # passes as TRL makes them, for what is equal to the last bit
        arguments = {"reward_funcs": count_reward, "train_dataset": prompts, "processing_class": tokenizer}
        trainer = trainer_class(
            model=model_dir if model is None else model,
            args=config_class(**TINY_RUN | {"output_dir": str(tmp_path / "run")} | fields),
            **arguments | (trainer_arguments or {}),
        )
        trainer.remove_callback(PrinterCallback)
        return trainer

    return make


@pytest.fixture
def train(make_trainer):
    def run(*args, **kwargs):
        trainer = make_trainer(*args, **kwargs)
        trainer.train()
        return trainer

    return run


@pytest.fixture
def default_port():
    """Accelerate's default port, 29500. A test whose command starts several processes on it must be the only one."""
    with FileLock(Path(tempfile.gettempdir()) / "steer_trl_port_29500.lock"):
        yield
