"""Makes the model card of a training run. The card leaves out everything that is unknown about the run."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from importlib import resources
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from huggingface_hub import ModelCard, ModelCardData

from steer_trl.config import SteerGRPOConfig
from steer_trl.curves import series
from steer_trl.evaluation import BenchmarkEvaluation
from steer_trl.monitoring import run_log
from steer_trl.monitoring.key_names import ENTROPY, HELD_TARGET
from steer_trl.monitoring.release import find_release
from steer_trl.monitoring.start import WINDOW, entropy_ends
from steer_trl.options.base import find_changes
from steer_trl.report.hub_results import read_results
from steer_trl.report.weights import describe_weights
from steer_trl.shaping import Paper, find_shaper
from steer_trl.shaping.options import read_options
from steer_trl.support.redact import select_public
from steer_trl.support.system import find_versions

POINTS = 12
"""The largest number of rows in the table of entropies."""
PACKAGES = (*run_log.PACKAGES, "datasets", "tokenizers")
LOCAL = {
    *("output_dir", "run_name", "logging_dir", "disable_tqdm", "report_to", "project", "resume_from_checkpoint"),
    *("model_license", "push_to_hub", "hub_model_id", "hub_strategy", "hub_private_repo", "hub_always_push"),
    *("terminal_log", "hub_revision", "use_cpu", "debug", "accelerator_config", "dataloader_pin_memory"),
    # TRL computes generation_batch_size, and refuses a recipe that has both this setting and steps_per_generation.
    "generation_batch_size",
}
"""Settings that matter only on one machine or for one run, so the card leaves them out."""


@dataclass(frozen=True)
class CardFacts:
    """The facts about a training run that its card states.

    Attributes:
        base_model (`str`, *optional*): the name of the base model on the Hub, or its folder.
        datasets (`Sequence[str]`): the names of the training data sets on the Hub.
        step (`int`): the optimizer step of the weights. If the best weights were loaded at the end, it is earlier than
            the last step of the log.
        benchmarks (`BenchmarkEvaluation`, *optional*): the benchmarks behind the metrics in the log.
        recipe (`dict`): settings of `steer-trl train` that are not in `args` and may be published.
    """

    args: SteerGRPOConfig
    name: str = "model"
    tags: Sequence[str] = ()
    repository: str | None = None
    base_model: str | None = None
    base_is_on_hub: bool = False
    is_adapter: bool = False
    is_chat: bool = True
    datasets: Sequence[str] = ()
    papers: Sequence[Paper] = ()
    rewards: Sequence[str] = ()
    log: Sequence[dict[str, Any]] = field(default_factory=list)
    step: int = 0
    benchmarks: BenchmarkEvaluation | None = None
    recipe: dict[str, Any] = field(default_factory=dict)


def make_card(facts: CardFacts, has_report: bool = False) -> ModelCard:
    """Return the model card: metadata, usage, token weights, entropy, evaluation, settings and citations."""
    results = read_results(facts.log, facts.step, facts.benchmarks)
    curve = [entry for entry in facts.log if entry.get(ENTROPY) is not None and "step" in entry]
    rows = np.linspace(0, len(curve) - 1, min(POINTS, len(curve))).round().astype(int)
    targets = series(facts.log, HELD_TARGET)
    base: dict[str, Any] = {}
    if facts.base_is_on_hub:
        base = {"base_model": facts.base_model, "base_model_relation": "adapter" if facts.is_adapter else "finetune"}
    data = ModelCardData(
        model_name=facts.name,
        library_name="peft" if facts.is_adapter else "transformers",
        license=facts.args.model_license,
        pipeline_tag="text-generation",
        tags=list(facts.tags),
        datasets=list(facts.datasets) or None,
        eval_results=results or None,
        **base,
    )
    return ModelCard.from_template(
        data,
        template_str=resources.files(__package__).joinpath("model_card.md").read_text(),
        run=facts,
        base_name=Path(facts.base_model or "").name,
        weights=describe_weights(facts.args.shaping_names, select_public(vars(facts.args))),
        target=targets[-1][1] if targets else None,
        release=find_release(targets),
        ends=entropy_ends(curve),
        curve=[curve[row] for row in rows],
        window=min(WINDOW, len(curve)),
        has_report=has_report,
        results=results,
        settings=yaml.safe_dump(
            facts.recipe | select_settings(facts.args), sort_keys=False, allow_unicode=True, width=1000
        ).strip(),
        versions=find_versions(PACKAGES),
    )


def select_settings(args: SteerGRPOConfig) -> dict[str, Any]:
    """Return the settings for a recipe of the run.

    They are all settings of the methods in use, and all other settings that were changed.
    """
    settings = select_public(vars(args) | {"shaping_options": find_options(args) or None})
    of_methods = {"advantage_shaping", "shaping_scope"}
    for method in args.shaping_names:
        of_methods.update(find_shaper(method).settings())
    names = [item.name for item in fields(args) if item.name in settings and item.name not in LOCAL]
    settings_of_methods = [name for name in names if name in of_methods]
    changed = [name for name in names if name in find_changes(args)]
    with_options = ["shaping_options"] if settings.get("shaping_options") else []
    return {name: settings[name] for name in dict.fromkeys(settings_of_methods + with_options + changed)}


def find_options(args: SteerGRPOConfig) -> dict[str, Any]:
    """Return the options of each method in use that declares some, and all other options that are set."""
    by_method = args.shaping_options
    options = dict(by_method) if isinstance(by_method, dict) else {}
    for name in args.shaping_names:
        declared = vars(read_options(find_shaper(name), args))
        if declared and not find_shaper(name).name:
            # The options of a custom method may stand without its name.
            options = {key: value for key, value in options.items() if key not in declared}
        options |= {name: declared} if declared else {}
    return options
