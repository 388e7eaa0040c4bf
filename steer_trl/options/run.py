"""The settings that do not depend on a run's method: its logs, its token budget and dynamic sampling.

Dynamic sampling comes from DAPO (arXiv 2503.14476, section 3.2). In STARE's released scripts, an attempt has 3 times
as many prompts as a rollout trains on. There are at most 10 attempts, and the surplus is dropped.
"""

from dataclasses import dataclass
from typing import Annotated

from steer_trl.options.base import Setting, ShapingConfig, option

RESAMPLE = {"dynamic_sampling": "resample"}


@dataclass
class RunSettings(ShapingConfig):
    """Settings for a run's logs, alarms, model card and token budget."""

    model_license: Annotated[str | None, Setting("Licence that the model card states, e.g. apache-2.0.")] = None
    terminal_log: Annotated[
        str,
        Setting(
            "Each log on the terminal: 'dict' is Transformers' dictionary of everything; 'lines' one line of what "
            "matters; 'both' the two of them. steer-trl train shows 'lines' unless this is set. Trackers and files "
            "have everything in any case.",
            choices=("both", "lines", "dict"),
        ),
    ] = "both"
    run_log: Annotated[
        bool,
        Setting("Write every log entry to _logs/metrics.jsonl, which steer-trl report shows; `false` writes none."),
    ] = True
    log_tokens: Annotated[
        int,
        Setting(
            "Optimizer steps between two exports of single tokens, with all their numbers, to _logs/tokens; 0 for "
            "none. A token takes about 130 bytes.",
            "[0, inf)",
            needs={"run_log": True},
        ),
    ] = 0
    diagnostics: Annotated[
        bool,
        Setting("Log what happens to the tokens: quadrants, weights, entropy by position and by advantage, clipping."),
    ] = True
    alarms: Annotated[
        bool, Setting("Warn when a run goes wrong in a known way: on the terminal, in the run log and in the tracker.")
    ] = True
    max_generated_tokens: Annotated[
        int | None,
        Setting(
            "End the run after the rollout in which the tokens generated on all ranks, including dropped groups, "
            "reach this number. A run that evaluates or saves also does so at this end. Unset: only max_steps or the "
            "epochs end it.",
            "[1, inf)",
        ),
    ] = None


@dataclass
class SamplingSettings(ShapingConfig):
    """Settings for dynamic sampling, which selects the generated groups that are trained on."""

    dynamic_sampling: Annotated[
        str,
        Setting(
            "What happens to a group whose completions all get the same reward by correct_reward: 'none' trains on "
            "it, as TRL does; 'resample' replaces it by the group of another prompt.",
            choices=("none", "resample"),
        ),
    ] = "none"
    dynamic_sampling_reward: str | None = option(None, "Former name of correct_reward.")
    dynamic_sampling_factor: Annotated[
        int,
        Setting(
            "Prompts of an attempt, as a multiple of the prompts of a rollout. With 0 it follows from the number of "
            "missing groups and the share that was informative.",
            "[0, inf)",
            needs=RESAMPLE,
        ),
    ] = 1
    dynamic_sampling_max_attempts: Annotated[
        int, Setting("Maximum number of attempts for a rollout.", "[1, inf)", needs=RESAMPLE)
    ] = 10
    dynamic_sampling_surplus: Annotated[
        str,
        Setting(
            "What happens to informative groups that are left over: 'keep' trains on them in the next rollout, when "
            "the policy is a few updates older; 'drop' leaves them out, as the authors of STARE do.",
            choices=("keep", "drop"),
            needs=RESAMPLE,
        ),
    ] = "keep"
