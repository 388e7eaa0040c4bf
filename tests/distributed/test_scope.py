"""One batch, one answer: the same completions give the same weights and the same gradient for every split."""

import numpy as np
import pytest

# 16 completions in each
SPLITS = [(1, 16, 1), (1, 8, 2), (1, 4, 4), (1, 1, 16), (2, 8, 1), (2, 4, 2), (2, 2, 4), (2, 1, 8)]
STARE = {"advantage_shaping": "stare", "stare_amplify": 2.0, "stare_target_entropy": 100.0}
METHODS = {
    "exponential": {"steer_lambda_min": 0.3},
    "linear": {"steer_lambda_min": 0.3, "steer_mapping": "linear", "skip_padding": False},
    "binary": {"steer_lambda_min": 0.3, "steer_mapping": "binary"},
    "O1": STARE | {"skip_padding": False},
    "C2": STARE | {"stare_variant": "C2", "stare_attenuate": 0.5},
}
VARIANTS = ["plain", "masked", "one_sided"]
SCOPES = ["step", "micro_batch"]


def case(key, size, count):
    method, variant, scope = key
    sizes = {"per_device_train_batch_size": size, "gradient_accumulation_steps": count}
    return {"variant": variant, "fields": METHODS[method] | sizes | {"shaping_scope": scope}}


@pytest.fixture(scope="module")
def results(run_splits):
    """(method, variant, scope) -> one result per split."""
    keys = [(m, v, s) for m in METHODS for v in VARIANTS for s in SCOPES if s == "step" or v == "plain"]
    return run_splits(keys, lambda key: SPLITS, case)


def spread(runs):
    """Largest difference between any split and the first: of the weights, and of the update, relative."""
    weights = [np.concatenate([run["weights"][key] for key in sorted(runs[0]["weights"])]) for run in runs]
    updates = [np.concatenate([run["update"][name] for name in sorted(runs[0]["update"])]) for run in runs]
    size = max(np.linalg.norm(update) for update in updates)
    furthest = max(np.linalg.norm(other - updates[0]) for other in updates)
    return max(np.abs(other - weights[0]).max() for other in weights), furthest / size


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("method", METHODS)
def test_the_split_does_not_matter(results, method, variant):
    weights, update = spread(results[method, variant, "step"])
    assert weights < 1e-6 and update < 1e-5


@pytest.mark.parametrize("variant", VARIANTS)
def test_logged_statistics_do_not_depend_on_the_split(results, variant):
    """Sums over tokens, not means of means, also where one rank has nothing to measure."""
    for method in METHODS:
        first, *others = [run["log"][0] for run in results[method, variant, "step"]]
        assert len(first) > 20 and first.keys() >= {"quadrants/positive_expected", "weights/effective_share"}
        for other in others:
            assert other == pytest.approx(first, rel=1e-4, abs=1e-5, nan_ok=True), method


@pytest.mark.parametrize("method", METHODS)
def test_micro_batch_scope_depends_on_the_split(results, method):
    """Else all of the above would hold of plain GRPO."""
    weights, update = spread(results[method, "plain", "micro_batch"])
    assert weights > 0.1 and update > 0.01
    weights = np.concatenate(list(results[method, "plain", "step"][0]["weights"].values()))
    assert weights.max() - weights.min() > 0.5


def test_later_micro_batches_are_scored_once(results):
    """The loss's own forward pass is the first one's score."""
    for run, (_, size, count) in zip(results["exponential", "plain", "step"], SPLITS, strict=True):
        assert len(run["rows"]) == count and sum(run["rows"]) == size * count
        assert run["scored"] == sum(run["rows"][1:])
    assert {run["scored"] for run in results["exponential", "plain", "micro_batch"]} == {0}


def lightest(run, step):
    return min(min(weights) for key, weights in run["weights"].items() if key.startswith(f"{step} "))


def test_a_later_step_of_a_rollout(run_cases):
    """With the present policy's numbers the largest |Omega| of each step has exactly lambda_min.

    Two steps of four micro-batches from one rollout, with a step between them that moves the policy far.
    """
    sizes = {"per_device_train_batch_size": 2, "gradient_accumulation_steps": 4, "steps_per_generation": 8}
    fields = {"steer_lambda_min": 0.3, "learning_rate": 3.0} | sizes
    scopes = ("step", "exact_step")
    step, exact = run_cases([{"fields": fields | {"shaping_scope": scope}, "steps": 2} for scope in scopes])
    for run, at in ((exact, 0), (exact, 1), (step, 0)):
        assert lightest(run, at) == pytest.approx(0.3, abs=1e-5)
    assert lightest(step, 1) >= 0.3  # the old policy's extreme bounds it
    # TRL scores a rollout of several steps itself, which is right for the first of them.
    assert exact["scored"] == sum(exact["rows"][5:]) and step["scored"] == 0
