"""The temperatures of a sweep that a model keeps: chosen as by hand, and nothing else in its folder changes."""

import json

import numpy as np
import pytest
from support.eval_command import arguments
from support.evaluations import write_evaluation
from support.runs import save_tiny_model
from transformers import GenerationConfig

from steer_trl.cli.evaluate import run
from steer_trl.evaluation.best_temperature import (
    BEGIN,
    find_best_temperatures,
    read_generation_config,
    write_card,
    write_generation_config,
)
from steer_trl.evaluation.folders import Evaluation
from steer_trl.evaluation.metrics import pass_at_k

SKILLS = {0.5: [0.0, 0.9, 0.9, 0.9], 1.0: [0.5, 0.5, 0.5, 0.5], 1.5: [0.2, 0.2, 0.2, 0.2]}


def drawn(folder, temperature):
    settings = {"sampling": {"temperature": temperature, "top_p": 1.0, "top_k": 0, "seed": 0}, "benchmarks": {"a": {}}}
    write_evaluation(folder, np.array(SKILLS[temperature]), 3, settings, samples=16)
    return Evaluation(folder, settings)


@pytest.fixture
def best(tmp_path):
    return find_best_temperatures({t: drawn(tmp_path / f"t{t:g}", t) for t in (1.5, 0.5, 1.0)}, "a")


def test_the_best_temperatures_equal_those_by_hand(best, tmp_path):
    def mean_pass(temperature, k):
        lines = (tmp_path / f"t{temperature:g}/completions.jsonl").read_text().splitlines()
        entries = [json.loads(line) for line in lines]
        counts = [sum(e["correct"] for e in entries if e["id"] == f"p{i}") for i in range(4)]
        return sum(pass_at_k(16, count, k) for count in counts) / 4

    assert best.for_one == max(SKILLS, key=lambda t: mean_pass(t, 1)) == 0.5
    assert best.for_several == max(SKILLS, key=lambda t: mean_pass(t, 16)) == 1.0
    assert (best.tries, best.problems, best.samples, best.tried) == (16, 4, 16, (0.5, 1.0, 1.5))


def test_only_the_sampling_changes(best, tmp_path):
    model = save_tiny_model(tmp_path / "model")
    path = model / "generation_config.json"
    before = json.loads(path.read_text()) | {"temperature": 0.7, "top_p": 0.8, "of_my_own": [1]}
    path.write_text(json.dumps(before))
    line = write_generation_config(model, best)
    after = json.loads(path.read_text())
    assert after == before | {"do_sample": True, "temperature": 0.5, "top_p": 1.0, "top_k": 0}
    assert "temperature from 0.7 to 0.5" in line and "top_p from 0.8 to 1.0" in line
    assert "temperature stays 0.5" in write_generation_config(model, best)
    assert json.loads(path.read_text()) == after
    assert GenerationConfig.from_pretrained(model).temperature == 0.5


def test_a_model_without_the_file_keeps_its_end_of_text(best, tmp_path):
    model = save_tiny_model(tmp_path / "model")
    eos = GenerationConfig.from_pretrained(model).eos_token_id
    (model / "generation_config.json").unlink()
    config = json.loads((model / "config.json").read_text()) | {"eos_token_id": eos}
    (model / "config.json").write_text(json.dumps(config))
    write_generation_config(model, best)
    made = GenerationConfig.from_pretrained(model)
    assert made.eos_token_id == eos and made.temperature == 0.5


@pytest.mark.parametrize("card", ["", "---\nlicense: mit\n---\n\n# A model\n\nText.\n"])
def test_the_card_gets_one_section_and_keeps_the_rest(best, tmp_path, card):
    path = tmp_path / "README.md"
    if card:
        path.write_text(card)
    write_card(tmp_path, best)
    once = path.read_text()
    assert once.startswith(card.rstrip()) and once.count(BEGIN) == 1
    for number in ("0.5", "16 answers 1,", "4 problems of a"):
        assert number in once
    path.write_text(once + "\n## More\n")
    write_card(tmp_path, best)
    assert path.read_text() == once + "\n## More\n"


def test_the_command_writes_on_request_only(sums, tmp_path, capsys):
    model = save_tiny_model(tmp_path / "model")
    before = {path.name: path.read_bytes() for path in model.iterdir()}
    sweep = {"temperatures": [0.5, 1.0]}
    run(arguments(model, tmp_path / "eval", f"{sums}@2", **sweep))
    assert {path.name: path.read_bytes() for path in model.iterdir()} == before
    capsys.readouterr()
    # The finished evaluation is not drawn again.
    run(arguments(model, tmp_path / "eval", f"{sums}@2", **sweep, save_temperature="sums"))
    # A model of random weights solves nothing, and of equally good temperatures the lowest is taken.
    assert read_generation_config(model)["temperature"] == 0.5
    assert "temperature from" in capsys.readouterr().out
    changed = {path.name for path in model.iterdir() if before.get(path.name) != path.read_bytes()}
    assert changed == {"generation_config.json", "README.md"}


@pytest.mark.parametrize(
    ("changed", "field"),
    [
        ({"model_name_or_path": "some/model"}, "model_name_or_path='some/model'"),
        ({"temperatures": [1.0]}, "--temperatures"),
        ({"temperatures": None}, "--temperatures"),
        ({"save_temperature": "sum"}, "got 'sum'"),
    ],
)
def test_a_temperature_that_cannot_be_saved_is_refused_first(tiny_folder, sums, tmp_path, changed, field):
    given = {"temperatures": [0.5, 1.0], "save_temperature": "sums"} | changed
    model = given.pop("model_name_or_path", tiny_folder)
    with pytest.raises(ValueError, match=field):
        arguments(model, tmp_path / "eval", str(sums), **given)


def test_a_damaged_file_of_the_model_is_refused(sums, tmp_path):
    model = save_tiny_model(tmp_path / "model")
    (model / "generation_config.json").write_text("{")
    with pytest.raises(ValueError, match=r"generation_config\.json"):
        arguments(model, tmp_path / "eval", str(sums), temperatures=[0.5, 1.0], save_temperature="sums")
