"""The same evaluation at intervals of a training run, with the engine that the run generates with."""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

import torch
from transformers import GenerationConfig

from steer_trl.evaluation.backends import generation_settings, until_eos
from steer_trl.evaluation.benchmarks import Benchmark, one_sample_if_greedy
from steer_trl.evaluation.evaluate import evaluate
from steer_trl.evaluation.records import Records
from steer_trl.evaluation.report import summarize
from steer_trl.evaluation.sampling import Completion, Sampling
from steer_trl.randomness import kept_random_state
from steer_trl.rewards import MathReward

if TYPE_CHECKING:
    from steer_trl.trainer import SteerGRPOTrainer


class BenchmarkEvaluation:
    """Evaluate on benchmarks whenever the trainer evaluates, and let the best checkpoint be chosen by them.

    The metrics go into TRL's log as `eval_aime24_avg@32`, `eval_aime24_pass@32`, `eval_aime24_maj@32`, ..., and
    `eval_average_avg` for the mean over benchmarks; `metric_for_best_model="aime24_avg@32"` selects on one. Every
    completion is written to `output_dir/benchmarks/step-N/`. `per_device_eval_batch_size` are drawn at once.

    Args:
        benchmarks (`Sequence[Benchmark]`): from [`~steer_trl.evaluation.load_benchmarks`].
        sampling ([`Sampling`]): how completions are drawn.
        judge ([`MathReward`], *optional*): whose verdict counts; it need not be the reward that is trained on.
    """

    def __init__(
        self, benchmarks: Sequence[Benchmark], sampling: Sampling | None = None, judge: MathReward | None = None
    ) -> None:
        self.sampling = sampling or Sampling()
        self.benchmarks = one_sample_if_greedy(benchmarks, self.sampling)
        self.judge = judge or MathReward()

    @property
    def num_samples(self) -> int:
        """Completions that one evaluation draws."""
        return sum(len(benchmark.dataset) * benchmark.num_samples for benchmark in self.benchmarks)

    def complaints(self, metric_for_best_model: str | None, has_other_metrics: bool) -> list[str]:
        """Say that no metric has the name that the best checkpoint is to be chosen by, if that is so."""
        entry = dict.fromkeys(("id", "correct", "answer", "vote", "timed_out", "truncated", "num_tokens"), 0)
        entries = [entry | {"benchmark": b.name} for b in self.benchmarks for _ in range(b.num_samples)]
        names = sorted(flatten(summarize(entries)))
        wanted = (metric_for_best_model or names[0]).removeprefix("eval_")
        if wanted in names or (has_other_metrics and "@" not in wanted):
            return []
        return [
            f"metric_for_best_model={metric_for_best_model!r} is refused: no benchmark measures it. Choose one of "
            f"{', '.join(names)}."
        ]

    def __call__(self, trainer: "SteerGRPOTrainer") -> dict[str, float]:
        """Return the metrics of the model as it is. Collective; moves no state of the training run."""
        records = None
        if trainer.is_world_process_zero():
            folder = Path(trainer.args.output_dir, "benchmarks", f"step-{trainer.state.global_step}")
            records = Records(folder, {"step": trainer.state.global_step}, overwrite=True)
        entries = evaluate(
            self.benchmarks,
            TrainerGenerator(trainer),
            self.judge,
            self.sampling,
            trainer.args.per_device_eval_batch_size,
            records,
            desc=f"Benchmarks at step {trainer.state.global_step}",
        )
        summary = summarize(entries)
        if records:
            records.write_summary(summary)
        return flatten(summary)


def flatten(summary: dict[str, Any]) -> dict[str, float]:
    """Return the means of a summary under one name each: `aime24_avg@32`, ..., `average_avg`."""
    rows = {name: row["metrics"] for name, row in summary["benchmarks"].items()}
    if len(rows) > 1:
        rows["average"] = summary["average"]
    return {f"{name}_{key}": mean for name, row in rows.items() for key, (mean, _) in row.items()}


class TrainerGenerator:
    """Draws with the trainer's own engine, vLLM or Transformers, under the evaluation's sampling."""

    is_collective = True  # sharded weights are gathered, and vLLM's ranks wait for each other

    def __init__(self, trainer: "SteerGRPOTrainer") -> None:
        self.trainer = trainer

    def __call__(self, prompts: Sequence[list[dict[str, Any]]], sampling: Sampling, seed: int) -> list[Completion]:
        """Draw one completion for each prompt. vLLM draws from the stream of its engine, not from `seed`."""
        trainer = self.trainer
        prompt_ids, images, fields = trainer._tokenize_prompts(list(prompts))
        device = trainer.accelerator.device
        was_training = trainer.model.training
        trainer.model.eval()
        with (
            kept_random_state(device),
            self._engine_samples(sampling),
        ):
            torch.manual_seed(seed)
            drawn, _ = trainer._generate_single_turn(prompt_ids, images, fields, num_generations=1)
        trainer.model.train(was_training)
        return [until_eos(list(ids), trainer.eos_token_ids, trainer._tokenizer) for ids in drawn]

    @contextmanager
    def _engine_samples(self, sampling: Sampling) -> Iterator[None]:
        """Put the evaluation's sampling, all of it, in the place of the training's, where TRL's engines read it."""
        trainer = self.trainer
        if trainer.use_vllm:
            changes = [(trainer.vllm_generation, _vllm_settings(sampling))]
        else:
            tokens = {"eos_token_id": trainer.eos_token_ids, "pad_token_id": trainer._tokenizer.pad_token_id}
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
