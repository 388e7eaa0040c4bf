"""Settings of STEER, STARE and pass@k training.

The constants of all other methods, and of these methods' ablations, are options (`shaping/options.py`).
"""

from dataclasses import dataclass
from typing import Annotated

from steer_trl.options.base import CorrectnessSettings, Setting, ShapingConfig
from steer_trl.options.stare_variants import AMPLIFYING, ATTENUATING, NAMES

COMPARED = {"stare_gate": ("batch", "sample", "token")}


@dataclass
class SteerSettings(ShapingConfig):
    """Settings of `"steer"`."""

    steer_lambda_min: Annotated[
        float,
        Setting(
            "Weight of the token with the largest entropy change; the paper recommends 0.6 to 0.8, 1 is GRPO. "
            "In later steps of a rollout only shaping_scope='exact_step' reaches it exactly.",
            "(0, 1]",
        ),
    ] = 0.8
    steer_mapping: Annotated[
        str,
        Setting(
            "How an entropy change becomes a weight: 'exponential' (Eq. 10), 'linear' or 'binary'.",
            choices=("exponential", "linear", "binary"),
        ),
    ] = "exponential"
    steer_form: Annotated[
        str,
        Setting(
            "How the change is computed: 'paper' estimates it by Eq. 9 with the clip indicator of Eq. 6; 'released' "
            "as the authors' code does (one factor 1 - pi, no indicator, rollout entropies, floor 0.02); 'exact' "
            "takes the whole vocabulary, with one more pass of the LM head.",
            choices=("paper", "released", "exact"),
        ),
    ] = "paper"


@dataclass
class StareSettings(ShapingConfig):
    """Settings of `"stare"`."""

    stare_variant: Annotated[
        None | str | list[str],  # noqa: RUF036  # as advantage_shaping
        Setting(
            "'O1' to 'O4', 'C1' to 'C4', or operations: amplify_high_positive (O1), attenuate_low_positive (O2), "
            "amplify_low_negative (O3), attenuate_high_negative (O4). Public sources disagree which is O2 and which "
            "O3. Unset: 'O1', or with hold_entropy 'C2'.",
            choices=NAMES,
        ),
    ] = None
    stare_top_fraction: Annotated[
        float,
        Setting(
            "P: share of the tokens with positive, and of those with negative advantage, that counts as surprising.",
            "[0, 1]",
        ),
    ] = 0.1
    stare_amplify: Annotated[
        float,
        Setting(
            "W, which amplifies. The paper has 1.1 for 7B models, 1.05 for 14B and 32B. hold_entropy moves it.",
            "[1, inf)",
            needs={"stare_variant": AMPLIFYING, "hold_entropy": None},
        ),
    ] = 1.1
    stare_attenuate: Annotated[
        float,
        Setting(
            "M, which attenuates. The paper has 0.9 for 7B models, 0.95 for 14B and 32B. hold_entropy moves it.",
            "(0, 1]",
            needs={"stare_variant": ATTENUATING, "hold_entropy": None},
        ),
    ] = 0.9
    stare_gate: Annotated[
        str | None,
        Setting(
            "Which entropy is compared with the target: the mean of the rollout ('batch'), of each completion "
            "('sample') or of each token ('token'); 'none': the gate is always open. Unset: 'batch', or with "
            "hold_entropy 'none'.",
            choices=("batch", "sample", "token", "none"),
        ),
    ] = None
    stare_target_entropy: Annotated[
        float,
        Setting(
            "The gate is open while the entropy is below this, in the unit of stare_target_entropy_unit.",
            "(0, inf)",
            needs=COMPARED,
        ),
    ] = 0.3
    stare_target_entropy_unit: Annotated[
        str,
        Setting(
            "'nats' (per token), or 'initial': a multiple of the first rollout's entropy (0.8: four fifths of it).",
            choices=("nats", "initial"),
            needs=COMPARED,
        ),
    ] = "nats"
    stare_adaptive: Annotated[
        bool,
        Setting(
            "Move W and M at each rollout: away from 1 while the entropy is below the target, back while it is above.",
            needs=COMPARED,
        ),
    ] = False


@dataclass
class PassAtKSettings(CorrectnessSettings):
    """Settings of `"pass_at_k"`."""

    pass_at_k: Annotated[
        int, Setting("k: tries of which one must be correct; < num_generations. 1 is GRPO.", "[1, inf)", neutral=1)
    ] = 4


@dataclass
class MethodSettings(PassAtKSettings, StareSettings, SteerSettings):
    """The settings of these methods."""
