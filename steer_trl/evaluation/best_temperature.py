"""The best temperatures of a model in a sweep, written into the model's folder.

    generation_config.json   temperature, top_p and top_k with which one answer is most often correct
    README.md                a section with this temperature, that for k answers, and how both were chosen

The temperature for k answers is the one with the highest mean pass@k over the problems of a benchmark. k is the
largest of `frontier.TRIES` that the number of samples allows. Of equally good temperatures, the lowest is taken.
"""

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import AutoConfig, GenerationConfig

from steer_trl.evaluation.folders import Evaluation
from steer_trl.evaluation.records import read_mapping
from steer_trl.evaluation.sweeps import count_sweeps
from steer_trl.support.exceptions import InvalidValueError
from steer_trl.support.system import write_text_whole

GENERATION = "generation_config.json"
CARD = "README.md"
BEGIN, END = "<!-- steer-trl: temperature -->", "<!-- /steer-trl: temperature -->"


@dataclass(frozen=True)
class BestTemperatures:
    """The best temperatures of a model on the problems of a benchmark.

    Attributes:
        benchmark (`str`), problems (`int`), samples (`int`): the benchmark, and its numbers of problems and of samples
            per problem.
        tried (`tuple[float, ...]`): the temperatures that were compared, lowest first.
        for_one (`float`): the temperature with the highest pass@1.
        for_several (`float`), tries (`int`): the temperature with the highest pass@k, and this k.
        top_p (`float`), top_k (`int`): the other settings of all samplings.
    """

    benchmark: str
    problems: int
    samples: int
    tried: tuple[float, ...]
    for_one: float
    for_several: float
    tries: int
    top_p: float
    top_k: int

    @property
    def sampling(self) -> dict[str, Any]:
        """The entries of `generation_config.json` for one answer."""
        return {"do_sample": True, "temperature": self.for_one, "top_p": self.top_p, "top_k": self.top_k}

    def describe(self) -> str:
        """Return a sentence with the temperatures and how they were chosen."""
        several = f", for {self.tries} answers {self.for_several:g}" if self.tries > 1 else ""
        tried = ", ".join(f"{temperature:g}" for temperature in self.tried)
        ends = [
            f"{temperature:g} is the {end} of them, and a {end.replace('est', 'er')} one may be better"
            for end, temperature in (("lowest", self.tried[0]), ("highest", self.tried[-1]))
            if temperature in {self.for_one, self.for_several}
        ]
        remark = f"; {'; '.join(ends)}" if ends else ""
        return (
            f"the best temperature for one answer is {self.for_one:g}{several}, chosen among {tried} on "
            f"{self.problems} problems of {self.benchmark} with {self.samples} samples each{remark}"
        )


def find_best_temperatures(run: Mapping[float, Evaluation], benchmark: str) -> BestTemperatures:
    """Return the best temperatures on the problems of `benchmark`.

    `run` maps two or more temperatures to the evaluations of one model. They differ only in the temperature.
    """
    run = dict(sorted(run.items()))
    sweep = count_sweeps([run])[benchmark]

    def find_best(tries: int) -> float:
        return sweep.temperatures[int(sweep.pass_at(tries).mean((1, 2)).argmax())]

    tries = sweep.tries[-1]
    sampling = next(iter(run.values())).settings["sampling"]
    return BestTemperatures(
        benchmark=benchmark,
        problems=sweep.correct.shape[2],
        samples=sweep.samples,
        tried=sweep.temperatures,
        for_one=find_best(1),
        for_several=find_best(tries),
        tries=tries,
        top_p=sampling["top_p"],
        top_k=sampling["top_k"],
    )


def find_folder_complaints(name: str) -> list[str]:
    """Return a complaint if `name` is not the folder of a whole model, or its `generation_config.json` is damaged."""
    folder = Path(name)
    if not (folder / "config.json").is_file():
        where = "has no config.json" if folder.is_dir() else "is no folder"
        return [
            f"save_temperature changes files of the model, and model_name_or_path={name!r} {where}. Give the folder "
            "of a whole model. Of a model on the Hub, hf download MODEL --local-dir FOLDER makes one; an adapter must "
            "be merged first."
        ]
    try:
        read_generation_config(folder)
    except InvalidValueError as error:
        return [f"save_temperature: {error}. Remove the file, or repair it."]
    return []


def read_generation_config(folder: Path) -> dict[str, Any]:
    """Return the contents of `generation_config.json`. If there is none, they follow from `config.json`."""
    path = folder / GENERATION
    if path.is_file():
        return read_mapping(path)
    config = GenerationConfig.from_model_config(AutoConfig.from_pretrained(str(folder)))
    content: dict[str, Any] = json.loads(config.to_json_string())
    return content


def write_generation_config(folder: Path, best: BestTemperatures) -> str:
    """Write the sampling for one answer into `generation_config.json`, and return a line about every change."""
    settings = read_generation_config(folder)
    changes = []
    for name, value in best.sampling.items():
        before = settings.get(name, "unset")
        changes.append(f"{name} stays {value}" if before == value else f"{name} from {before} to {value}")
    path = folder / GENERATION
    write_text_whole(path, json.dumps(settings | best.sampling, indent=2, sort_keys=True) + "\n")
    return f"{path}: {', '.join(changes)}"


def write_card(folder: Path, best: BestTemperatures) -> str:
    """Write the section about the temperature into the model card, and return a line about it.

    A section from an earlier call is replaced. Nothing else in the card changes.
    """
    path = folder / CARD
    text = path.read_text(encoding="utf-8") if path.is_file() else ""
    sentence = best.describe()
    section = (
        f"{BEGIN}\n## Temperature\n\n{sentence[0].upper()}{sentence[1:]}. Both are with top_p {best.top_p:g} and "
        f"top_k {best.top_k}. `{GENERATION}` has the one for one answer.\n{END}"
    )
    old = re.compile(f"{re.escape(BEGIN)}.*?{re.escape(END)}", re.DOTALL)
    is_replaced = old.search(text) is not None
    changed = old.sub(lambda _: section, text) if is_replaced else f"{text.rstrip()}\n\n{section}\n".lstrip()
    write_text_whole(path, changed)
    return f"{path}: the section 'Temperature' was {'replaced' if is_replaced else 'added'}"
