"""How the method acts: weights, gate, strength, quadrants, and the change of the entropy."""

from steer_trl.diagnostics.estimators import EFFECTIVE_SHARE, MEAN, MEAN_WEIGHT, RATIO, Estimator
from steer_trl.diagnostics.keys import names
from steer_trl.diagnostics.keys.outcome import NATS, SHARES
from steer_trl.diagnostics.keys.row import FROM_ZERO, METHOD, SHARE, Key, Panel

PER_STEP = "nats per unit of step size"
TOKEN_WEIGHTS = "Token weights"
"""A panel of `curves.py`."""


def diagnosed(name: str, unit: str, about: str, label: str = "", estimator: Estimator = MEAN) -> Key:
    """A key of the diagnostics, which are sums over the tokens of a step."""
    return Key(name, unit, about, label, origin="diagnostics", estimator=estimator)


EXTREMES = "extremes of the same"

WEIGHTS = Panel(
    TOKEN_WEIGHTS,
    "1 is plain GRPO",
    METHOD,
    (
        Key(
            names.WEIGHT_MEAN,
            "",
            "mean of the token weights of an optimizer step, summed as w − 1 so that 0.99999 and 1 stay "
            "distinguishable",
            "mean",
            estimator=MEAN_WEIGHT,
            picture=TOKEN_WEIGHTS,
        ),
        Key(names.WEIGHT_MIN, "", EXTREMES, "smallest", picture=TOKEN_WEIGHTS),
        Key(names.WEIGHT_MAX, "", EXTREMES, "largest", picture=TOKEN_WEIGHTS),
    ),
    "The factor by which the method multiplies the advantage of each token: mean, smallest and largest of a step; "
    "where runs are compared, one of these.",
    "some weights are not 1. Smallest and largest at 1 all the time: the method does nothing.",
)

CHANGED = Panel(
    "Tokens that the method changes",
    "share",
    METHOD,
    (
        Key(
            names.SHARE_CHANGED,
            "0 to 1",
            "share of tokens whose advantage the loss saw changed",
            "tokens changed",
            estimator=MEAN,
            picture=SHARES,
        ),
        diagnosed(
            "weights/effective_share",
            "0 to 1",
            r"$(\sum w)^2 / (n \sum w^2)$: 1 where all weights are equal, 1/n where one token has all",
            "effective share of tokens",
            EFFECTIVE_SHARE,
        ),
    ),
    "Share of the tokens that are trained on with another advantage than GRPO's.",
    "above 0. At 0 the method is off: its gate is closed, or every advantage is 0.",
    within=SHARE,
)

BY_WEIGHT = (
    "share of the tokens by weight; `weights/1` is exactly 1, the bins next to it have 0.9 and 1.1. Methods with "
    "token weights only"
)

SPREAD = Panel(
    "How the weights are spread",
    "share of tokens",
    METHOD,
    (
        diagnosed("weights/under_0.5", "0 to 1", BY_WEIGHT, "under 0.5"),
        diagnosed("weights/0.5_to_0.9", "0 to 1", BY_WEIGHT, "0.5 to 0.9"),
        diagnosed("weights/0.9_to_1", "0 to 1", BY_WEIGHT, "0.9 to 1"),
        diagnosed("weights/1", "0 to 1", BY_WEIGHT, "exactly 1"),
        diagnosed("weights/1_to_1.1", "0 to 1", BY_WEIGHT, "1 to 1.1"),
        diagnosed("weights/1.1_to_2", "0 to 1", BY_WEIGHT, "1.1 to 2"),
        diagnosed("weights/over_2", "0 to 1", BY_WEIGHT, "over 2"),
    ),
    "How many tokens get which weight, from damped below to amplified on top.",
    "as the method means it: STEER damps a few tokens, STARE lifts some and leaves most at 1, REPO-R weights all.",
    within=SHARE,
    is_stacked=True,
)

STARE_GATE = Panel(
    "Gate",
    "0 closed, 1 open",
    METHOD,
    (
        Key(
            names.GATE,
            "0 or 1",
            'whether STARE\'s gate is open; absent for the gates of completions and tokens, 1 for `stare_gate="none"`',
            "gate",
            alarms=("idle", "weak_gate"),
            picture=SHARES,
        ),
        Key(
            "stare/gate_duty",
            "0 to 1",
            'share of the last 32 rollouts with the gate open; only for `stare_gate="batch"`',
            "open lately",
        ),
        Key(
            names.SATURATED,
            "0 or 1",
            "whether W and M, as far as the operations use them, are at their bounds; only for `stare_adaptive`",
            "schedule at its bound",
            alarms=("saturated",),
        ),
    ),
    "STARE acts while the entropy is below the target: then its gate is open.",
    "it opens and closes. Open all the time while the entropy falls, the method is too weak; never open, the target "
    "is below what the run has.",
    within=SHARE,
)

STARE_STRENGTH = Panel(
    "Strength of the gate's weights",
    "factor",
    METHOD,
    (
        Key("stare/amplify", "", "W and M of the current rollout", "W, amplifies"),
        Key("stare/attenuate", "", "W and M of the current rollout", "M, attenuates"),
    ),
    "The weights that STARE gives while its gate is open; they move where the schedule is adaptive.",
    "between their bounds. At a bound for long, the schedule can do no more.",
    must_move=True,
)

HELD_DISTANCE = Panel(
    "Held entropy: distance from the target",
    "relative",
    METHOD,
    (
        Key(
            names.HELD_ERROR,
            "",
            f"relative distance of the last rollout's `{names.ROLLOUT_ENTROPY}` from the target: H / H* − 1",
            "distance",
        ),
    ),
    "How far the entropy is from the target that hold_entropy keeps it above: 0.1 is ten per cent higher.",
    "it stays above 0 with a strength of 0, or falls to 0 and stays within 0.1 of it.",
)

HELD_STRENGTH = Panel(
    "Held entropy: strength",
    "of the method",
    METHOD,
    (
        Key(
            names.STRENGTH,
            "",
            "what moves: ζ of `repo_r`, W − 1 of `stare`, the strength of `entropy_change`; 0 while the entropy is "
            "above the target",
            "strength",
            alarms=("idle", "out_of_reach"),
        ),
    ),
    "What the regulator raises while the entropy is below its target. At 0 the method changes nothing.",
    "it is 0 until the target is reached; then it moves. At its upper bound for long, the target is out of reach.",
)

CONTRIBUTION = "what each quadrant contributes to `entropy/predicted_change`; the four add up to it"

CONTRIBUTIONS = Panel(
    "Which tokens move the entropy",
    "predicted change, nats per unit of step",
    METHOD,
    (
        diagnosed("quadrants/positive_expected_change", PER_STEP, CONTRIBUTION, "good answer, expected token"),
        diagnosed("quadrants/positive_surprising_change", PER_STEP, CONTRIBUTION, "good answer, surprising token"),
        diagnosed("quadrants/negative_expected_change", PER_STEP, CONTRIBUTION, "bad answer, expected token"),
        diagnosed("quadrants/negative_surprising_change", PER_STEP, CONTRIBUTION, "bad answer, surprising token"),
    ),
    "Learning from an expected token of a good answer sharpens the model, from a surprising one widens it; in bad "
    "answers it is the other way round. Below 0 the entropy falls.",
    "no quadrant outweighs all others for long.",
)

LOWERS = "share of the tokens in quadrant I and in quadrant III, whose updates lower the entropy"
RAISES = "share in II and in IV, whose updates raise it; what the four lack to 1 has an advantage of 0"

QUADRANTS = Panel(
    "Tokens in the four quadrants",
    "share of tokens",
    METHOD,
    (
        diagnosed("quadrants/positive_expected", "0 to 1", LOWERS, "good answer, expected token"),
        diagnosed("quadrants/positive_surprising", "0 to 1", RAISES, "good answer, surprising token"),
        diagnosed("quadrants/negative_expected", "0 to 1", RAISES, "bad answer, expected token"),
        diagnosed("quadrants/negative_surprising", "0 to 1", LOWERS, "bad answer, surprising token"),
    ),
    "Good and bad answers by the sign of their advantage; a token is surprising if it is less likely than the entropy "
    "of its place suggests.",
    "all four have tokens. A share of surprising tokens that goes to 0 is a collapse, seen from below.",
    within=FROM_ZERO,
)

CHANGE = Panel(
    "Predicted change of the entropy",
    PER_STEP,
    METHOD,
    (
        diagnosed(
            "entropy/predicted_change",
            PER_STEP,
            r"token mean of $-I_\text{clip}\, r \hat A \Phi$ with the exact $\Phi$: where a method reads it, "
            "and in steps of the token log",
            "predicted, exact",
        ),
        diagnosed(
            "entropy/estimated_change",
            PER_STEP,
            r"token mean of STEER's estimate $\Omega$ (Eq. 9) of the same, for $\hat A$; in every step. A few rare "
            "tokens can make most of it",
            "predicted, estimate",
        ),
    ),
    "What the update should do to the entropy. It has no learning rate: only its sign and its course count.",
    "its sign is that of the change of the entropy.",
)

BY_PLACE = "mean entropy of the tokens in that quarter of their completion, by their place among its trained tokens"

ALONG = Panel(
    "Entropy along the completion",
    NATS,
    METHOD,
    (
        diagnosed("entropy/first_quarter", NATS, BY_PLACE, "first quarter"),
        diagnosed("entropy/second_quarter", NATS, BY_PLACE, "second"),
        diagnosed("entropy/third_quarter", NATS, BY_PLACE, "third"),
        diagnosed("entropy/last_quarter", NATS, BY_PLACE, "last"),
    ),
    "Where in its answer the model still decides.",
    "the first quarter keeps some: a collapse there fixes the whole answer.",
    within=FROM_ZERO,
)

BY_SIGN = (
    "mean entropy of the tokens with a positive and with a negative advantage: of better and of worse completions of "
    "a group"
)

GOOD_AND_BAD = Panel(
    "Entropy of good and bad answers",
    NATS,
    METHOD,
    (
        diagnosed("entropy/positive", NATS, BY_SIGN, "advantage above 0"),
        diagnosed("entropy/negative", NATS, BY_SIGN, "advantage below 0"),
    ),
    "Whether the model is surer where it is right.",
    "good answers a little below bad ones. If both vanish, it is sure of everything.",
    within=FROM_ZERO,
)

PANELS = (
    *(WEIGHTS, CHANGED, SPREAD, STARE_GATE, STARE_STRENGTH, HELD_DISTANCE, HELD_STRENGTH),
    *(CONTRIBUTIONS, QUADRANTS, CHANGE, ALONG, GOOD_AND_BAD),
)

OF_DCPO = "share of tokens outside DCPO's own bounds; TRL's `clip_ratio/region_mean` and the like are 0 then"
OF_GRPO_S = (
    "share of tokens whose completion's ratio GRPO-S clips; TRL's `clip_ratio/region_mean` and the like are 0 then"
)

UNDRAWN = (
    Key(
        "shaping/advantage_change",
        "as the advantage",
        "mean absolute change of the tokens' advantages in the loss",
        estimator=MEAN,
    ),
    Key(
        names.RELATIVE_CHANGE,
        "",
        r"the same over the mean absolute advantage: $\sum \lvert\hat A - A\rvert / \sum \lvert A\rvert$; below 0.001 "
        "a method does next to nothing",
        estimator=RATIO,
        alarms=("idle",),
    ),
    Key(
        names.ROLLOUT_ADVANTAGE_CHANGE,
        "as the advantage",
        "mean absolute change made by the methods that act on whole rollouts; once per rollout",
        alarms=("idle",),
    ),
    Key(
        "stare/initial_entropy",
        NATS,
        "of a relative target: the first rollout's entropy, which the gate needs at once",
    ),
    Key(
        names.HELD_TARGET,
        NATS,
        "the level that `hold_entropy` keeps; absent until a relative one is known, after the first rollouts",
        alarms=("collapse", "explosion", "out_of_reach"),
    ),
    Key(
        "hold_entropy/initial_entropy",
        NATS,
        f"`{names.START_ENTROPY}`, of which a relative level is a multiple; absent until all its rollouts are written",
    ),
    Key(
        names.OUT_OF_REACH,
        "rollouts",
        "in a row with the strength at its bound and the entropy more than 10 % below; at 20 an alarm reports it",
        alarms=("out_of_reach",),
    ),
    Key("clip_cov/dropped", "0 to 1", "share of tokens that Clip-Cov gave no gradient", estimator=MEAN),
    Key("kl_cov/held", "0 to 1", "share of tokens that KL-Cov pulls back", estimator=MEAN),
    Key("dcpo/clipped_low", "0 to 1", OF_DCPO, estimator=MEAN),
    Key("dcpo/clipped_high", "0 to 1", OF_DCPO, estimator=MEAN),
    Key("grpo_s/clipped_low", "0 to 1", OF_GRPO_S, estimator=MEAN),
    Key("grpo_s/clipped_high", "0 to 1", OF_GRPO_S, estimator=MEAN),
)
