"""One group of four completions, worked out in float64 to five decimals."""

from dataclasses import replace

import pytest
import torch
from support.methods.batches import advantages, bonus, measure, method, weights

from steer_trl.shaping import Rollout, TokenBatch


class TestGoldenFixture:
    """One group of four completions, worked out in float64 to five decimals."""

    A = torch.tensor([0.86602, -0.86602, 0.86602, -0.86602]).unsqueeze(1)
    MASK = torch.tensor([[1, 1, 1], [1, 1, 0], [1, 1, 1], [1, 0, 0]])
    P = torch.tensor([[0.9, 0.2, 0.6], [0.5, 0.05, 1.0], [0.99, 0.3, 0.7], [0.8, 1.0, 1.0]]).log()
    Q = torch.tensor([[0.8, 0.25, 0.6], [0.5, 0.1, 1.0], [0.98, 0.2, 0.7], [0.8, 1.0, 1.0]]).log()
    H = torch.tensor([[0.3, 1.5, 0.9], [0.7, 2.0, 0.0], [0.05, 1.2, 0.6], [0.5, 0.0, 0.0]])
    BATCH = TokenBatch(P, Q, H, H, A, MASK, epsilon_low=1.0, epsilon_high=1.0, draws=torch.full((4, 3), 0.5))
    ROLLOUT = Rollout(4, MASK, A, torch.tensor([1.0, 0.0, 1.0, 0.0]), logps=Q, entropies=H)

    def check(self, ours, expected):
        if len(expected) == 4:
            expected = [x for x, length in zip(expected, (3, 2, 3, 1), strict=True) for _ in range(length)]
        ours = ours.expand(4, 3)[self.MASK.bool()]
        torch.testing.assert_close(ours, torch.tensor(expected), atol=1.5e-5, rtol=0)

    @pytest.mark.parametrize(
        ("name", "expected"),
        [
            ("opo", [1 / 3, -2 / 3, 1 / 3, -2 / 3]),
            ("w_reinforce", [0.1, -1, 0.1, -1]),
            ("unlikelihood", [0.92465, -0.86500, 0.80534, -0.86500]),
            ("edge_grpo", [0.80989, -0.53993, 1.18201, -1.45781]),
            ("ppl", [0.86714, -0.85364, 0.86982, -0.87350]),
            ("gtpo", [0.73116, 0.67636, 0.68443, -1.31738, -1.33252, 0.60136, 0.65617, 0.64809, -1.34766]),
        ],
    )
    def test_advantages(self, name, expected):
        rollout = replace(self.ROLLOUT, logps=self.P) if name == "ppl" else self.ROLLOUT
        self.check(advantages(name, rollout), expected)

    def test_gtpo_rewards(self):
        expected = [1.17143, 1.11111, 1.12, -1.08333, -1.1, 1.02857, 1.08889, 1.08, -1.11667]
        self.check(method("gtpo").shaped_rewards(self.ROLLOUT), expected)

    def test_entropy_advantage(self):
        expected = [0.98602, 1.29904, 1.22602, -0.58602, -0.43301, 0.88602, 1.29904, 1.10602, -0.66602]
        self.check(self.A + bonus(method("entropy_advantage"), self.BATCH), expected)

    def test_covariances_are_the_smallest_that_kl_cov_holds(self):
        sorted_ones = [2.47019, 0.48869, 0.43366, 0.28856, 0.19956, -0.18860, -0.20062, -0.43472, -0.73132]
        for held, smallest in enumerate(sorted_ones, start=1):
            measures = measure(method("kl_cov", kl_cov_fraction=held / 9), self.BATCH)
            assert [x.item() for x in measures] == pytest.approx([0.288675, -0.856483, smallest], abs=1.5e-5)

    def test_kl_cov_turns_the_top_token(self):
        ours = self.A + bonus(method("kl_cov"), self.BATCH)
        self.check(ours, [0.86602] * 3 + [-0.86602, 1.13398] + [0.86602] * 3 + [-0.86602])

    def test_clip_cov_drops_the_one_token_of_the_pool(self):
        self.check(weights(method("clip_cov"), self.BATCH), [1.0] * 4 + [0.0] + [1.0] * 4)
        # Its ratio is 0.5: with the usual bounds the loss clips it already, and the pool is empty.
        assert (weights(method("clip_cov"), replace(self.BATCH, epsilon_low=0.2)) == 1).all()

    def test_dcpo_bounds(self):
        low, high = method("dcpo").bounds(self.Q.exp())
        self.check(low, [0.5] * 5 + [0.71429] + [0.5] * 3)
        self.check(high, [1.27460, 1.67047, 1.34656, 1.4, 2.24642, 1.23193, 1.78452, 1.30623, 1.27460])
