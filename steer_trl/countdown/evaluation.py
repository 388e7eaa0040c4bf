"""Held-out problems, sampled many times: accuracy, pass@k and the number of different right solutions."""

from dataclasses import dataclass

import torch
from transformers import GenerationConfig, PreTrainedModel, PreTrainedTokenizerFast

from steer_trl.countdown.task import MAX_COMPLETION_TOKENS, is_right
from steer_trl.evaluation import mean_and_interval, pass_at_k


@dataclass(frozen=True)
class Sampling:
    """How completions are drawn; `num_samples = 1` with `temperature = 0` is greedy."""

    num_samples: int
    temperature: float = 1.0
    top_p: float = 1.0


def sample(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, prompts: list[str], how: Sampling, seed: int = 0
) -> list[list[str]]:
    """Draw completions, `how.num_samples` for each prompt; the random state of a training run is left alone."""
    drawing = {"do_sample": True, "temperature": how.temperature, "top_p": how.top_p, "top_k": 0}
    config = GenerationConfig(
        max_new_tokens=MAX_COMPLETION_TOKENS,
        num_return_sequences=how.num_samples,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        **(drawing if how.temperature else {"do_sample": False}),
    )
    inputs = tokenizer(prompts, return_tensors="pt", padding=True, return_token_type_ids=False)
    with torch.random.fork_rng(devices=[]), torch.no_grad():
        torch.manual_seed(seed)
        tokens = model.generate(**inputs, generation_config=config)[:, inputs["input_ids"].size(1) :]
    texts = tokenizer.batch_decode(tokens, skip_special_tokens=True)
    return [texts[i : i + how.num_samples] for i in range(0, len(texts), how.num_samples)]


def evaluate(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, prompts: list[str], how: Sampling
) -> dict[str, list[float]]:
    """Return each metric as (mean over problems, half width of the 95 % interval).

    `accuracy` is the share of right samples, `pass@k` is given for the powers of 4 up to the number of samples, and
    `distinct` is the number of different right solutions among the samples of a problem.
    """
    samples = sample(model, tokenizer, prompts, how)
    right = [
        [text for text in texts if is_right(prompt, text)] for prompt, texts in zip(prompts, samples, strict=True)
    ]
    metrics = {"accuracy": [len(texts) / how.num_samples for texts in right]}
    for k in (4, 16, 64):
        if k <= how.num_samples:
            metrics[f"pass@{k}"] = [pass_at_k(how.num_samples, len(texts), k) for texts in right]
    metrics["distinct"] = [float(len(set(texts))) for texts in right]
    return {name: list(mean_and_interval(values)) for name, values in metrics.items()}
