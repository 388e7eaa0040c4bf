"""The names of the log's keys that the alarms, terminal, report, model card and experiments read.

Code that computes a number writes its key in full. Code that reads a number uses the constant in this module.
"""

LOSS = "loss"
GRAD_NORM = "grad_norm"
LEARNING_RATE = "learning_rate"
REWARD = "reward"
REWARD_STD = "reward_std"
ENTROPY = "entropy"
CLIPPED_RATIO = "completions/clipped_ratio"
FRAC_REWARD_ZERO_STD = "frac_reward_zero_std"
NUM_TOKENS = "num_tokens"
"""The keys from `LOSS` to `NUM_TOKENS` are written by TRL and Transformers."""

ROLLOUT_ENTROPY = "rollout_entropy"
ENTROPIES = (ROLLOUT_ENTROPY, ENTROPY)
"""The two keys under which the policy's entropy is logged.

The first is the mean entropy of whole rollouts, before any update with them. The second is the mean entropy of the
tokens in the loss.
"""
START_ENTROPY = "rollout_entropy/start"
SAMPLED_AS_SCORED = "sampled_as_scored"
SAMPLED_ERROR = "sampled_as_scored/error"

WEIGHT_MEAN = "shaping/weight_mean"
WEIGHT_MIN = "shaping/weight_min"
WEIGHT_MAX = "shaping/weight_max"
SHARE_CHANGED = "shaping/share_changed"
RELATIVE_CHANGE = "shaping/relative_change"
ROLLOUT_ADVANTAGE_CHANGE = "rollout_advantage_change"
ROLLOUT_ADVANTAGE_LEFT = "rollout_advantage_left"

GATE = "stare/gate"
STARE_TARGET = "stare/target_entropy"

HELD_TARGET = "hold_entropy/target"
HELD_REFERENCE = "hold_entropy/reference"
HELD_ERROR = "hold_entropy/error"
STRENGTH = "hold_entropy/strength"
OUT_OF_REACH = "hold_entropy/out_of_reach"

UNANSWERED = "math_reward/unanswered"
GENERATED_TOKENS = "generated_tokens"
ATTEMPTS = "dynamic_sampling/attempts"
INFORMATIVE = "dynamic_sampling/informative"
WAITING = "dynamic_sampling/waiting"
TOKENS_PER_TRAINED_TOKEN = "dynamic_sampling/tokens_per_trained_token"
