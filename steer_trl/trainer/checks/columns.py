"""Checks that TRL can call every reward function with the columns of the data sets.

TRL calls `function(prompts=..., completions=..., completion_ids=..., trainer_state=..., log_extra=..., log_metric=...,
**columns)`. If a column that the function requires is missing, or if the function does not take all these arguments,
the run would end in a `TypeError` after its first rollout, or, for an `eval_dataset`, at its first evaluation.
"""

import inspect
from collections.abc import Mapping
from inspect import Parameter
from typing import Any

from datasets import Dataset, IterableDataset
from torch import nn
from trl.trainer.utils import get_callable_name

from steer_trl.support.validation import did_you_mean
from steer_trl.trainer.trl import GRPOTrainer, is_overridden

OF_TRL = {"prompts", "completions", "completion_ids", "trainer_state", "log_extra", "log_metric"}
"""The arguments that TRL passes to every reward function."""
NOT_PASSED = {"prompt", "completion", "completion_ids"}
"""Columns that TRL does not pass on under their own names."""
KEPT = {"prompt", "image", "images"}
"""The columns that `remove_unused_columns=True` keeps."""
BETWEEN = ("_calculate_rewards", "_generate", "_generate_and_score_completions", "_prepare_inputs", "training_step")
"""Methods of a trainer through which rows pass on their way to the reward functions, and which may add columns."""


def column_complaints(
    trainer: GRPOTrainer, reward_funcs: list[Any], datasets: Mapping[str, Any], args: Any, has_environments: bool
) -> list[str]:
    """Return a complaint for each reward function that TRL cannot call with the columns of a data set.

    `datasets` maps the name of an argument to a data set. Nothing is checked if a subclass replaces a method that may
    add columns, and for a data set whose columns are not known without reading it.
    """
    if any(is_overridden(trainer, name) for name in BETWEEN):
        return []
    complaints = []
    for name, dataset in datasets.items():
        columns = find_columns(dataset)
        if columns is None:
            continue
        removed = columns - KEPT if args is not None and args.remove_unused_columns else set()
        passed = OF_TRL | (columns - removed - NOT_PASSED) | ({"environments"} if has_environments else set())
        for function in reward_funcs:
            if not callable(function) or isinstance(function, nn.Module):
                continue
            if isinstance(function, type):
                complaints.append(
                    f"reward function {function.__name__} is a class. Give an instance, {function.__name__}(...)."
                )
                continue
            required, refused = compare_arguments(function, passed)
            complaints += [_complain(function, missing, name, columns, removed) for missing in required]
            if refused:
                complaints.append(
                    f"reward function {get_callable_name(function)!r} must take every argument that TRL passes, and "
                    f"does not take {', '.join(map(repr, refused))}. Add **kwargs to its arguments."
                )
    return list(dict.fromkeys(complaints))


def find_columns(dataset: Any) -> set[str] | None:
    """Return the columns of a data set's rows, or `None` if they are not known."""
    if isinstance(dataset, Dataset):
        # A transform may add columns to the rows, so the first row is read.
        return set(dataset[0]) if len(dataset) else None
    if isinstance(dataset, IterableDataset) and dataset.column_names is not None:
        return set(dataset.column_names)
    return None


def compare_arguments(function: Any, passed: set[str]) -> tuple[list[str], list[str]]:
    """Return the arguments that `function` requires beyond those `passed`, and those passed that it does not take."""
    try:
        # A wrapper may pass other arguments to the function that it wraps, so the wrapper's own signature counts.
        parameters = inspect.signature(function, follow_wrapped=False).parameters.values()
    except (TypeError, ValueError):
        # Some functions that are written in C have no signature.
        return [], []
    by_name = (Parameter.POSITIONAL_OR_KEYWORD, Parameter.KEYWORD_ONLY)
    accepted = {parameter.name: parameter.default for parameter in parameters if parameter.kind in by_name}
    required = [name for name, default in accepted.items() if default is Parameter.empty and name not in passed]
    takes_any = any(parameter.kind is Parameter.VAR_KEYWORD for parameter in parameters)
    return required, [] if takes_any else sorted(passed - accepted.keys())


def list_datasets(train_dataset: Any, eval_dataset: Any) -> dict[str, Any]:
    """Return the data sets of a trainer, each under the name by which a message can refer to it."""
    datasets = {"train_dataset": train_dataset}
    if isinstance(eval_dataset, dict):
        return datasets | {f"eval_dataset[{name!r}]": dataset for name, dataset in eval_dataset.items()}
    return datasets | {"eval_dataset": eval_dataset}


def _complain(function: Any, missing: str, dataset: str, columns: set[str], removed: set[str]) -> str:
    name = get_callable_name(function)
    if missing in removed:
        return (
            f"reward function {name!r} requires the column {missing!r}, which remove_unused_columns=True takes out of "
            f"{dataset}. Leave remove_unused_columns unset."
        )
    if missing in NOT_PASSED & columns:
        return (
            f"reward function {name!r} requires {missing!r}, and TRL passes this column to no reward function. Take "
            "'prompts' and 'completions', which TRL passes, or give the column another name."
        )
    similar = did_you_mean(missing, sorted(OF_TRL | columns))
    return (
        f"reward function {name!r} requires the column {missing!r}, and {dataset} has only {sorted(columns)}."
        f"{similar} Add or rename the column, or give the argument a default value."
    )
