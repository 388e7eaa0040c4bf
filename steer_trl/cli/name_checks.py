"""Checks the names in a command before torch and TRL are imported.

A wrong name is therefore reported after about a second. The names of methods are checked later, by the configuration.
"""

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from steer_trl.cli.recipe_files import RECIPES, find_engine_file, list_files, load_recipe
from steer_trl.cli.setting_names import misspelt_complaints
from steer_trl.data.sources import BENCHMARKS, SOURCES, file_complaints
from steer_trl.evaluation.specifications import parse_specification, syntax_complaints
from steer_trl.monitoring.run_files import LOGS, find_checkpoints, find_run_files, loads
from steer_trl.report.hub_errors import is_from_hub
from steer_trl.support.validation import did_you_mean, refuse

HELP = ("-h", "--help", "--help-all")
MODELS = ("config.json", "adapter_config.json")
CHECKPOINT_STATE = "trainer_state.json"
"""The file of a checkpoint that Transformers writes last. A checkpoint without it is incomplete."""
MODEL = "the folder of a saved model, or its name on the Hub"
NOT_RESUMED = ("false", "none", "null")
"""Values of `resume_from_checkpoint` with which a run begins at step 0."""
BARE = {"resume_from_checkpoint": "true"}
"""Maps flags that may stand without a value to the value that they then have."""
NEEDED = {
    "train": {
        "model_name_or_path": MODEL,
        "dataset_name": "a short name such as dapo-math-17k, a name on the Hub, or a file",
        "output_dir": "the folder that the run is written to",
    },
    "eval": {"model_name_or_path": MODEL, "output_dir": "the folder that the results are written to"},
}


@dataclass(frozen=True)
class CommandLine:
    """The settings of a command line. Settings in `typed` override those in `recipe`.

    `unexpected` holds the words before the first flag, which belong to no setting.
    """

    typed: Mapping[str, list[str]]
    recipe: Mapping[str, Any]
    unexpected: Sequence[str]

    def values(self, name: str) -> list[str]:
        """Return the values of a setting, or an empty list if it is not set."""
        value = self.typed.get(name, self.recipe.get(name))
        if name in BARE and value == []:
            return [BARE[name]]
        if value is None:
            return []
        return [str(item) for item in value] if isinstance(value, list) else [str(value)]

    def value(self, name: str) -> str:
        """Return the value of a setting that takes one value, or an empty string if it is not set."""
        return next(iter(self.values(name)), "").strip()


def check_names(command: str, arguments: Sequence[str]) -> None:
    """Raise one error with all complaints if settings are missing or names in a command are wrong."""
    is_first_process = os.environ.get("RANK", "0") == "0"
    if command not in NEEDED or {*HELP, "--list"} & {*arguments} or not is_first_process:
        return
    line = read_command(arguments)
    complaints = [describe_unexpected(word) for word in line.unexpected]
    complaints += misspelt_complaints(command, [*line.typed, *line.recipe])
    if not complaints:
        complaints += missing_complaints(command, line)
    if command == "train":
        complaints += _engine_complaints(line)
        complaints += [
            complaint for name in line.values("dataset_name") if name.strip() for complaint in file_complaints(name)
        ]
        complaints += folder_complaints(line.value("output_dir"), line.value("resume_from_checkpoint"))
    for benchmark in line.values("eval_benchmarks" if command == "train" else "benchmarks"):
        complaints += benchmark_complaints(benchmark)
    complaints += model_complaints(line.value("model_name_or_path"), line.value("model_revision") or None)
    refuse(list(dict.fromkeys(complaints)), f"steer-trl {command}")


def read_command(arguments: Sequence[str]) -> CommandLine:
    """Split a command line into settings and their values, and load its recipe."""
    typed, unexpected = split_words(arguments)
    recipe = typed.get("config")
    settings = load_recipe(recipe[-1]) if recipe else {}
    settings.pop("env", None)
    return CommandLine(typed, settings, unexpected)


def split_words(arguments: Sequence[str]) -> tuple[dict[str, list[str]], list[str]]:
    """Split a command line into the words behind each flag, and the words before the first flag."""
    typed: dict[str, list[str]] = {}
    unexpected = []
    name = None
    for word in arguments:
        if word.startswith("--") and word != "--":
            flag, has_value, value = word.removeprefix("--").partition("=")
            name = flag.replace("-", "_")
            typed[name] = [value] if has_value else []
        elif name is None or word == "--":
            unexpected.append(word)
        else:
            typed[name].append(word)
    return typed, unexpected


def describe_unexpected(word: str) -> str:
    """Return a complaint about a word before the first flag, which may be the name of a recipe."""
    if Path(word).name.removesuffix(".yaml") in list_files(RECIPES) or Path(word).suffix == ".yaml":
        return f"unexpected argument {word!r}. Did you mean --config {word}?"
    return f"unexpected argument {word!r}. Use --setting value."


def missing_complaints(command: str, line: CommandLine) -> list[str]:
    """Return complaints about required settings of the command that are missing or empty."""
    return [
        f"{name} is missing. Give {description}."
        for name, description in NEEDED[command].items()
        if not line.values(name) or not all(value.strip() for value in line.values(name))
    ]


def benchmark_complaints(specification: str) -> list[str]:
    """Return complaints about a benchmark that is malformed, or whose file or short name does not exist."""
    parsed = parse_specification(specification)
    if parsed is None:
        return syntax_complaints(specification)
    source = parsed.source
    if "/" in source or source in SOURCES or Path(source).suffix or Path(source).exists():
        return file_complaints(source)
    return [
        f"unknown benchmark {source!r}.{did_you_mean(source, BENCHMARKS, cutoff=0.5)} steer-trl eval --list lists the "
        "names; a data set on the Hub is ORGANISATION/NAME."
    ]


def model_complaints(name: str, revision: str | None = None) -> list[str]:
    """Return a complaint if a model is neither in a local folder nor on the Hub."""
    path = Path(name).expanduser()
    if not name:
        return []
    if path.is_dir():
        if any((path / file).is_file() for file in MODELS):
            return []
        checkpoints = find_checkpoints(path)
        remedy = f"Give its {checkpoints[0].name!r}" if checkpoints else "Give the folder of a saved model"
        return [f"model_name_or_path={name!r} holds no model: it has no {' or '.join(MODELS)}. {remedy}."]
    looks_local = name[0] in "./~" or name.count("/") > 1
    is_below_a_folder = "/" in name and (path.parts[0] == "runs" or path.parent.is_dir())
    if looks_local or is_below_a_folder:
        return [f"model_name_or_path={name!r}: there is no such folder. Check the path."]
    return _hub_complaints(name, revision)


def _hub_complaints(name: str, revision: str | None) -> list[str]:
    from huggingface_hub import file_exists, try_to_load_from_cache
    from huggingface_hub.errors import GatedRepoError

    try:
        if any(isinstance(try_to_load_from_cache(name, file, revision=revision), str) for file in MODELS):
            return []
        if any(file_exists(name, file, revision=revision) for file in MODELS):
            return []
    except GatedRepoError:
        # The model exists, and Transformers will explain how to get access.
        return []
    except Exception as error:
        if not (isinstance(error, (OSError, ValueError, RuntimeError)) or is_from_hub(error)):
            raise
        reason = " ".join(str(error).split()).partition(". ")[0]
        return [f"model_name_or_path={name!r} is no folder here, and was not found on the Hub: {reason}."]
    return [f"model_name_or_path={name!r} is neither a folder here nor a model on the Hub. Check the name."]


def folder_complaints(output_dir: str, resume: str) -> list[str]:
    """Return a complaint if `output_dir` holds another run, or if `resume` names no complete checkpoint."""
    folder = Path(output_dir)
    files = find_run_files(folder, (*MODELS, LOGS)) if output_dir else []
    names = ", ".join(path.name for path in files[:3])
    resumes = resume.lower() not in ("", *NOT_RESUMED)
    searches = resume.lower() in ("true", "auto")
    if resumes and not searches and not _is_complete(Path(resume)):
        return [f"resume_from_checkpoint={resume!r} must be true, auto or the folder of a complete checkpoint."]
    if files and not resumes:
        return [
            f"output_dir={output_dir!r} holds a run ({names}), and two runs would be mixed there. Continue it with "
            "--resume_from_checkpoint true, give another --output_dir, or remove the folder to start over."
        ]
    has_model = any((folder / name).is_file() for name in MODELS)
    if resume == "auto" and has_model and not any(map(_is_complete, files)):
        return [
            f"output_dir={output_dir!r} holds a run ({names}) without a complete checkpoint, so "
            "resume_from_checkpoint='auto' would train a new model over its model. Give another --output_dir, or "
            "remove the folder to start over."
        ]
    return []


def _is_complete(checkpoint: Path) -> bool:
    """Return whether the file of a checkpoint that is written last is there and can be read."""
    try:
        state = loads((checkpoint / CHECKPOINT_STATE).read_bytes())
    except OSError:
        return False
    return state is not None and isinstance(state.get("global_step"), int)


def _engine_complaints(line: CommandLine) -> list[str]:
    engines = line.typed.get("accelerate_config")
    if engines:
        find_engine_file(engines[-1])
    elif "num_processes" in line.typed:
        return ["num_processes has no effect without accelerate_config. Add --accelerate_config ddp, or zero3."]
    return []
