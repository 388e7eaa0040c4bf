"""The switches of the diagnostics."""

from dataclasses import dataclass

from steer_trl.shaping.options import option


@dataclass
class DiagnosticsOptions:
    """What a run shows of itself, whatever the method."""

    diagnostics: bool = option(
        True, "Log what happens to the tokens: quadrants, weights, entropy by position and by advantage, clipping."
    )
    diagnostics_steps: int = option(
        25,
        "Every so many optimizer steps, look closer: the exact entropy change that is predicted for each token, and "
        "the one that the update brought about on a micro-batch; 0 for never.",
        "[0, inf)",
    )
    alarms: bool = option(
        True, "Warn in the log, in `_logs/alarms.jsonl` and in the tracker when a run goes wrong in a known way."
    )

    def diagnostics_complaints(self) -> list[str]:
        """Say which of these settings cannot be, or would be ignored."""
        complaints = []
        if self.diagnostics_steps != int(self.diagnostics_steps):
            complaints.append(f"diagnostics_steps must be a whole number, got {self.diagnostics_steps!r}.")
        if not self.diagnostics and self.diagnostics_steps not in (0, 25):
            complaints.append(
                f"diagnostics_steps={self.diagnostics_steps!r} cannot be combined with diagnostics=False, which "
                "switches all of them off, so it would be ignored. Leave it unset."
            )
        return complaints
