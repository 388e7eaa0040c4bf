"""Files in the place of a setting's value: what is wrong with one is an error of one line that names it."""

import pytest

from steer_trl.cli.eval_arguments import EvalArguments
from steer_trl.evaluation import load_samplings


def instruction(path):
    return EvalArguments(model_name_or_path="m", output_dir="out", instruction=path).wording


READERS = {"samplings": lambda path: load_samplings([path]), "instruction": instruction}


@pytest.mark.parametrize("setting", READERS)
@pytest.mark.parametrize(
    ("text", "message"),
    [
        (None, "cannot be read: .*No such file"),
        ("a: [\n", "cannot be read: while parsing"),
        ("", "must map names to"),
        ("- a\n", "must map names to"),
        ("a: 1\n", "must map names to"),
        ("1: {}\n", "must map names to"),
    ],
)
def test_a_file_that_is_wrong_is_named(tmp_path, setting, text, message):
    path = tmp_path / "mine.yaml"
    if text is not None:
        path.write_text(text)
    with pytest.raises(ValueError, match=rf"^{setting}: '.*mine.yaml' {message}") as refusal:
        READERS[setting](str(path))
    assert "\n" not in str(refusal.value)


def test_a_file_is_read_once(tmp_path):
    wordings, ways = tmp_path / "wordings.yaml", tmp_path / "ways.yaml"
    wordings.write_text("a: 'Solve: {problem}'\n")
    ways.write_text("hot: {temperature: 1.2}\n")
    files = {"instruction": str(wordings), "samplings": [str(ways)], "benchmarks": [f"a={tmp_path / 'a.jsonl'}"]}
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "a.jsonl").write_text('{"problem": "1+1", "answer": "2"}\n')
    args = EvalArguments(model_name_or_path=str(tmp_path), output_dir=str(tmp_path / "_out"), **files)
    for path in (wordings, ways):
        path.unlink()
    assert args.wording == {"a": "Solve: {problem}"} and args.ways_to_draw["hot"].temperature == 1.2
