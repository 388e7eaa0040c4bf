"""Every method gives the same advantages and the same gradient, however the batch is split, in two passes over it."""

import numpy as np
import pytest
from support.methods.batches import ON_ROLLOUTS
from support.methods.cases import CASES, Case, threshold
from support.processes import TWO_PROCESSES

from steer_trl.shaping import SHAPERS

SPLITS = [(1, 16, 1), (1, 2, 8), (2, 8, 1), (2, 1, 8)]  # 16 completions in each
ACROSS_RANKS = [(1, 24, 1), (2, 12, 1), (2, 3, 4)]  # 24 in three groups, the second of which lies on both ranks
MASKED = [SPLITS[0], SPLITS[-1]]
EVEN = [name for name in CASES if CASES[name].even]


def variants(name):
    """The completions that a method is given; those of "held" too are all as long where it must be so."""
    return ("even",) if name in EVEN else ("plain", "masked")


HELD = [(name, "held") for name in ("repo_r", *EVEN)]


def case(key, size, count):
    name, variant = key
    own = CASES.get(name, Case())
    # The given completions are rewarded with 0 to 5.5.
    fields = {"advantage_shaping": name, "num_iterations": 2} | threshold(name, 2.0)
    fields |= {"per_device_train_batch_size": size, "gradient_accumulation_steps": count}
    if variant == "held":  # the strength of each rollout comes from the entropy of all ranks
        fields |= {"hold_entropy": 10.0, "hold_entropy_unit": "nats", "num_iterations": 1}
        return {"fields": fields, "steps": 4, "variant": "even" if name in EVEN else "plain"}
    fields |= own.lively | ({"num_generations": 8} if variant == "across_ranks" else {})
    return {"fields": fields, "steps": 2, "variant": variant, "two_valued": own.two_valued}


VARIANTS = [(name, variant) for name in SHAPERS for variant in variants(name)]
VARIANTS += [(name, "across_ranks") for name in ON_ROLLOUTS] + HELD


@pytest.fixture(scope="module")
def results(run_splits):
    """(method, variant) -> one result per split; the first entry of "none" is plain GRPO."""
    splits = {"across_ranks": ACROSS_RANKS, "masked": MASKED}
    return run_splits([*VARIANTS, ("none", "plain"), ("none", "even")], lambda key: splits.get(key[1], SPLITS), case)


def test_a_rank_whose_completions_have_one_token_changes_nothing(run_splits):
    """All completions of one of two ranks have one token; micro-batches are ordered by length, or as TRL has them."""
    keys = [(name, skips) for name in ("position", "gtpo", "f_grpo", "none") for skips in (False, True)]

    def short(key, size, count):
        name, skips = key
        fields = {"advantage_shaping": name, "per_device_train_batch_size": size, "gradient_accumulation_steps": count}
        return {"fields": fields | {"skip_padding": skips}, "steps": 1, "variant": "short"}

    results = run_splits(keys, lambda key: [(1, 8, 2), (2, 4, 2)], short)
    for name, _ in keys:
        first, *others = (result for skips in (False, True) for result in results[name, skips])
        size = np.linalg.norm(joined(first["update"]))
        for other in others:
            assert np.linalg.norm(joined(other["update"]) - joined(first["update"])) < 2e-5 * size, name


def joined(values):
    return np.concatenate([values[key] for key in sorted(values)])


@pytest.mark.parametrize(("name", "variant"), VARIANTS)
def test_the_split_does_not_matter(results, name, variant):
    first, *others = results[name, variant]
    size = np.linalg.norm(joined(first["update"]))
    for other in others:
        if variant != "masked":  # what a masked token's advantage is does not matter
            np.testing.assert_allclose(joined(other["advantages"]), joined(first["advantages"]), atol=2e-5)
        assert np.linalg.norm(joined(other["update"]) - joined(first["update"])) < 2e-5 * size


@pytest.mark.parametrize("name", SHAPERS)
def test_every_method_changes_the_update(results, name):
    """Else all of the above would hold of plain GRPO."""
    ours, plain = (joined(results[which, variants(name)[0]][0]["update"]) for which in (name, "none"))
    assert np.linalg.norm(ours - plain) > 1e-3 * np.linalg.norm(plain)


@pytest.mark.parametrize("name", ON_ROLLOUTS)
def test_only_groups_across_ranks_fetch_tokens(results, name):
    """Or where a method compares the whole rollout; the first two splits of each are on one process."""
    method = SHAPERS[name]
    # The mask is gathered with every group that lies across ranks, and one number a token if the method reads any.
    bytes_per_token = 1 + 4 * len({"logps", "entropies"} & set(method.reads))
    always, across = CASES[name].gathered_bytes or (0, bytes_per_token)
    assert [result["gathered_bytes"] for result in results[name, "plain"]] == [0, 0, always, always]
    assert [result["gathered_bytes"] for result in results[name, "across_ranks"]] == [0, across, across]


def test_a_third_value_on_another_rank_is_refused_on_all(run_cases):
    """The groups of each rank have rewards of two values."""
    fields = [{"advantage_shaping": "maxrl"}, {"advantage_shaping": "pass_at_k", "pass_at_k": 2}]
    fields = [case | {"per_device_train_batch_size": 8, "gradient_accumulation_steps": 1} for case in fields]
    cases = [{"fields": case, "variant": "other_value", "raises": "needs rewards of two values"} for case in fields]
    assert [result["raised"] for result in run_cases(cases, TWO_PROCESSES)] == [[0, 1]] * 2
