"""STARE's settings, and what of them cannot be."""

from dataclasses import dataclass

from steer_trl.shaping.conflicts import idle_conflicts
from steer_trl.shaping.options import ShapingConfig, one_or_several, option
from steer_trl.validation import controller_complaints, one_of, stare_complaints, stare_operations

TARGET_UNITS = ("nats", "initial")
GATES = ("batch", "sample", "token", "none")


@dataclass
class StareOptions(ShapingConfig):
    """Settings of `"stare"`."""

    stare_variant: str | list[str] = one_or_several(
        "O1",
        "'O1' to 'O4', 'C1' to 'C4', or operations: amplify_high_positive (O1), attenuate_low_positive (O2), "
        "amplify_low_negative (O3), attenuate_high_negative (O4). Public sources disagree which is O2 and which O3.",
    )
    stare_top_fraction: float = option(
        0.1, "P: share of each side's tokens, by surprisal, that counts as surprising, in [0, 1]; 0 selects nothing."
    )
    stare_low_set: str = option(
        "complement", "The expected tokens: 'complement' of the surprising ones, or the 'bottom' share P by surprisal."
    )
    stare_fixed_probability: float | None = option(
        None, "Ablation: a token is surprising where its probability is below this, in (0, 1); no quantile is taken."
    )
    stare_amplify: float = option(1.1, "W, at least 1. The paper: 1.1 for 7B models, 1.05 for 14B and 32B.")
    stare_attenuate: float = option(0.9, "M, in (0, 1]. The paper: 0.9 for 7B models, 0.95 for 14B and 32B.")
    stare_gate: str = option(
        "batch",
        "What is compared with the target: the rollout's mean entropy ('batch'), each 'sample''s, each "
        "'token''s, or nothing: the gate is always open ('none').",
    )
    stare_target_entropy: float = option(
        0.3, "The gate is open while the entropy is below this, in the unit of stare_target_entropy_unit. Positive."
    )
    stare_target_entropy_unit: str = option(
        "nats",
        "'nats' (per token), or 'initial': a multiple of the first rollout's entropy (0.8: four fifths of it).",
    )
    stare_adaptive: bool = option(
        False, "Whether W and M move at each rollout, up while the entropy is below the target and back while above."
    )
    stare_step: float = option(0.01, "Step of the adaptive schedule, at least 0.")
    stare_amplify_max: float = option(1.5, "Upper bound of W in the adaptive schedule, at least stare_amplify.")
    stare_attenuate_min: float = option(0.5, "Lower bound of M in the adaptive schedule, in (0, stare_attenuate].")


def complaints(args: StareOptions) -> list[str]:
    """Check the settings."""
    return [
        *stare_complaints(
            args.stare_variant,
            args.stare_top_fraction,
            args.stare_amplify,
            args.stare_attenuate,
            args.stare_low_set,
            args.stare_fixed_probability,
            prefix="stare_",
        ),
        *one_of("stare_gate", args.stare_gate, GATES),
        *one_of("stare_target_entropy_unit", args.stare_target_entropy_unit, TARGET_UNITS),
        *controller_complaints(
            args.stare_target_entropy,
            args.stare_amplify,
            args.stare_attenuate,
            args.stare_adaptive,
            args.stare_step,
            args.stare_amplify_max,
            args.stare_attenuate_min,
            prefix="stare_",
        ),
    ]


def conflicts(args: StareOptions) -> list[str]:
    """Refuse settings that others make idle."""
    if complaints(args):  # these come first
        return []
    operations = stare_operations(args.stare_variant)
    touches = {kind: any(kind in name for name in operations) for kind in ("low", "amplify", "attenuate")}
    moves, variant = args.stare_adaptive, f"stare_variant={args.stare_variant!r}"
    fixed, still = "stare_adaptive=False", "W and M do not move"
    no_target = "stare_gate='none'", "it compares nothing with it"
    return idle_conflicts(
        args,
        [
            (
                "stare_top_fraction",
                args.stare_fixed_probability is not None,
                "stare_fixed_probability",
                "without quantiles there is no share",
            ),
            ("stare_low_set", not touches["low"], variant, "it leaves expected tokens alone"),
            ("stare_amplify", not touches["amplify"], variant, "it amplifies nothing"),
            ("stare_attenuate", not touches["attenuate"], variant, "it attenuates nothing"),
            ("stare_step", not moves, fixed, still),
            ("stare_amplify_max", not moves, fixed, still),
            ("stare_attenuate_min", not moves, fixed, still),
            ("stare_amplify_max", moves and not touches["amplify"], variant, "it amplifies nothing"),
            ("stare_attenuate_min", moves and not touches["attenuate"], variant, "it attenuates nothing"),
            ("stare_target_entropy", args.stare_gate == "none" and not moves, *no_target),
            ("stare_target_entropy_unit", args.stare_gate == "none" and not moves, *no_target),
        ],
    )
