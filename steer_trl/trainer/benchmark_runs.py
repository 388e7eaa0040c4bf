"""Runs math benchmarks with TRL's generation engine whenever TRL evaluates.

The results are added to TRL's metrics.
"""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from transformers import GenerationConfig
from transformers.trainer_utils import EvalLoopOutput

from steer_trl.evaluation import BenchmarkEvaluation
from steer_trl.evaluation.backends import cut_at_eos, generation_settings
from steer_trl.evaluation.sampling import Completion, Prompt, Sampling
from steer_trl.support.randomness import keep_random_state
from steer_trl.trainer.trl import GRPOTrainer, draw, tokenizer_of


class BenchmarkRuns:
    """Runs the benchmarks of a `trainer` after its evaluation on `eval_dataset`, or alone if it has none."""

    def __init__(self, trainer: GRPOTrainer, evaluation: BenchmarkEvaluation | None, beside_rewards: bool) -> None:
        self._trainer = trainer
        self._evaluation = evaluation
        self._beside_rewards = beside_rewards

    def run_beside(self, dataloader: Any, prefix: str, loop: Callable[[], EvalLoopOutput]) -> EvalLoopOutput:
        """Run TRL's evaluation `loop` over the `dataloader`, and the benchmarks if they are due.

        Return the output of the loop with the metrics of the benchmarks added.

        The benchmarks run once per evaluation, together with the trainer's own `eval_dataset`. If the trainer has
        several evaluation sets, the benchmarks run together with the first.
        """
        trainer = self._trainer
        eval_dataset = trainer.eval_dataset
        name, first = next(iter(eval_dataset.items())) if isinstance(eval_dataset, dict) else ("", eval_dataset)
        # The data loader of a streamed data set holds a shard, whose attribute `dataset` is the data set.
        data = getattr(dataloader.dataset, "dataset", dataloader.dataset)
        if self._evaluation is None or data is not first or not prefix.endswith(name):
            return loop()
        if self._beside_rewards:
            output = loop()
        else:
            # TRL logs metrics as evaluation metrics only while the model is in evaluation mode.
            trainer.model.eval()
            output = EvalLoopOutput(np.empty(0), None, {}, self._evaluation.num_samples)
        generator = TrainerGenerator(trainer)
        measured = self._evaluation(
            generator,
            trainer.args.output_dir,
            trainer.state.global_step,
            trainer.args.per_device_eval_batch_size,
            writes=trainer.is_world_process_zero(),
            about=generator.settings,
        )
        prefix = prefix.removesuffix(f"_{name}")
        return output._replace(
            metrics=(output.metrics or {}) | {f"{prefix}_{key}": value for key, value in measured.items()}
        )


class TrainerGenerator:
    """Generates with the trainer's engine (vLLM or Transformers) and the evaluation's sampling settings."""

    # Every rank must generate, because sharded weights are gathered, and with vLLM the ranks wait for each other.
    is_collective = True

    def __init__(self, trainer: GRPOTrainer) -> None:
        self.trainer = trainer

    @property
    def settings(self) -> dict[str, Any]:
        """The settings that completions depend on, apart from the sampling, under the names of `steer-trl eval`."""
        trainer = self.trainer
        template = getattr(trainer, "chat_template_kwargs", None)
        name = getattr(getattr(trainer.model, "config", None), "_name_or_path", None)
        settings: dict[str, Any] = {
            # The file is pushed, and where a folder lies on this machine is private.
            "model_name_or_path": Path(name).name if name and Path(name).is_dir() else name,
            "backend": "vllm" if trainer.use_vllm else "transformers",
            "eos_token_ids": sorted(set(trainer.eos_token_ids)),
        }
        return settings | ({"chat_template_kwargs": template} if template else {})

    @property
    def needs_equal_batches(self) -> bool:
        """Whether every rank must pass the same number of prompts.

        With several ranks, TRL splits vLLM's completions evenly.
        """
        return self.trainer.use_vllm and self.trainer.accelerator.num_processes > 1

    def __call__(self, prompts: Sequence[Prompt], sampling: Sampling, seed: int) -> list[Completion]:
        """Generate one completion for each prompt.

        `seed` has no effect with vLLM, whose engine has its own seed.
        """
        trainer = self.trainer
        was_training = trainer.model.training
        trainer.model.eval()
        with keep_random_state(trainer.accelerator.device), self._engine_samples(sampling):
            torch.manual_seed(seed)
            completions = draw(trainer, prompts)
        trainer.model.train(was_training)
        return [cut_at_eos(ids, trainer.eos_token_ids, tokenizer_of(trainer)) for ids in completions]

    @contextmanager
    def _engine_samples(self, sampling: Sampling) -> Iterator[None]:
        """Inside the `with` block, use the evaluation's sampling settings instead of the training settings."""
        trainer = self.trainer
        if trainer.use_vllm:
            settings: dict[str, Any] = {"min_p": None, "repetition_penalty": 1.0, "structured_outputs_regex": None}
            settings |= {name: getattr(sampling, name) for name in ("temperature", "top_p", "top_k")}
            settings |= {"max_completion_length": sampling.max_tokens, "generation_kwargs": {}}
            changes: list[tuple[object, dict[str, Any]]] = [(trainer.vllm_generation, settings)]
        else:
            tokens = {"eos_token_id": trainer.eos_token_ids, "pad_token_id": tokenizer_of(trainer).pad_token_id}
            settings = generation_settings(sampling) | tokens
            config = GenerationConfig(**settings, disable_compile=True)
            model = trainer.accelerator.unwrap_model(trainer.model)
            # If this configuration leaves a value unset, `generate` takes it from the model's own configuration. So
            # both configurations are replaced.
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
