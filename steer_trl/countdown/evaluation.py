"""Held-out problems, sampled many times: accuracy, pass@k and the number of different right solutions."""

import torch
from transformers import GenerationConfig, PreTrainedModel, PreTrainedTokenizerFast

from steer_trl.countdown.task import MAX_COMPLETION_TOKENS, is_right
from steer_trl.evaluation import Sampling, mean_and_interval, pass_at_k
from steer_trl.evaluation.backends import generation_settings
from steer_trl.randomness import kept_random_state


def how(temperature: float = 1.0, top_p: float = 1.0) -> Sampling:
    """A sampling whose completions are as long as the task allows."""
    return Sampling(temperature=temperature, top_p=top_p, max_tokens=MAX_COMPLETION_TOKENS)


def sample(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
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
        tokens = model.generate(**inputs, generation_config=config)[:, inputs["input_ids"].size(1) :]
    texts = tokenizer.batch_decode(tokens, skip_special_tokens=True)
    return [texts[i : i + num_samples] for i in range(0, len(texts), num_samples)]


def evaluate(
    model: PreTrainedModel,
    tokenizer: PreTrainedTokenizerFast,
    prompts: list[str],
    num_samples: int,
    sampling: Sampling,
) -> dict[str, list[float]]:
    """Return each metric as (mean over problems, half width of the 95 % interval).

    `accuracy` is the share of right samples, `pass@k` is given for the powers of 4 up to the number of samples, and
    `distinct` is the number of different right solutions among the samples of a problem.
    """
    samples = sample(model, tokenizer, prompts, num_samples, sampling)
    right = [
        [text for text in texts if is_right(prompt, text)] for prompt, texts in zip(prompts, samples, strict=True)
    ]
    metrics = {"accuracy": [len(texts) / num_samples for texts in right]}
    for k in (4, 16, 64):
        if k <= num_samples:
            metrics[f"pass@{k}"] = [pass_at_k(num_samples, len(texts), k) for texts in right]
    metrics["distinct"] = [float(len(set(texts))) for texts in right]
    return {name: list(mean_and_interval(values)) for name, values in metrics.items()}


# Loss of entropy alone lifts accuracy at temperature 1, so the papers' top-p 0.7 and greedy stand beside it.
SAMPLINGS = {"T=1": (16, how()), "top-p 0.7": (16, how(top_p=0.7)), "greedy": (1, how(temperature=0.0))}


def evaluate_all(
    model: PreTrainedModel, tokenizer: PreTrainedTokenizerFast, prompts: list[str]
) -> dict[str, dict[str, list[float]]]:
    """[`evaluate`] under each of `SAMPLINGS`."""
    return {name: evaluate(model, tokenizer, prompts, *drawn) for name, drawn in SAMPLINGS.items()}
