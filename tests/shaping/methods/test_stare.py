"""STARE's sets and gates, against loops."""

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.methods.batches import EXACT, SEEDS, chosen, kept, method, random_batch, trained, weights
from support.methods.oracles import mean


class TestStare:
    OPERATIONS = {"O1": (1, True, 2.0), "O2": (1, False, 0.5), "O3": (-1, False, 2.0), "O4": (-1, True, 0.5)}
    COMBINED = {"C1": ("O1", "O3"), "C2": ("O1", "O4"), "C3": ("O2", "O3"), "C4": ("O2", "O4")}

    def omega(self, batch, variant, **options):
        options = {"stare_gate": "none", "stare_amplify": 2.0, "stare_attenuate": 0.5} | options
        if variant in ("O1", "O3", "C1"):
            options.pop("stare_attenuate")  # refused where nothing is attenuated
        if variant in ("O2", "O4", "C4"):
            options.pop("stare_amplify")
        return weights(kept("stare", stare_variant=variant, **EXACT, **options), batch)

    @pytest.mark.parametrize("variant", OPERATIONS)
    @given(SEEDS, st.sampled_from([0.1, 0.25, 0.5, 0.8, 1.0]))
    def test_each_variant_weights_its_own_set_of_tokens(self, variant, seed, fraction):
        batch = random_batch(seed)
        sign, surprising, weight = self.OPERATIONS[variant]
        side = [place for place in trained(batch) if sign * batch.advantages[place[0]] > 0]
        side.sort(key=batch.logps.__getitem__)
        count = min(len(side), max(1, math.floor(len(side) * fraction + 0.999999)))
        ours = self.omega(batch, variant, stare_top_fraction=fraction)
        assert chosen(ours == weight, batch) == set(side[:count] if surprising else side[count:])
        assert (ours[ours != weight] == 1).all()

    @pytest.mark.parametrize("variant", COMBINED)
    @given(SEEDS)
    def test_combined_variants_are_unions_of_disjoint_sets(self, variant, seed):
        batch, options = random_batch(seed), {"stare_top_fraction": 0.3}
        one, other = (self.omega(batch, name, **options) for name in self.COMBINED[variant])
        assert not ((one != 1) & (other != 1)).any()
        assert torch.equal(self.omega(batch, variant, **options), one * other)

    @given(SEEDS)
    def test_gates_of_completions_and_of_tokens(self, seed):
        batch, options, target = random_batch(seed), {"stare_top_fraction": 0.5}, {"stare_target_entropy": 1.5}
        always = self.omega(batch, "C1", stare_gate="none", **options)
        sample, token = (self.omega(batch, "C1", stare_gate=g, **options, **target) for g in ("sample", "token"))
        for i, t in trained(batch):
            of_completion = mean(batch.old_entropies[i, u].item() for j, u in trained(batch) if j == i)
            assert sample[i, t] == (always[i, t] if of_completion < 1.5 else 1)
            assert token[i, t] == (always[i, t] if batch.old_entropies[i, t] < 1.5 else 1)

    @pytest.mark.parametrize("gate", ["batch", "sample", "token", "none"])
    def test_only_the_gate_of_the_batch_closes_everything(self, gate):
        shaper = method("stare", stare_gate=gate)
        assert shaper.active  # until the first rollout is known
        shaper.on_rollout(0.3)  # equal to the target: closed
        assert shaper.active is (gate != "batch")


def test_a_relative_target_is_a_share_of_the_initial_entropy():
    shaper, absolute = method("stare", stare_target_entropy=0.5, stare_target_entropy_unit="initial"), method("stare")
    assert "stare/target_entropy" not in shaper.metrics()  # no rollout yet
    for entropy in (0.6, 0.4):
        shaper.on_rollout(entropy)
        absolute.on_rollout(entropy)
    assert (shaper.metrics()["stare/target_entropy"], absolute.metrics()["stare/target_entropy"]) == (0.3, 0.3)


@pytest.mark.parametrize(("variant", "expected"), [("O1", [0, 1, 1]), ("O4", [0, 0, 1]), ("C2", [0, 0, 1])])
def test_saturated_means_no_used_factor_moves(variant, expected):
    bounds = {"O1": {"amplify_max": 1.12}, "O4": {"attenuate_min": 0.87}}
    bounds["C2"] = bounds["O1"] | bounds["O4"]
    options = {"stare": bounds[variant]}
    shaper = method("stare", stare_variant=variant, stare_adaptive=True, shaping_options=options)
    for saturated in expected:
        shaper.on_rollout(0.0)
        assert shaper.metrics()["stare/saturated"] == saturated
    assert "stare/saturated" not in method("stare").metrics()


def test_a_missing_part_of_the_state_is_named():
    for name, state in (("gate", {"start": {}}), ("start", {"gate": False})):
        with pytest.raises(ValueError, match=f"^{name} is missing and must be"):
            method("stare").load_state_dict(state)
