"""The switches of the diagnostics."""

from dataclasses import dataclass

from steer_trl.options.base import option


@dataclass
class DiagnosticsOptions:
    """What a run shows of itself, whatever the method."""

    diagnostics: bool = option(
        True, "Log what happens to the tokens: quadrants, weights, entropy by position and by advantage, clipping."
    )
    alarms: bool = option(
        True, "Warn when a run goes wrong in a known way: on the terminal, in the run log and in the tracker."
    )
