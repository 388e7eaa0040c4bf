"""Settings that are refused or that cause a warning. `tests/messages.txt` holds the message of each."""

from steer_trl import SteerGRPOConfig
from steer_trl.shaping import Shaper
from support.runs import of_method


class Halved(Shaper):
    def weights(self, batch, measure):
        return 0.5 * batch.mask


class Misspelt(Shaper):
    def weight(self, batch, measure):
        return None


def config(**settings):
    return SteerGRPOConfig(output_dir="unused", use_cpu=True, bf16=False, **settings)


def of(method, **settings):
    return {"advantage_shaping": method} | settings


HELD = {"hold_entropy": 0.5}
REFUSED = [
    of("ster"),
    of(3),
    of([]),
    of(["steer", "none"]),
    of(["steer", 3]),
    of(["support.mistakes.Halved", "support.mistakes:Halved"]),
    of("support.mistakes.Misspelt"),
    {"shaping_options": {"alpha": 1}},
    {"shaping_options": []},
    {"skip_padding": "false"},
    {"max_generated_tokens": 1.5},
    {"reward_weights": [1.0, float("inf")]},
    {"reward_weights": [float("nan")]},
    of("support.mistakes.Halved", shaping_options="{a"),
    of("clip_cov", importance_sampling_level="sequence"),
    of("fork_tokens", importance_sampling_level="sequence"),
    of("unlikelihood", scale_rewards="none"),
    of("gtpo", scale_rewards="none"),
    of("grpo_s", scale_rewards="none"),
    of("gtpo", off_policy_mask_threshold=0.5),
    of("kl_cov", off_policy_mask_threshold=0.5),
    of("gtpo", loss_type="sapo"),
    of("steer", gradient_accumulation_steps=4, steps_per_generation=2),
    {"steer_lambda_min": 0},
    {"steer_lambda_min": "0.8"},
    {"steer_mapping": "linear", **of_method("steer", lambda_max=0.7)},
    {"steer_form": "released", "importance_sampling_level": "sequence"},
    {"stare_variant": "O5"},
    of("stare", stare_adaptive=True, stare_amplify=2.0),
    of("stare", stare_variant="C2", stare_adaptive=True, stare_attenuate=0.4),
    {"stare_amplify": 2.0},
    of("none", steer_lambda_min=0.7),
    of("opo", **of_method("gtpo", entropy_weight=0.5)),
    of("psr", **of_method("w_reinforce", positive=0.5)),
    of("stare", stare_gate="none", stare_target_entropy=0.4),
    of("stare", stare_attenuate=0.8),
    of("stare", stare_variant="C1", stare_attenuate=0.8),
    of("stare", stare_variant=["O2", "O4"], stare_amplify=1.2),
    of("stare", **of_method("stare", step=0.1)),
    of("stare", stare_adaptive=True, **of_method("stare", attenuate_min=0.1)),
    of("stare", stare_adaptive=True, stare_variant="O2", **of_method("stare", amplify_max=2.0)),
    of("steer", **of_method("steer", lambda_max=1.5)),
    of("steer", steer_mapping="linear", **of_method("steer", quantile=0.5)),
    of("steer", **of_method("steer", signed=True)),
    {"run_log": False, "log_tokens": 1},
    {"hold_entropy_unit": "nats"},
    {"hold_entropy_final": 0.3},
    {"hold_entropy_until": 0.3},
    {"hold_entropy_decay_start": 0.3},
    of("stare", stare_gate="none", hold_entropy=0.8, stare_amplify=1.2),
    {"entropy_target": 0.5},
    # Unknown methods and import paths.
    of("opoo"),
    of("js_to_start"),
    of("js_to_start", beta=0.05, sync_ref_model=True),
    of("entrocraft", **of_method("entrocraft", lower=-0.1)),
    of("no_such_module:Method"),
    of("steer_trl.shaping.methods.opo:Missing"),
    of("math:sqrt"),
    of("collections.OrderedDict"),
    of("not a path:x"),
    # Methods that cannot be combined.
    of(["opo", "gtpo"]),
    of(["entropy_advantage", "position"]),
    of(["kl_cov", "steer"]),
    of(["clip_cov", "quadrant.Quadrant"]),
    of(["fork_tokens", "grpo_s"]),
    # A loss or advantages of a method's own.
    of("kl_cov", loss_type="cispo"),
    of("entropy_bonus", entropy_coef=0.1),
    of("entropy_bonus", use_adaptive_entropy=True),
    of("none", hold_entropy=0.65, hold_entropy_by="kl", beta=0.01),
    of("js_to_start", hold_entropy=0.65, hold_entropy_by="kl", beta=0.05),
    of("opo", multi_objective_aggregation="normalize_then_sum"),
    of("maxrl", scale_rewards="batch"),
    of("pass_at_k", num_generations=8, pass_at_k=8),
    of("clip_cov", **of_method("clip_cov", lower=5.0)),
    of("stare", stare_target_entropy_unit="initial", stare_target_entropy=20.0),
    # The entropy is held.
    HELD | {"hold_entropy_by": "opo"},
    HELD | {"hold_entropy_by": "repo"},
    HELD | {"hold_entropy_by": "suprisal"},
    HELD | {"hold_entropy_by": ["surprisal"]},
    of("kl_cov", **HELD),
    HELD | {"stare_top_fraction": 0.0},
    of("repo_r", **HELD, hold_entropy_by="entropy_change"),
    {"hold_entropy_by": "repo_r"},
    HELD | of("kl_cov"),
    HELD | {"stare_gate": "batch"},
    of(["repo_r", "entropy_change"], **HELD),
    of("repo_r", hold_entropy=3.0),
    of("repo_r", **HELD, hold_entropy_final=0.6),
    of("repo_r", **HELD, hold_entropy_final=0.2, hold_entropy_until=1.0),
    of("repo_r", **HELD, hold_entropy_until=0.5, hold_entropy_decay_start=0.5),
    of("repo_r", **HELD, hold_entropy_until=1.5),
    of("repo_r", **HELD, **of_method("repo_r", zeta=0.1)),
    # Other fields.
    {"model_license": "mine!"},
    {"terminal_log": "line"},
    {"max_generated_tokens": 0},
    of("steer.Steer", dynamic_sampling="resample", dynamic_sampling_factor=-1),
    {"num_generations": 0},
    # Several at once.
    {"stare_amplify": 0, "stare_variant": "X", "steer_lambda_min": 2},
    of("kl_cov", epsilon=0.1, off_policy_mask_threshold=0.5, **of_method("steer", signed=True)),
]
"""In each, the message names the setting that is given last."""

WARNED = [
    of("kl_cov"),
    of("dcpo", steps_per_generation=2),
    of("grpo_s", num_iterations=2, loss_type="dapo"),
    of("stare", importance_sampling_level="sequence"),
    of("opo", num_iterations=4),
    of("opo", dynamic_sampling="resample"),
    of("opo", max_generated_tokens=100),
]
