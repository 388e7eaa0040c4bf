"""Settings that are gone, and what to use instead: the sentence that refuses each by name."""

from collections.abc import Collection

from steer_trl.validation import did_you_mean

REMOVED = {
    "hold_entropy_deadband": "The loop's constants suit every level and method that was measured: leave it out.",
    "hold_entropy_integral_gain": "The loop's constants suit every level and method that was measured: leave it out.",
    "hold_entropy_proportional_gain": "The loop's constants suit every level and method that was measured: leave it "
    "out.",
    "hold_entropy_tokens": "What is held is the mean entropy of all tokens: leave it out.",
    "hold_entropy_spends": "An entropy above the level is left to fall by itself; for more accuracy at the end, let "
    "the level fall with hold_entropy_final.",
}


def hint(name: str, known: Collection[str]) -> str:
    """Return what to use in the place of a setting that is gone, or else which of the `known` ones it resembles."""
    return f" It is gone. {REMOVED[name]}" if name in REMOVED else did_you_mean(name, known)
