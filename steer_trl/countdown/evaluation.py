"""Held-out problems, sampled many times: accuracy, pass@k and the number of different correct solutions."""

from pathlib import Path
from typing import Any

import torch
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    GenerationConfig,
    PreTrainedModel,
    PreTrainedTokenizerBase,
)

from steer_trl.countdown.task import MAX_COMPLETION_TOKENS, is_correct, split_problems
from steer_trl.evaluation import Sampling, mean_and_interval, pass_at_k
from steer_trl.evaluation.backends import generation_settings
from steer_trl.randomness import kept_random_state

MEASURED = "measured.json"
"""File in a run's folder with what was measured: `final` and `problems`, of [`measure_saved`], and more of a training.
"""


def task_sampling(temperature: float = 1.0, top_p: float = 1.0) -> Sampling:
    """A sampling whose completions are as long as the task allows."""
    return Sampling(temperature=temperature, top_p=top_p, max_tokens=MAX_COMPLETION_TOKENS)


def sample(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    prompts: list[str],
    num_samples: int,
    sampling: Sampling,
) -> list[list[str]]:
    """Draw `num_samples` completions of each prompt; the random state of a training run is left alone."""
    tokens = {"pad_token_id": tokenizer.pad_token_id, "eos_token_id": tokenizer.eos_token_id}
    config = GenerationConfig(**generation_settings(sampling), **tokens, num_return_sequences=num_samples)
    inputs = tokenizer(prompts, return_tensors="pt", padding=True, return_token_type_ids=False).to(model.device)
    with kept_random_state(model.device), torch.no_grad():
        torch.manual_seed(sampling.seed)
        # Transformers types `generate` for its own checker only.
        drawn = model.generate(**inputs, generation_config=config)  # type: ignore[operator]
    texts = tokenizer.batch_decode(drawn[:, inputs["input_ids"].size(1) :], skip_special_tokens=True)
    return [texts[i : i + num_samples] for i in range(0, len(texts), num_samples)]


def measure(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerBase,
    prompts: list[str],
    num_samples: int,
    sampling: Sampling,
) -> dict[str, list[float]]:
    """Return each metric's value for every problem.

    `accuracy` is the share of correct samples, `pass@k` is given for the powers of 4 up to the number of samples, and
    `distinct` is the number of different correct solutions among the samples of a problem.
    """
    samples = sample(model, tokenizer, prompts, num_samples, sampling)
    correct = [
        [text for text in texts if is_correct(prompt, text)] for prompt, texts in zip(prompts, samples, strict=True)
    ]
    metrics = {"accuracy": [len(texts) / num_samples for texts in correct]}
    for k in (4, 16, 64):
        if k <= num_samples:
            metrics[f"pass@{k}"] = [pass_at_k(num_samples, len(texts), k) for texts in correct]
    metrics["distinct"] = [float(len(set(texts))) for texts in correct]
    return metrics


def evaluate(*given: Any) -> dict[str, list[float]]:
    """[`measure`], and return each metric as (mean over problems, half width of the 95 % interval)."""
    return summarize(measure(*given))


def summarize(metrics: dict[str, list[float]]) -> dict[str, list[float]]:
    """Each metric as (mean over problems, half width of the 95 % interval)."""
    return {name: list(mean_and_interval(values)) for name, values in metrics.items()}


# Loss of entropy alone lifts accuracy at temperature 1, so the papers' top-p 0.7 and greedy stand beside it.
SAMPLINGS = {
    "T=1": (16, task_sampling()),
    "top-p 0.7": (16, task_sampling(top_p=0.7)),
    "greedy": (1, task_sampling(temperature=0.0)),
}


def measure_saved(folder: str | Path, num_held_out: int) -> dict[str, Any]:
    """[`measure`] the model that `folder` holds under each of `SAMPLINGS`: `problems`, and the means `final`."""
    model, tokenizer = AutoModelForCausalLM.from_pretrained(folder), AutoTokenizer.from_pretrained(folder)
    prompts = split_problems(num_held_out)[0]
    problems = {name: measure(model, tokenizer, prompts, *drawn) for name, drawn in SAMPLINGS.items()}
    return {"final": {name: summarize(metrics) for name, metrics in problems.items()}, "problems": problems}
