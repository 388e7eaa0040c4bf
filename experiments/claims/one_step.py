"""Measures, token by token, which quantities predict the entropy change of one optimizer step.

    python -m experiments.claims.one_step --model runs/claims/start

Each measurement takes a rollout of 512 completions with group advantages and makes one AdamW step on the plain policy
gradient. Training is on-policy, so every ratio is 1 and nothing is clipped. Then the entropy of the same tokens is
computed again. This is the setting of the papers' theory, so no trainer is needed. The measurement is repeated over
rollouts, and every mean has its 95 % interval over them.
"""

import argparse
import copy
import json
from pathlib import Path
from statistics import mean, stdev
from typing import Any, NamedTuple

import torch
from scipy import stats
from torch import Tensor
from tqdm import tqdm
from transformers import AutoModelForCausalLM, AutoTokenizer, GenerationConfig

from steer_trl.demo.puzzle import MAX_COMPLETION_TOKENS, is_correct, problems
from steer_trl.functional import (
    entropy_change,
    entropy_sensitivity,
    released_entropy_change,
    steer_statistic,
    steer_weights,
)

ROOT = Path(__file__).parents[2]
PROMPTS, GROUP = 64, 8
LEARNING_RATES = (1e-5, 2.5e-4)
FORK = 0.1  # nats; tokens with more entropy are called forks
SEQUENCES = 48  # the number of completions for which a separate step is made
HIGH, LOW = 0.8, 0.2  # STEER's bounds for the probabilities of likely and unlikely tokens
FRACTIONS = (0.05, 0.1, 0.2)


class Rollout(NamedTuple):
    """Completions with their prompts, the mask `[B, T]` of their tokens, and their advantages `[B, 1]`."""

    ids: Tensor
    attention: Tensor
    mask: Tensor
    advantages: Tensor


class Scored(NamedTuple):
    """The log-probability, entropy and exact entropy sensitivity of each completion token, `[B, T]`."""

    logps: Tensor
    entropies: Tensor
    sensitivities: Tensor


def rollout(model: Any, tokenizer: Any, prompts: list[str], seed: int) -> Rollout:
    """Sample a group of completions for each prompt at temperature 1, with rewards of 0 and 1."""
    inputs = tokenizer(prompts, return_tensors="pt", padding=True, padding_side="left", return_token_type_ids=False)
    torch.manual_seed(seed)
    config = GenerationConfig(
        do_sample=True,
        top_k=0,
        max_new_tokens=MAX_COMPLETION_TOKENS,
        num_return_sequences=GROUP,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
    )
    with torch.no_grad():
        ids = model.generate(**inputs, generation_config=config)
    start = inputs["input_ids"].size(1)
    texts = tokenizer.batch_decode(ids[:, start:], skip_special_tokens=True)
    rewards = torch.tensor([float(is_correct(prompts[i // GROUP], text)) for i, text in enumerate(texts)])
    groups = rewards.view(-1, GROUP)
    advantages = ((groups - groups.mean(1, keepdim=True)) / (groups.std(1, keepdim=True) + 1e-4)).view(-1, 1)
    ended = (ids[:, start:] == tokenizer.eos_token_id).cumsum(1)
    mask = (ended - (ids[:, start:] == tokenizer.eos_token_id).long()) == 0
    attention = torch.cat([inputs["attention_mask"].repeat_interleave(GROUP, 0), mask.long()], 1)
    return Rollout(ids, attention, mask, advantages)


def score(model: Any, seen: Rollout) -> Scored:
    """Compute the `Scored` numbers of every completion token.

    The log-probabilities have gradients if gradients are enabled.
    """
    length = seen.mask.size(1)
    positions = (seen.attention.cumsum(1) - 1).clamp(min=0)
    output = model(input_ids=seen.ids, attention_mask=seen.attention, position_ids=positions)
    logits = output.logits[:, -length - 1 : -1]
    tokens = seen.ids[:, -length:]
    logps = logits.log_softmax(-1)
    entropies = torch.special.entr(logps.detach().exp()).sum(-1)
    return Scored(logps.gather(-1, tokens.unsqueeze(-1)).squeeze(-1), entropies, entropy_sensitivity(logits, tokens))


def after_step(
    model: Any, seen: Rollout, weights: Tensor, learning_rate: float, look: Rollout | None = None
) -> Tensor:
    """Return the entropies of the tokens in `look` after a copy of the model makes one AdamW step.

    The step is on the weighted loss of `seen`, which is also the default of `look`.
    """
    moved = copy.deepcopy(model)
    optimizer = torch.optim.AdamW(moved.parameters(), lr=learning_rate, weight_decay=0.0)
    logps = score(moved, seen).logps
    loss = -((logps - logps.detach()).exp() * weights * seen.advantages)[seen.mask].sum() / seen.mask.sum()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(moved.parameters(), 1.0)
    optimizer.step()
    with torch.no_grad():
        return score(moved, seen if look is None else look).entropies


def predictors(scored: Scored, seen: Rollout) -> dict[str, Tensor]:
    """Return the predictors of a token's entropy change that are compared."""
    advantages = seen.advantages.expand_as(scored.logps)
    tokens = (scored.logps, scored.logps, scored.entropies, advantages)
    centered = scored.logps - scored.logps[seen.mask].mean()
    return {
        "paper": entropy_change(*tokens),
        "released": released_entropy_change(*tokens),
        "exact": entropy_change(*tokens, sensitivities=scored.sensitivities),
        "covariance": -centered * (advantages - advantages[seen.mask].mean()),
    }


def correlations(scored: Scored, seen: Rollout, realised: Tensor, chosen: Tensor) -> dict[str, float]:
    """Return each predictor's Spearman and Pearson correlation with the realised change over the chosen tokens."""
    found = {}
    for name, predicted in predictors(scored, seen).items():
        x, y = predicted[chosen].numpy(), realised[chosen].numpy()
        found[f"{name}, Spearman"] = float(stats.spearmanr(x, y).statistic)
        found[f"{name}, Pearson"] = float(stats.pearsonr(x, y).statistic)
    return found


def sequence(seen: Rollout, index: int) -> Rollout:
    """Return one completion as a rollout."""
    return Rollout(*(part[index : index + 1] for part in seen))


def of_single_sequences(model: Any, scored: Scored, seen: Rollout) -> dict[str, float]:
    """Return the correlations if each completion gets its own update, which no other completion disturbs."""
    moved = [i for i in range(seen.mask.size(0)) if seen.advantages[i].abs() > 0.1][:SEQUENCES]
    found: dict[str, float] = {}
    realised = torch.full_like(scored.entropies, torch.nan)
    for i in moved:
        one = sequence(seen, i)
        realised[i] = (after_step(model, one, torch.ones_like(one.mask, dtype=torch.float), 1e-5))[0]
    realised -= scored.entropies
    chosen = seen.mask & realised.isfinite()
    for name, tokens in {"all": chosen, "forks": chosen & (scored.entropies > FORK)}.items():
        values = correlations(scored, seen, realised, tokens)
        found |= {f"one sequence a step, {name}: {key}": value for key, value in values.items()}
    return found


def of_quadrants(model: Any, scored: Scored, seen: Rollout, base: float, seed: int) -> dict[str, float]:
    """Return how much masking or doubling a share of a quadrant's tokens changes the mean entropy, in 1e-3 nats.

    The numbers are differences from `base`, the mean entropy change of the step without masking or doubling.
    """
    generator = torch.Generator().manual_seed(seed)
    draws = torch.rand(seen.mask.shape, generator=generator)
    probabilities = scored.logps.exp()
    better, worse = seen.advantages > 0, seen.advantages < 0
    quadrants = {
        "I": (probabilities > HIGH) & better,
        "II": (probabilities < LOW) & better,
        "III": (probabilities < LOW) & worse,
        "IV": (probabilities > HIGH) & worse,
    }
    found = {}
    for name, tokens in quadrants.items():
        found[f"quadrant {name}: share of tokens"] = float((tokens & seen.mask).sum() / seen.mask.sum())
        for action, weight in {"mask": 0.0, "double": 2.0}.items():
            for fraction in FRACTIONS:
                weights = torch.where(tokens & (draws < fraction), weight, 1.0)
                entropies = after_step(model, seen, weights, LEARNING_RATES[1])
                change = float((entropies - scored.entropies)[seen.mask].mean())
                found[f"quadrant {name}, {action} {fraction:g}: added change, 1e-3 nats"] = 1e3 * (change - base)
    return found


def by_tenths(scored: Scored, seen: Rollout, realised: Tensor) -> dict[str, float]:
    """Return |realised change| by tenths of the entropy, and STEER's weight by tenths of |realised change|."""
    entropies, size = scored.entropies[seen.mask], realised[seen.mask].abs()
    omega = predictors(scored, seen)["paper"]
    statistic = steer_statistic(omega, seen.mask)
    weights = steer_weights(omega, seen.mask, lambda_min=0.7, statistic=statistic)[seen.mask]
    found = {"Spearman of |change| with entropy": float(stats.spearmanr(size, entropies).statistic)}
    for key, values, order in (("|change|, 1e-3 nats", 1e3 * size, entropies), ("STEER's weight", weights, size)):
        kind = "entropy" if key.startswith("|") else "|change|"
        for tenth, part in enumerate(order.argsort().tensor_split(10), 1):
            found[f"{key}, tenth {tenth} of {kind}"] = float(values[part].mean())
    return found


def measured(model: Any, tokenizer: Any, prompts: list[str], seed: int) -> dict[str, float]:
    """Return all measurements on one rollout."""
    seen = rollout(model, tokenizer, prompts, seed)
    with torch.no_grad():
        scored = score(model, seen)
    ones = torch.ones_like(scored.logps)
    found = {"entropy": float(scored.entropies[seen.mask].mean()), "tokens": float(seen.mask.sum())}
    for rate in LEARNING_RATES:
        realised = after_step(model, seen, ones, rate) - scored.entropies
        for name, tokens in {"all": seen.mask, "forks": seen.mask & (scored.entropies > FORK)}.items():
            values = correlations(scored, seen, realised, tokens)
            found |= {f"512 sequences, learning rate {rate:g}, {name}: {key}": value for key, value in values.items()}
    base = float(realised[seen.mask].mean())
    found["change of the mean entropy, 1e-3 nats"] = 1e3 * base
    found |= by_tenths(scored, seen, realised)
    found |= of_quadrants(model, scored, seen, base, seed)
    return found | of_single_sequences(model, scored, seen)


def main() -> None:
    """Measure several rollouts, and write the mean and the half width of the 95 % interval of each number."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--model", type=Path, default=ROOT / "runs/claims/start")
    parser.add_argument("--rollouts", type=int, default=10)
    parser.add_argument("--published", type=Path, default=ROOT / "experiments/results/claims/one_step.json")
    given = parser.parse_args()
    torch.set_num_threads(1)
    model = AutoModelForCausalLM.from_pretrained(given.model).eval()
    tokenizer = AutoTokenizer.from_pretrained(given.model)
    prompts = [row["prompt"] for row in problems("train")]
    runs = []
    for seed in tqdm(range(given.rollouts)):
        runs.append(measured(model, tokenizer, prompts[seed * PROMPTS : (seed + 1) * PROMPTS], seed))
    quantile = float(stats.t.ppf(0.975, len(runs) - 1)) if len(runs) > 1 else float("inf")
    result = {
        key: [round(mean(values), 6), round(quantile * stdev(values) / len(values) ** 0.5, 6)]
        for key in runs[0]
        if len(values := [found[key] for found in runs if found[key] == found[key]]) > 1
    }
    given.published.parent.mkdir(parents=True, exist_ok=True)
    given.published.write_text(json.dumps(result, indent=1) + "\n")


if __name__ == "__main__":
    main()
