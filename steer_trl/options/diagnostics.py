"""The switches of the diagnostics."""

from dataclasses import dataclass

from steer_trl.options.base import option

EVERY = 50
"""Optimizer steps between two close looks: these and all else take 2 % of a step's time (`docs/scaling.md`)."""


@dataclass
class DiagnosticsOptions:
    """What a run shows of itself, whatever the method."""

    diagnostics: bool = option(
        True, "Log what happens to the tokens: quadrants, weights, entropy by position and by advantage, clipping."
    )
    diagnostics_steps: int = option(
        EVERY,
        "Every so many optimizer steps, look closer: the exact entropy change that is predicted for each token, and "
        "the one that the update brought about on a micro-batch; 0 for never.",
        "[0, inf)",
    )
    alarms: bool = option(
        True, "Warn when a run goes wrong in a known way: on the terminal, in the run log and in the tracker."
    )

    def diagnostics_complaints(self) -> list[str]:
        """Say which of these settings cannot be, or would be ignored."""
        complaints = []
        if self.diagnostics_steps != int(self.diagnostics_steps):
            complaints.append(f"diagnostics_steps must be a whole number, got {self.diagnostics_steps!r}.")
        if not self.diagnostics and self.diagnostics_steps not in (0, EVERY):
            complaints.append(
                f"diagnostics_steps={self.diagnostics_steps!r} cannot be combined with diagnostics=False, which "
                "switches all of them off, so it would be ignored. Leave it unset."
            )
        return complaints
