"""The model card: what is known of the run. It never states what the run does not know."""

from collections.abc import Sequence
from dataclasses import dataclass, field, fields
from importlib import resources
from pathlib import Path
from typing import Any

import yaml
from huggingface_hub import ModelCard, ModelCardData

from steer_trl.config import SteerGRPOConfig
from steer_trl.curves import WINDOW, entropy_ends
from steer_trl.diagnostics.keys.names import ENTROPY
from steer_trl.evaluation import BenchmarkEvaluation
from steer_trl.hub.results import results_of_log, table
from steer_trl.options.base import changes_of
from steer_trl.redact import public
from steer_trl.shaping import Paper, find_shaper
from steer_trl.system import installed

POINTS = 12
PACKAGES = (
    *("steer_trl", "trl", "transformers", "torch", "datasets", "tokenizers"),
    *("accelerate", "peft", "vllm", "deepspeed"),
)
# Of this machine or this moment, not of the method: the card is read elsewhere.
LOCAL = {
    *("output_dir", "run_name", "logging_dir", "disable_tqdm", "report_to", "project", "resume_from_checkpoint"),
    *("model_license", "push_to_hub", "hub_model_id", "hub_strategy", "hub_private_repo", "hub_always_push"),
    *("terminal_log", "hub_revision", "use_cpu", "debug", "accelerator_config", "dataloader_pin_memory"),
    "generation_batch_size",  # TRL fills it in, and then refuses it beside steps_per_generation
}


@dataclass(frozen=True)
class Run:
    """What is known of a training run.

    `step` is the optimizer step that the weights are of, before the log's last where the best were loaded; the log's
    metrics were measured on `benchmarks`; `recipe` has settings of `steer-trl train` besides `args`, as far as they
    may leave; `datasets` are names on the Hub, `base_model` is one or a folder.
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


def make_card(run: Run, has_report: bool = False) -> ModelCard:
    """Return the card of the run: metadata, how to use it, entropy, evaluation, settings, citations."""
    results = results_of_log(run.log, run.step, run.benchmarks)
    curve = [entry for entry in run.log if entry.get(ENTROPY) is not None and "step" in entry]
    base: dict[str, Any] = {}
    if run.base_is_on_hub:
        base = {"base_model": run.base_model, "base_model_relation": "adapter" if run.is_adapter else "finetune"}
    data = ModelCardData(
        model_name=run.name,
        library_name="peft" if run.is_adapter else "transformers",
        license=run.args.model_license,
        pipeline_tag="text-generation",
        tags=list(run.tags),
        datasets=list(run.datasets) or None,
        eval_results=results or None,
        **base,
    )
    return ModelCard.from_template(
        data,
        template_str=resources.files("steer_trl").joinpath("hub/model_card.md").read_text(),
        run=run,
        base_name=Path(run.base_model or "").name,
        ends=entropy_ends(curve),
        curve=_spread(curve),
        window=min(WINDOW, len(curve)),
        has_report=has_report,
        evaluation=table(results),
        settings=yaml.safe_dump(
            run.recipe | settings(run.args), sort_keys=False, allow_unicode=True, width=1000
        ).strip(),
        versions=installed(PACKAGES),
    )


def _spread(curve: Sequence[dict[str, float]]) -> list[dict[str, float]]:
    """At most twelve points, evenly spaced, the first and the last among them."""
    if len(curve) <= POINTS:
        return list(curve)
    return [curve[round(i * (len(curve) - 1) / (POINTS - 1))] for i in range(POINTS)]


def settings(args: SteerGRPOConfig) -> dict[str, Any]:
    """Return all settings of the methods in use, and others that differ from their defaults: those of a recipe."""
    given, differs = public(vars(args)), changes_of(args)
    named = [f.name for f in fields(args) if f.name in given and f.name not in LOCAL]
    own = ("advantage_shaping", "shaping_scope")
    read = {setting for method in args.shaping_names for setting in find_shaper(method).settings()}
    of_methods = [name for name in named if name in own or name in read]
    others = [name for name in named if name in differs]
    return {name: given[name] for name in dict.fromkeys(of_methods + others)}
