"""Math data: two schemas in, one shape out, and one clear error for each thing that is wrong."""

import json

import pytest
from conftest import SHARED
from datasets import Dataset

from steer_trl.data import boxed, load_math_dataset

MESSAGES = [{"role": "user", "content": "What is 2+2?"}]
VERL = {"prompt": MESSAGES, "reward_model": {"ground_truth": "4", "style": "rule"}, "ability": "MATH"}


@pytest.fixture
def save(tmp_path):
    def write(rows, suffix=".parquet"):
        path = tmp_path / f"problems{suffix}"
        if suffix == ".parquet":
            Dataset.from_list(rows).to_parquet(path)
        else:
            path.write_text("\n".join(map(json.dumps, rows)))
        return str(path)

    return write


@pytest.mark.parametrize("suffix", [".parquet", ".jsonl", ".json"])
@pytest.mark.parametrize(
    "row",
    [
        VERL,
        {"prompt": "What is 2+2?", "solution": "4"},
        {"prompt": MESSAGES, "solution": r"so $\boxed{4}$", "level": 3},
        {"prompt": "What is 2+2?", "solution": "4"} | {"reward_model": {"ground_truth": "4"}},
    ],
    ids=["verl", "trl text", "trl messages", "both"],
)
def test_every_schema_comes_out_the_same(save, row, suffix):
    dataset = load_math_dataset(save([row, row], suffix))
    assert dataset.column_names == ["prompt", "solution"]
    assert dataset[0]["prompt"] == MESSAGES
    assert dataset[0]["solution"] in (r"\boxed{4}", r"so $\boxed{4}$")


@pytest.mark.parametrize(
    ("answer", "expected"),
    [
        ("34", r"\boxed{34}"),
        (34, r"\boxed{34}"),
        (r" $\frac{1}{2}$ ", r"\boxed{\frac{1}{2}}"),
        (r"\boxed{3}", r"\boxed{3}"),
        (r"$$x+1$$", r"\boxed{x+1}"),
        (r"18\$", r"\boxed{18\$}"),
        ("$3$ and $4$", r"\boxed{$3$ and $4$}"),
    ],
)
def test_boxed(answer, expected):
    assert boxed(answer) == expected


class TestRefusals:
    def test_no_such_file(self):
        with pytest.raises(FileNotFoundError, match=r"data set 'nowhere.parquet' is refused: there is no such file"):
            load_math_dataset("nowhere.parquet")

    def test_no_answer_column(self, save):
        with pytest.raises(ValueError, match=r"its columns are \['answer', 'prompt'\]. Give verl's schema"):
            load_math_dataset(save([{"prompt": "1+1?", "answer": "2"}]))

    def test_no_prompt_column(self, save):
        with pytest.raises(ValueError, match=r"its columns are \['question', 'solution'\]"):
            load_math_dataset(save([{"question": "1+1?", "solution": "2"}]))

    @pytest.mark.parametrize("suffix", [".parquet", ".jsonl"])
    def test_no_rows(self, tmp_path, suffix):
        path = str(tmp_path / f"empty{suffix}")
        if suffix == ".parquet":
            Dataset.from_dict({"prompt": [], "solution": []}).to_parquet(path)
        else:
            open(path, "w").close()
        with pytest.raises(ValueError, match="it has no rows"):
            load_math_dataset(path)

    @pytest.mark.parametrize("answer", [None, "", "???", "So the answer is 3"])
    def test_answers_that_could_never_be_met(self, save, answer):
        rows = [{"prompt": "1+1?", "solution": "2"}, {"prompt": "1+2?", "solution": answer}]
        with pytest.raises(ValueError, match=r"1 of 2 gold answers cannot be parsed \(row 1"):
            load_math_dataset(save(rows))

    @pytest.mark.parametrize("reward_model", [{"ground_truth": None}, None])
    def test_no_answer_in_verls_schema(self, save, reward_model):
        rows = [VERL, {"prompt": MESSAGES, "reward_model": reward_model, "ability": "MATH"}]
        with pytest.raises(ValueError, match=r"1 of 2 gold answers cannot be parsed \(row 1: None\)"):
            load_math_dataset(save(rows))

    @pytest.mark.parametrize("reward_model", [{"style": "rule"}, "rule", None])
    def test_no_ground_truth_in_verls_schema(self, save, reward_model):
        with pytest.raises(ValueError, match="'reward_model' with 'ground_truth'"):
            load_math_dataset(save([{"prompt": MESSAGES, "reward_model": reward_model}]))

    def test_an_empty_prompt(self, save):
        rows = [{"prompt": "1+1?", "solution": "2"}, {"prompt": None, "solution": "3"}]
        with pytest.raises(ValueError, match=r"1 of 2 prompts are empty \(row 1\)"):
            load_math_dataset(save(rows))

    def test_answers_in_words_and_units_are_fine(self, save):
        answers = [r"\text{June 20}", "Evelyn", r"5 \text{ cm}", r"x \in \mathbb{R}", r"\frac{1}{2}"]
        assert len(load_math_dataset(save([{"prompt": "?", "solution": answer} for answer in answers]))) == 5

    def test_answers_that_cannot_be_parsed(self, save):
        rows = [{"prompt": "1+1?", "solution": answer} for answer in ("2", "", "2", "")]
        with pytest.raises(ValueError, match=r"2 of 4 gold answers cannot be parsed \(row 1: '.*boxed{}'\)"):
            load_math_dataset(save(rows))


@pytest.mark.skipif(not SHARED.exists(), reason="the real data sets are not beside this checkout")
def test_the_real_training_set():
    dataset = load_math_dataset(str(SHARED / "data/DAPO-Math-17k.parquet"))
    assert len(dataset) == 17_398
    assert all(row["solution"].startswith(r"\boxed{") for row in dataset.select(range(100)))
