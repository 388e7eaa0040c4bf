"""The optimisation: clipped tokens, loss, gradient, the two engines, and numbers that are not possible."""

from steer_trl.diagnostics.estimators import MEAN
from steer_trl.diagnostics.keys import names
from steer_trl.diagnostics.keys.row import FROM_ZERO, OPTIMISATION, Key, Panel

OF_LOSS = "share of tokens that the loss clips"
UPPER = (
    r"share of all tokens that the loss clips at $1 + \varepsilon_\text{high}$, with a probability below 0.2 at "
    "rollout time, or not. Absent for losses that do not clip, and on-policy"
)
LOWER = r"the same at $1 - \varepsilon_\text{low}$"
OF_ENGINES = "training engine against vLLM, after TRL has truncated it, or set it to 0; far from 1 the two disagree"


def clipped(name: str, about: str, label: str) -> Key:
    """A key of the diagnostics about clipped tokens."""
    return Key(name, "0 to 1", about, label, origin="diagnostics", estimator=MEAN)


PANELS = (
    Panel(
        "Clipped tokens",
        "share",
        OPTIMISATION,
        (
            Key("clip_ratio/high_mean", "0 to 1", OF_LOSS, "above the range", origin="TRL"),
            Key("clip_ratio/low_mean", "0 to 1", OF_LOSS, "below the range", origin="TRL"),
            clipped("clip/upper_unlikely", UPPER, "above, unlikely tokens"),
            clipped("clip/upper_likely", UPPER, "above, likely tokens"),
            clipped("clip/lower_unlikely", LOWER, "below, unlikely tokens"),
            clipped("clip/lower_likely", LOWER, "below, likely tokens"),
        ),
        "Tokens whose probability has moved so far since the rollout that the loss leaves them alone.",
        "a few per cent at most. Mostly above and unlikely: the clip range keeps surprising good tokens from growing.",
        within=FROM_ZERO,
        must_move=True,
    ),
    Panel(
        "Loss",
        "",
        OPTIMISATION,
        (Key(names.LOSS, "", "the number that is minimised", "loss", origin="TRL"),),
        "The number that is minimised. In this kind of training it shows little: it stays near 0 by construction.",
        "finite.",
    ),
    Panel(
        "Size of the gradient",
        "norm, before clipping",
        OPTIMISATION,
        (
            Key(
                names.GRAD_NORM,
                "",
                "norm of the gradient, before it is clipped",
                "norm",
                origin="TRL",
                alarms=("no_gradient",),
            ),
        ),
        "How hard each step pulls.",
        "of one order of magnitude. Growing peaks come before a collapse or an explosion.",
        within=FROM_ZERO,
    ),
    Panel(
        "Learning rate",
        "",
        OPTIMISATION,
        (
            Key(
                names.LEARNING_RATE,
                "",
                "as the schedule sets it",
                "learning rate",
                origin="TRL",
                alarms=("no_step",),
            ),
        ),
        "As the schedule sets it.",
        "as you meant it.",
        within=FROM_ZERO,
        must_move=True,
    ),
    Panel(
        "Distance to the reference",
        "nats per token",
        OPTIMISATION,
        (
            Key(
                "kl",
                "nats per token",
                "estimate of the KL divergence from the reference model, where `beta` is not 0",
                "KL divergence",
                origin="TRL",
            ),
        ),
        "How far the model has gone from the one it is held to.",
        "it grows slowly.",
        within=FROM_ZERO,
    ),
    Panel(
        "Generation against training",
        "importance ratio",
        OPTIMISATION,
        (
            Key("sampling/importance_sampling_ratio/mean", "", OF_ENGINES, "mean", origin="TRL"),
            Key("sampling/importance_sampling_ratio/min", "", OF_ENGINES, "smallest", origin="TRL"),
            Key("sampling/importance_sampling_ratio/max", "", OF_ENGINES, "largest", origin="TRL"),
        ),
        "vLLM writes and the trainer learns; here they are compared on the same tokens.",
        "the mean is near 1. Far from it the two engines disagree about the model. TRL takes it after it has "
        "truncated the ratios beyond `vllm_importance_sampling_clip_max`, or set them to 0, so it can be near 1 with "
        "half of them cut: `sampling/sampling_logp_difference/mean` is from before.",
    ),
    Panel(
        "Impossible values",
        "share of tokens",
        OPTIMISATION,
        (
            Key(
                names.OUT_OF_BOUNDS,
                "0 to 1",
                "share of tokens whose log-probability or entropy is no possible number: ln π > 0, H < 0 or H > ln V "
                "by more than 0.001, NaN or infinite. Anything but 0 means that the kernel or the model is wrong",
                "out of bounds",
                estimator=MEAN,
                alarms=("out_of_bounds",),
            ),
        ),
        "Tokens whose log-probability is above 0, or whose entropy is outside of its bounds.",
        "all 0. Anything else is a fault of a kernel or of a library.",
        within=FROM_ZERO,
    ),
)

UNDRAWN = (
    Key("clip_ratio/region_mean", "0 to 1", OF_LOSS, origin="TRL"),
    Key("cispo_clip_ratio", "0 to 1", f"{OF_LOSS}, with `cispo`", origin="TRL"),
    Key("vespo/phi_seq_mean", "", "mean weight of a sequence in the loss `vespo`", origin="TRL"),
)
