"""When a strength begins to act, and how strongly: found in the strengths and the entropies that came of them.

    ln H_{k+1} = ln H_k + drift + authority u_{k-d}        seen with noise

A Kalman filter estimates level, drift and authority under each assumption on the dead time d (rollouts) and on the
noise, and the assumptions are compared by how well they have predicted each entropy, recent ones more: multiple-model
estimation. Before anything is seen a short dead time is the likelier one. A slow answer, by momentum, looks like a
late one.
"""

from functools import partial
from typing import Any

import numpy as np

from steer_trl.validation import from_state, is_number

LONGEST = 8
"""Rollouts, the longest dead time that is considered."""
NOISES = (0.005, 0.02, 0.06)
"""Of the logarithm of a rollout's entropy: relative standard deviations that are considered."""
AUTHORITIES = (0.02, 0.3)
"""Smallest and largest authority that is believed: change of ln H per rollout and unit of strength."""

DRIFT, AUTHORITY = (-0.01, 0.03), (0.08, 0.06)  # mean and standard deviation before anything is seen
WANDERING = np.array([0.003, 0.002, 0.002]) ** 2  # of level, drift and authority, variance per rollout
UNLIKELIER = 0.3  # each further rollout of dead time, in log-likelihood
MEMORY = 0.97  # of a prediction's likelihood, per rollout
PARTS = ("states", "covariances", "likelihoods", "strengths")


class DeadTime:
    """Estimates dead time and authority of a strength; one [`see`] and one [`act`] per rollout.

    Attributes:
        rollouts (`int`): the most likely dead time: 0 where a strength acts in the updates of its own rollout.
        authority (`float`): change of ln H per rollout and unit of strength, within [`AUTHORITIES`].
    """

    def __init__(self) -> None:
        self._dead = np.repeat(np.arange(LONGEST + 1), len(NOISES))
        self._noise = np.tile(np.square(NOISES), LONGEST + 1)
        self._likelihoods = -UNLIKELIER * self._dead
        self._strengths = np.zeros(LONGEST + 1)
        self._states = np.tile([0.0, DRIFT[0], AUTHORITY[0]], (len(self._dead), 1))
        self._covariances = np.tile(np.diag([1e4, DRIFT[1] ** 2, AUTHORITY[1] ** 2]), (len(self._dead), 1, 1))

    @property
    def rollouts(self) -> int:
        return int(self._dead[self._likelihoods.argmax()])

    @property
    def authority(self) -> float:
        return float(np.clip(self._states[self._likelihoods.argmax(), 2], *AUTHORITIES))

    def in_flight(self, steady: float) -> float:
        """Return by how much ln H will still rise through the strengths given, beyond what `steady` ones would do."""
        strengths = self._strengths[len(self._strengths) - self.rollouts :]
        return self.authority * float((strengths - steady).sum())

    def see(self, log_entropy: float) -> None:
        """Take the logarithm of a rollout's entropy."""
        acting = self._strengths[-1 - self._dead]
        state, covariance = self._states, self._covariances
        state[:, 0] += state[:, 1] + acting * state[:, 2]
        covariance[:, 0] += covariance[:, 1] + acting[:, None] * covariance[:, 2]
        covariance[:, :, 0] += covariance[:, :, 1] + acting[:, None] * covariance[:, :, 2]
        covariance[:, range(3), range(3)] += WANDERING
        surprise, variance = log_entropy - state[:, 0], covariance[:, 0, 0] + self._noise
        gain = covariance[:, :, 0] / variance[:, None]
        state += gain * surprise[:, None]
        covariance -= gain[:, :, None] * covariance[:, :1, :]
        self._likelihoods = MEMORY * self._likelihoods - (surprise**2 / variance + np.log(variance)) / 2
        self._likelihoods -= self._likelihoods.max()

    def act(self, strength: float) -> None:
        """Take the strength that was given for the rollout just seen."""
        self._strengths = np.append(self._strengths[1:], strength)

    def state_dict(self) -> dict[str, Any]:
        """Return all that is known, as lists of numbers for a JSON file."""
        return {name: getattr(self, f"_{name}").tolist() for name in PARTS}

    def load_state_dict(self, state: Any) -> None:
        """Continue from a [`state_dict`].

        Raises:
            `ValueError`: a value is missing or cannot be; nothing is taken then.
        """
        before = {name: getattr(self, f"_{name}") for name in PARTS}
        must_be = "an array of {} finite numbers"
        taken = {
            name: from_state(state, name, partial(_is_like, array=old), must_be.format(old.shape))
            for name, old in before.items()
        }
        vars(self).update({f"_{name}": np.array(value, dtype=float) for name, value in taken.items()})


def _is_like(value: Any, array: np.ndarray) -> bool:
    if not isinstance(value, list) or len(value) != len(array):
        return False
    if array.ndim == 1:
        return all(is_number(x) and np.isfinite(x) for x in value)
    return all(_is_like(row, array[0]) for row in value)
