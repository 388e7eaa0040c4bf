"""Start models as files, so that no machine can change a start.

    experiments/starts/config.json, tokenizer.json, ...   what all start models share
    experiments/starts/61.safetensors                     the weights, in float32
    experiments/starts/SHA256SUMS                         sha256sum --check SHA256SUMS

A model was made by `python -m steer_trl.demo.start_model --steps 500 --seed 61 --output_dir FOLDER`, and its weights
were added by `python -m experiments.letgo.starts FOLDER 61`.
"""

import argparse
import hashlib
import shutil
from pathlib import Path

import yaml

from experiments.lab.runs import RECIPE, ROOT, START, Experiment
from steer_trl.support.exceptions import InvalidValueError

FOLDER = ROOT / "experiments/starts"
SHARED = ("config.json", "generation_config.json", "tokenizer.json", "tokenizer_config.json", "chat_template.jinja")
SUMS = "SHA256SUMS"
WEIGHTS = "model.safetensors"


def digest(path: Path) -> str:
    """Return the SHA-256 of a file, in hexadecimal digits."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def add(model: Path, start: int, folder: Path = FOLDER) -> None:
    """Add a start model to the files.

    Raises:
        `InvalidValueError`: another model has this number, or the model's configuration is not that of the others.
    """
    folder.mkdir(parents=True, exist_ok=True)
    copies = {model / name: folder / name for name in SHARED} | {model / WEIGHTS: folder / f"{start}.safetensors"}
    for source, target in copies.items():
        if target.exists() and target.read_bytes() != source.read_bytes():
            raise InvalidValueError(f"{target} exists and is not {source}. Give the model another number.")
        shutil.copyfile(source, target)
    paths = sorted(folder.glob("*.safetensors"), key=lambda path: int(path.stem))
    (folder / SUMS).write_text("".join(f"{digest(path)}  {path.name}\n" for path in paths))


def put(experiment: Experiment, folder: Path = FOLDER) -> str:
    """Put the start model of an experiment where it would be made, and return the SHA-256 of its weights.

    Raises:
        `InvalidValueError`: the file of the weights is missing, or is not the one that was published.
    """
    weights = folder / f"{experiment.seed}.safetensors"
    sums = dict(reversed(line.split()) for line in (folder / SUMS).read_text().splitlines())
    if not weights.exists() or sums.get(weights.name) != digest(weights):
        raise InvalidValueError(f"{weights} is not the file that {folder / SUMS} lists. Check it out again.")
    target = experiment.folder(START)
    if not (target / WEIGHTS).exists():
        target.mkdir(parents=True, exist_ok=True)
        for name in SHARED:
            shutil.copyfile(folder / name, target / name)
        recipe = {"output_dir": experiment.start, "steps": experiment.start_steps, "seed": experiment.seed}
        (target / RECIPE).write_text(yaml.safe_dump(recipe, sort_keys=False))
        shutil.copyfile(weights, target / WEIGHTS)
    if digest(target / WEIGHTS) != sums[weights.name]:
        raise InvalidValueError(f"{target} holds another model than {weights}. Remove the folder.")
    return sums[weights.name]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("model", type=Path, help="folder of the model")
    parser.add_argument("start", type=int, help="its number, which is its seed")
    given = parser.parse_args()
    add(given.model, given.start)
