"""What the run does: its entropy, its reward, its evaluations, the groups it learns from, the lengths."""

from steer_trl.diagnostics.keys import names
from steer_trl.diagnostics.keys.row import FROM_ZERO, OUTCOME, SHARE, Key, Panel

NATS = "nats per token"
POLICY_ENTROPY, REWARD, SHARES = "Policy entropy", "Reward", "Shares"
"""Panels of `curves.py`."""

ENTROPY = Panel(
    POLICY_ENTROPY,
    NATS,
    OUTCOME,
    (
        Key(
            names.ROLLOUT_ENTROPY,
            NATS,
            "token mean of the full-vocabulary entropy of a rollout under the policy that wrote it, before any update "
            "with it; only with a method in use, and where all of it is seen: the tokens of a step are compared, a "
            "gate reads it, or TRL scores the rollout",
            "of whole rollouts",
            picture=POLICY_ENTROPY,
        ),
        Key(
            names.ENTROPY,
            NATS,
            f"the current policy's, in the loss, at every optimizer step; `{names.ROLLOUT_ENTROPY}` is that of whole "
            "rollouts, before any update",
            "in the loss",
            origin="TRL",
            alarms=("collapse", "explosion", "weak_gate", "out_of_reach"),
            picture=POLICY_ENTROPY,
            instead_of=names.ROLLOUT_ENTROPY,
        ),
        Key(
            names.STARE_TARGET,
            NATS,
            "what the gate compares with; absent until a relative target has its first rollout, and where nothing is "
            "compared with it",
            "STARE's target",
            alarms=("collapse", "explosion", "weak_gate"),
            picture=POLICY_ENTROPY,
            is_target=True,
        ),
        Key(
            names.HELD_REFERENCE,
            NATS,
            "what the entropy is compared with: the target, or a path to it from a lower entropy",
            "the level held",
            picture=POLICY_ENTROPY,
            is_target=True,
        ),
    ),
    "How undecided the model is about its next token, on average. Dotted is where it began, dashed its target, if it "
    "has one.",
    "it falls slowly, or stays near the target. At a small fraction of its initial value, the model writes the same "
    "few answers, and there is nothing left to learn from; if it keeps rising, the text falls apart.",
    within=FROM_ZERO,
    has_start=True,
)

EVALUATION = Panel(
    "Evaluation",
    "0 to 1",
    OUTCOME,
    (
        Key(
            r"eval_.*pass@\d+",
            "0 to 1",
            "probability that one of j samples is correct, j = 2, 4, 8, … up to k, without bias: "
            r"$1 - \binom{n-c}{j} / \binom{n}{j}$",
            origin="benchmarks",
            family="eval_aime24_pass@j",
        ),
        Key(
            r"eval_.*cover@0\.\d+",
            "0 to 1",
            "share of problems of which at least this share of the k samples is correct",
            origin="benchmarks",
            family="eval_aime24_cover@t",
        ),
        Key(r"eval_.*avg@\d+", "0 to 1", "share of correct samples", origin="benchmarks", family="eval_aime24_avg@k"),
        Key(
            r"eval_.*accuracy",
            "0 to 1",
            "share of correct answers, in a log that has one",
            origin="benchmarks",
            family="eval_…accuracy",
        ),
        Key(
            r"eval_.*maj@\d+",
            "0 to 1",
            "probability that the most frequent answer is correct, ties broken at random",
            origin="benchmarks",
            family="eval_aime24_maj@k",
        ),
        Key("eval_reward", "as the reward", "mean reward on `eval_dataset`", "reward", origin="TRL"),
    ),
    "Problems that are not trained on: avg or accuracy is one try, pass@k at least one of k tries, maj@k the vote of "
    "k tries.",
    "all rise. One try better and pass@k worse is the mark of collapse: fewer problems are within reach.",
    within=FROM_ZERO,
)

DEAD = Panel(
    "Nothing to learn from",
    "share",
    OUTCOME,
    (
        Key(
            names.FRAC_REWARD_ZERO_STD,
            "0 to 1",
            "share of groups that are all correct or all incorrect, and teach nothing; with [dynamic "
            "sampling](dynamic_sampling.md) this and all keys of rewards are over everything that was written",
            "groups of one reward",
            origin="TRL",
            alarms=("dead_groups", "no_advantage", "no_gradient"),
            picture=SHARES,
        ),
        Key(
            names.CLIPPED_RATIO,
            "0 to 1",
            "share of completions cut off at `max_completion_length`",
            "completions cut off",
            origin="TRL",
            alarms=("truncation", "never_ends", "no_gradient", "one_reward", "one_reward_now"),
            picture=SHARES,
        ),
        Key(
            names.UNANSWERED,
            "0 to 1",
            "share of a rollout's completions without an answer",
            "without an answer",
            alarms=("unreadable", "one_reward", "one_reward_now"),
        ),
        Key(
            "math_reward/timed_out",
            "0 to 1",
            "share of a rollout's answers that missed the deadline of `MathReward`, or crashed its worker, at both "
            "tries",
            "judged too late",
        ),
    ),
    "Groups whose completions all got the same reward teach nothing; completions that are cut off never reach their "
    "answer.",
    "well below a half. Near 1, the problems are too easy or too hard, or the length is too short.",
    within=SHARE,
)

BY_THRESHOLD = "share of them that are all correct, or all incorrect (by `correct_threshold`)"

INFORMATIVE = Panel(
    "Groups that dynamic sampling chooses from",
    "share",
    OUTCOME,
    (
        Key(
            "dynamic_sampling/informative",
            "0 to 1",
            "share of the groups written for a rollout whose completions are not all equally correct",
            "informative",
        ),
        Key("dynamic_sampling/all_correct", "0 to 1", BY_THRESHOLD, "all correct"),
        Key("dynamic_sampling/all_incorrect", "0 to 1", BY_THRESHOLD, "all incorrect"),
        Key(
            names.HIDDEN,
            "0 to 1",
            'share of the rollout\'s groups that are not trained on: with `"resample"`, what was missing after the '
            "last attempt",
            "missing in the end",
        ),
    ),
    "Only groups with both correct and incorrect completions teach something; the others are written and dropped.",
    "many are informative. All correct: the problems have become too easy; all incorrect: they are too hard.",
    within=SHARE,
)

TOKENS_WRITTEN = Panel(
    "What dynamic sampling costs",
    "tokens written per token trained on",
    OUTCOME,
    (
        Key(
            "dynamic_sampling/tokens_per_trained_token",
            "",
            "tokens that the policy wrote for a rollout, over those of the completions trained on",
            "tokens",
        ),
    ),
    "A curve over steps flatters a run that generates more for each step; this is how much more.",
    "below about 3. When it grows, most of the time goes into completions that are dropped.",
    within=(1.0, None),
)

LENGTHS = Panel(
    "Length of completions",
    "tokens",
    OUTCOME,
    (
        Key("completions/mean_length", "tokens", "length of a completion", "mean", origin="TRL"),
        Key("completions/max_length", "tokens", "the longest completion", "longest", origin="TRL"),
        Key("completions/min_length", "tokens", "the shortest completion", "shortest", origin="TRL"),
        Key(
            "completions/mean_terminated_length",
            "tokens",
            "length of a completion that is not cut off",
            "mean of those that end",
            origin="TRL",
        ),
    ),
    "How long the model writes.",
    "it changes slowly. Falling together with the entropy, the model has settled on one short way; jumping, it has "
    "come apart.",
    within=FROM_ZERO,
)

PANELS = (
    ENTROPY,
    Panel(
        REWARD,
        "mean of a rollout",
        OUTCOME,
        (
            Key(
                names.REWARD,
                "as the reward",
                "mean of a rollout",
                "mean",
                origin="TRL",
                alarms=("one_reward", "one_reward_now"),
                picture=REWARD,
            ),
            Key(
                names.REWARD_STD,
                "as the reward",
                "standard deviation of the rewards, in a group or over the rollout, as `scale_rewards` asks",
                "spread",
                origin="TRL",
                alarms=(
                    "one_reward",
                    "one_reward_now",
                    "constant_reward",
                    "no_advantage",
                    "dead_groups",
                    "no_gradient",
                ),
                picture=REWARD,
            ),
        ),
        "What the reward function gives to the training completions.",
        "it rises. If it rises while the entropy vanishes, the model repeats what it could already do.",
    ),
    EVALUATION,
    DEAD,
    INFORMATIVE,
    TOKENS_WRITTEN,
    LENGTHS,
)

OF_PARTS = "share of correct completions: of all that were written for a rollout, of those trained on, of the others"
REWARD_OF_PARTS = (
    "mean reward of the completions trained on, and of those that were written and not; "
    f"`{names.REWARD}` is that of all"
)
OF_SAMPLES = "share of samples without an answer, cut off, judged incorrect at the deadline"

UNDRAWN = (
    Key(
        names.START_ENTROPY,
        NATS,
        f"what the run began with: mean `{names.ROLLOUT_ENTROPY}` of its first four rollouts, or of as many as have "
        "32 prompts together, and until then of those that there are. Alarms, terminal, report and card compare with "
        f"it; without it, with the first `{names.ROLLOUT_ENTROPY}` or `{names.ENTROPY}` of the log",
        alarms=("collapse", "explosion", "no_entropy"),
    ),
    Key(
        names.GENERATED_TOKENS,
        "tokens",
        "that the policy has written so far, on all ranks, those of dropped groups included; TRL's "
        f"`{names.NUM_TOKENS}` counts the prompts too, each as often as it is completed. `max_generated_tokens` ends "
        "a run by it",
    ),
    Key(names.NUM_TOKENS, "tokens", "of prompts and completions so far", origin="TRL"),
    Key(
        r"rewards/.+/mean",
        "as the reward",
        "mean of one reward function over a rollout",
        origin="TRL",
        alarms=("unscored",),
        family="rewards/NAME/mean",
    ),
    Key(
        r"rewards/.+/std",
        "as the reward",
        "standard deviation of one reward function over a rollout",
        origin="TRL",
        alarms=("constant_reward",),
        family="rewards/NAME/std",
    ),
    Key("dynamic_sampling/accuracy", "0 to 1", OF_PARTS),
    Key("dynamic_sampling/accuracy_trained", "0 to 1", OF_PARTS),
    Key("dynamic_sampling/accuracy_dropped", "0 to 1", OF_PARTS),
    Key("dynamic_sampling/reward_trained", "as the reward", REWARD_OF_PARTS),
    Key("dynamic_sampling/reward_dropped", "as the reward", REWARD_OF_PARTS),
    Key("dynamic_sampling/attempts", "", 'attempts at a rollout (`"resample"`)'),
    Key(
        "dynamic_sampling/waiting",
        "groups",
        'informative groups that are left over for the next rollout (`"resample"`)',
    ),
    Key(
        "dynamic_sampling/epochs",
        "passes",
        'prompts read, kept or dropped, over the rows of the data set (`"resample"`)',
    ),
    Key(
        r"eval_.*distinct@\d+",
        "",
        "number of different correct completions of a problem",
        origin="benchmarks",
        family="eval_aime24_distinct@k",
    ),
    Key(r"eval_.*unanswered", "0 to 1", OF_SAMPLES, origin="benchmarks", family="eval_aime24_unanswered"),
    Key(r"eval_.*truncated", "0 to 1", OF_SAMPLES, origin="benchmarks", family="eval_aime24_truncated"),
    Key(r"eval_.*timed_out", "0 to 1", OF_SAMPLES, origin="benchmarks", family="eval_aime24_timed_out"),
    Key(r"eval_.*num_tokens", "tokens", "length of a sample", origin="benchmarks", family="eval_aime24_num_tokens"),
    Key(
        r"eval_average_.+",
        "as above",
        "mean over benchmarks, each counting the same",
        origin="benchmarks",
        family="eval_average_avg, eval_average_maj, …",
    ),
)
