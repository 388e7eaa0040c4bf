"""The trainer's own engine, vLLM or Transformers, as what a benchmark draws with."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from transformers import GenerationConfig

from steer_trl.evaluation.backends import generation_settings, until_eos
from steer_trl.evaluation.sampling import Completion, Prompt, Sampling
from steer_trl.randomness import kept_random_state
from steer_trl.trainer.trl import GRPOTrainer, draw, tokenizer_of
from steer_trl.trainer.vllm_server import naming_server


class TrainerGenerator:
    """Draws with the trainer's own engine, vLLM or Transformers, under the evaluation's sampling."""

    is_collective = True  # sharded weights are gathered, and vLLM's ranks wait for each other

    def __init__(self, trainer: GRPOTrainer) -> None:
        self.trainer = trainer

    @property
    def needs_equal_batches(self) -> bool:
        """With vLLM TRL deals the completions of several ranks out, each as many."""
        return self.trainer.use_vllm and self.trainer.accelerator.num_processes > 1

    def __call__(self, prompts: Sequence[Prompt], sampling: Sampling, seed: int) -> list[Completion]:
        """Draw one completion for each prompt. vLLM draws from the stream of its engine, not from `seed`."""
        trainer = self.trainer
        device = trainer.accelerator.device
        was_training = trainer.model.training
        trainer.model.eval()
        with (
            kept_random_state(device),
            self._engine_samples(sampling),
        ):
            torch.manual_seed(seed)
            with naming_server(trainer):
                drawn = draw(trainer, prompts)
        trainer.model.train(was_training)
        return [until_eos(ids, trainer.eos_token_ids, tokenizer_of(trainer)) for ids in drawn]

    @contextmanager
    def _engine_samples(self, sampling: Sampling) -> Iterator[None]:
        """Put the evaluation's sampling, all of it, in the place of the training's, where TRL's engines read it."""
        trainer = self.trainer
        if trainer.use_vllm:
            changes: list[tuple[object, dict[str, Any]]] = [(trainer.vllm_generation, _vllm_settings(sampling))]
        else:
            tokens = {"eos_token_id": trainer.eos_token_ids, "pad_token_id": tokenizer_of(trainer).pad_token_id}
            settings = generation_settings(sampling) | tokens
            config = GenerationConfig(**settings, disable_compile=True)
            model = trainer.accelerator.unwrap_model(trainer.model)
            # `generate` fills what the configuration leaves open from the model's own.
            changes = [
                (trainer, {"generation_config": config, "generation_kwargs": settings}),
                (model, {"generation_config": GenerationConfig(**tokens)}),
            ]
        before = [(owner, {name: getattr(owner, name) for name in values}) for owner, values in changes]
        try:
            for owner, values in changes:
                vars(owner).update(values)
            yield
        finally:
            for owner, values in before:
                vars(owner).update(values)


def _vllm_settings(sampling: Sampling) -> dict[str, Any]:
    """Return a sampling in the words of TRL's `VLLMGeneration`."""
    return {
        "temperature": sampling.temperature,
        "top_p": sampling.top_p,
        "top_k": sampling.top_k,
        "min_p": None,
        "repetition_penalty": 1.0,
        "max_completion_length": sampling.max_tokens,
        "generation_kwargs": {},
        "structured_outputs_regex": None,
    }
