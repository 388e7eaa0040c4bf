"""The panels of the page: which keys of the log each one draws, what a reader sees, and what is healthy.

A key may be a pattern. A panel of which the runs have no key is left out. Of several runs it shows one key at a time,
first the one that most of them have.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

OUTCOME, METHOD, MACHINE = "What the run does", "How the method acts", "The machine room"


@dataclass(frozen=True)
class Panel:
    """One panel.

    Attributes:
        keys (`dict[str, str]`): keys or patterns of the log, and what the page calls them; patterns keep their keys.
        sees (`str`), healthy (`str`): a sentence each for who has not read the papers.
        within (`tuple`): ends of the vertical axis that it has at the least; `None` where the data decide.
        targets (`tuple[str, ...]`): keys that are drawn as dashed lines beside the first.
        instead (`dict[str, str]`): of several runs, the key that stands for another in a run that has not that.
        is_stacked (`bool`): whether the lines are parts of a whole, drawn on top of each other, one run at a time.
        has_start (`bool`): whether the first value is drawn through as a dotted line.
        must_move (`bool`): whether it is left out where nothing changes.
    """

    title: str
    unit: str
    section: str
    keys: dict[str, str]
    sees: str
    healthy: str
    within: tuple[float | None, float | None] = (None, None)
    targets: tuple[str, ...] = ()
    instead: Mapping[str, str] = field(default_factory=dict)
    is_stacked: bool = False
    has_start: bool = False
    must_move: bool = False


SHARE = (0.0, 1.0)

PANELS = (
    Panel(
        "Policy entropy",
        "nats per token",
        OUTCOME,
        {"rollout_entropy": "of whole rollouts", "entropy": "in the loss"},
        "How undecided the model is about its next token, on average. Dotted is where it began, dashed its target, if "
        "it has one.",
        "it falls slowly, or stays near the target. At a small share of its start the model writes the same few "
        "answers, and there is nothing left to learn from; if it keeps rising, the text falls apart.",
        within=(0.0, None),
        targets=("stare/target_entropy", "hold_entropy/reference"),
        instead={"rollout_entropy": "entropy"},
        has_start=True,
    ),
    Panel(
        "Reward",
        "mean of a rollout",
        OUTCOME,
        {"reward": "mean", "reward_std": "spread in a group"},
        "What the reward function gives to the training completions.",
        "it rises. Rising while the entropy vanishes, it says that the model repeats what it could already do.",
    ),
    Panel(
        "Evaluation",
        "0 to 1",
        OUTCOME,
        {
            r"eval_.*pass@\d+": "",
            r"eval_.*avg@\d+": "",
            r"eval_.*accuracy": "",
            r"eval_.*maj@\d+": "",
            "eval_reward": "reward",
        },
        "Problems that are not trained on: avg or accuracy is one try, pass@k at least one of k tries, maj@k the vote "
        "of k tries.",
        "all rise. One try better and pass@k worse is the mark of collapse: fewer problems are within reach.",
        within=(0.0, None),
    ),
    Panel(
        "Nothing to learn from",
        "share",
        OUTCOME,
        {
            "frac_reward_zero_std": "groups of one reward",
            "completions/clipped_ratio": "completions cut off",
            "math_reward/unanswered": "without an answer",
            "math_reward/timed_out": "judged too late",
        },
        "Groups whose completions all got the same reward teach nothing; completions that are cut off never reach "
        "their answer.",
        "well below a half. Near 1, the problems are too easy or too hard, or the length is too short.",
        within=SHARE,
    ),
    Panel(
        "Groups that dynamic sampling chooses from",
        "share",
        OUTCOME,
        {
            "dynamic_sampling/informative": "informative",
            "dynamic_sampling/all_correct": "all correct",
            "dynamic_sampling/all_incorrect": "all incorrect",
            "dynamic_sampling/hidden": "missing in the end",
        },
        "Only groups with both correct and incorrect completions teach something; the others are written and dropped.",
        "many are informative. All correct: the problems have become too easy; all incorrect: they are too hard.",
        within=SHARE,
    ),
    Panel(
        "What dynamic sampling costs",
        "tokens written per token trained on",
        OUTCOME,
        {"dynamic_sampling/tokens_per_trained_token": "tokens"},
        "A curve over steps flatters a run that writes more for each step; this is how much more.",
        "below 3, say. When it grows, most of the time goes into completions that are dropped.",
        within=(1.0, None),
    ),
    Panel(
        "Length of completions",
        "tokens",
        OUTCOME,
        {
            "completions/mean_length": "mean",
            "completions/max_length": "longest",
            "completions/min_length": "shortest",
            "completions/mean_terminated_length": "mean of those that end",
        },
        "How long the model writes.",
        "it changes slowly. Falling together with the entropy, the model has settled on one short way; jumping, it "
        "has come apart.",
        within=(0.0, None),
    ),
    Panel(
        "Token weights",
        "1 is plain GRPO",
        METHOD,
        {
            "shaping/weight_mean": "mean",
            "shaping/weight_min": "smallest",
            "shaping/weight_max": "largest",
        },
        "The factor by which the method multiplies the advantage of each token: mean, smallest and largest of a step; "
        "where runs are compared, one of these.",
        "some weights are not 1. Smallest and largest at 1 all the time: the method does nothing.",
    ),
    Panel(
        "Tokens that the method changes",
        "share",
        METHOD,
        {"shaping/share_changed": "tokens changed", "weights/effective_share": "effective share of tokens"},
        "Share of the tokens that are trained on with another advantage than GRPO's.",
        "above 0. At 0 the method is off: its gate is closed, or every advantage is 0.",
        within=SHARE,
    ),
    Panel(
        "How the weights are spread",
        "share of tokens",
        METHOD,
        {
            "weights/under_0.5": "under 0.5",
            "weights/0.5_to_0.9": "0.5 to 0.9",
            "weights/0.9_to_1": "0.9 to 1",
            "weights/1": "exactly 1",
            "weights/1_to_1.1": "1 to 1.1",
            "weights/1.1_to_2": "1.1 to 2",
            "weights/over_2": "over 2",
        },
        "How many tokens get which weight, from damped below to amplified on top.",
        "as the method means it: STEER damps a few tokens, STARE lifts some and leaves most at 1, REPO-R weights all.",
        within=SHARE,
        is_stacked=True,
    ),
    Panel(
        "Gate",
        "0 closed, 1 open",
        METHOD,
        {"stare/gate": "gate", "stare/gate_duty": "open lately", "stare/saturated": "schedule at its bound"},
        "STARE acts while the entropy is below the target: then its gate is open.",
        "it opens and closes. Open all the time while the entropy falls, the method is too weak; never open, the "
        "target is below what the run has.",
        within=SHARE,
    ),
    Panel(
        "Strength of the gate's weights",
        "factor",
        METHOD,
        {"stare/amplify": "W, amplifies", "stare/attenuate": "M, attenuates"},
        "The weights that STARE gives while its gate is open; they move where the schedule is adaptive.",
        "between their bounds. At a bound for long, the schedule can do no more.",
        must_move=True,
    ),
    Panel(
        "Held entropy: distance from the target",
        "relative",
        METHOD,
        {"hold_entropy/error": "distance"},
        "How far the entropy is from the target that hold_entropy keeps it above: 0.1 is ten per cent higher.",
        "it stays above 0 with a strength of 0, or falls to 0 and stays within 0.1 of it.",
    ),
    Panel(
        "Held entropy: strength",
        "of the method",
        METHOD,
        {"hold_entropy/strength": "strength"},
        "What the regulator raises while the entropy is below its target. At 0 the method changes nothing.",
        "it is 0 until the target is reached; then it moves. At its upper bound for long, the target is out of reach.",
    ),
    Panel(
        "Which tokens move the entropy",
        "predicted change, nats per unit of step",
        METHOD,
        {
            "quadrants/positive_expected_change": "good answer, expected token",
            "quadrants/positive_surprising_change": "good answer, surprising token",
            "quadrants/negative_expected_change": "bad answer, expected token",
            "quadrants/negative_surprising_change": "bad answer, surprising token",
        },
        "Learning from an expected token of a good answer sharpens the model, from a surprising one widens it; in bad "
        "answers it is the other way round. Below 0 the entropy falls.",
        "no quadrant outweighs all others for long.",
    ),
    Panel(
        "Tokens in the four quadrants",
        "share of tokens",
        METHOD,
        {
            "quadrants/positive_expected": "good answer, expected token",
            "quadrants/positive_surprising": "good answer, surprising token",
            "quadrants/negative_expected": "bad answer, expected token",
            "quadrants/negative_surprising": "bad answer, surprising token",
        },
        "Good and bad answers by the sign of their advantage; a token is surprising if it is less likely than the "
        "entropy of its place suggests.",
        "all four have tokens. A share of surprising tokens that goes to 0 is a collapse, seen from below.",
        within=(0.0, None),
    ),
    Panel(
        "Predicted and realised change of the entropy",
        "nats per token",
        METHOD,
        {
            "entropy/realised_change": "realised",
            "entropy/predicted_change": "predicted, exact",
            "entropy/estimated_change": "predicted, estimate",
        },
        "What the weights should do to the entropy, and what came of it. The prediction has no learning rate, so only "
        "its sign and its course compare.",
        "they go up and down together.",
    ),
    Panel(
        "Does the prediction hold?",
        "correlation",
        METHOD,
        {"entropy/predicted_correlation": "exact", "entropy/estimated_correlation": "estimate"},
        "Predicted against realised change of the entropy over the last steps.",
        "above 0: the method steers by something that comes true.",
        within=(-1.0, 1.0),
    ),
    Panel(
        "Entropy along the completion",
        "nats per token",
        METHOD,
        {
            "entropy/first_quarter": "first quarter",
            "entropy/second_quarter": "second",
            "entropy/third_quarter": "third",
            "entropy/last_quarter": "last",
        },
        "Where in its answer the model still decides.",
        "the first quarter keeps some: a collapse there fixes the whole answer.",
        within=(0.0, None),
    ),
    Panel(
        "Entropy of good and bad answers",
        "nats per token",
        METHOD,
        {"entropy/positive": "advantage above 0", "entropy/negative": "advantage below 0"},
        "Whether the model is surer where it is right.",
        "good answers a little below bad ones. If both vanish, it is sure of everything.",
        within=(0.0, None),
    ),
    Panel(
        "Clipped tokens",
        "share",
        MACHINE,
        {
            "clip_ratio/high_mean": "above the range",
            "clip_ratio/low_mean": "below the range",
            "clip/upper_unlikely": "above, unlikely tokens",
            "clip/upper_likely": "above, likely tokens",
            "clip/lower_unlikely": "below, unlikely tokens",
            "clip/lower_likely": "below, likely tokens",
        },
        "Tokens whose probability has moved so far since the rollout that the loss leaves them alone.",
        "a few per cent at most. Mostly above and unlikely: the clip range keeps surprising good tokens from growing.",
        within=(0.0, None),
        must_move=True,
    ),
    Panel(
        "Loss",
        "",
        MACHINE,
        {"loss": "loss"},
        "The number that is minimised. In this kind of training it says little: it stays near 0 by construction.",
        "finite.",
    ),
    Panel(
        "Size of the gradient",
        "norm, before clipping",
        MACHINE,
        {"grad_norm": "norm"},
        "How hard each step pulls.",
        "of one order of magnitude. Growing peaks come before a collapse or an explosion.",
        within=(0.0, None),
    ),
    Panel(
        "Learning rate",
        "",
        MACHINE,
        {"learning_rate": "learning rate"},
        "As the schedule sets it.",
        "as you meant it.",
        within=(0.0, None),
        must_move=True,
    ),
    Panel(
        "Distance to the reference",
        "nats per token",
        MACHINE,
        {"kl": "KL divergence"},
        "How far the model has gone from the one it is held to.",
        "it grows slowly.",
        within=(0.0, None),
    ),
    Panel(
        "Generation against training",
        "importance ratio",
        MACHINE,
        {
            "sampling/importance_sampling_ratio/mean": "mean",
            "sampling/importance_sampling_ratio/min": "smallest",
            "sampling/importance_sampling_ratio/max": "largest",
        },
        "vLLM writes and the trainer learns; here they are compared on the same tokens.",
        "the mean is near 1. Far from it the two engines disagree about the model.",
    ),
    Panel(
        "Numbers that cannot be",
        "share of tokens",
        MACHINE,
        {r"sanity/.+": ""},
        "Tokens whose log-probability is above 0, or whose entropy is outside of its bounds.",
        "all 0. Anything else is a fault of a kernel or of a library.",
        within=(0.0, None),
    ),
)
