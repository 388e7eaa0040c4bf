"""Math data: every schema in, one shape out; what goes is counted, what is wrong gets one clear error."""

import json
from pathlib import Path

import pytest
from datasets import Dataset
from support import SHARED
from support.runs import save_tiny_model
from transformers import AutoTokenizer

from steer_trl.data import SOURCES, load_math_dataset
from steer_trl.data.instructions import INSTRUCTIONS, add_instruction, strip_instruction
from steer_trl.data.lengths import drop_long_prompts
from steer_trl.data.raw_rows import read_rows
from steer_trl.data.schemas import ANSWERS, QUESTIONS

QUESTION = "What is 2+2?"
MESSAGES = [{"role": "user", "content": QUESTION}]
ASKED = [{"role": "user", "content": add_instruction(QUESTION, INSTRUCTIONS["boxed"])}]
QWENS = "{problem}\nPlease reason step by step, and put your final answer within \\boxed{}."
DAPO = INSTRUCTIONS["answer_line"].replace("{problem}", QUESTION)
HASHES = 'Let\'s think step by step and output the final answer after "####".'
QWEN = f"<|im_start|>user\n{QUESTION}\nPlease reason step by step, and put your final answer within \\boxed{{}}."
QWEN += "<|im_end|>\n<|im_start|>assistant\n"
LLAMA = f"<|begin_of_text|><|start_header_id|>user<|end_header_id|>\n\n{QUESTION}<|eot_id|>"
LLAMA += "<|start_header_id|>assistant<|end_header_id|>\n\n"
WORKED = r"Two and two are $\boxed{5}$, no, $\boxed{4}$."

# One row in the columns of each data set of the Hub.
GRADED = {"ability": "MATH", "reward_model": {"ground_truth": "4", "style": "rule-lighteval/MATH_v2"}}
OLYMPIAD = {"id": 1606, "question": QUESTION, "solution": ["Count."], "context": None}
SCHEMAS = {
    "BytedTsinghua-SIA/DAPO-Math-17k": GRADED
    | {"data_source": "math_dapo", "prompt": [{"content": DAPO, "role": "user"}], "extra_info": {"index": "9a9b6eb4"}},
    "open-r1/DAPO-Math-17k-Processed": GRADED
    | {"prompt": QUESTION, "solution": "4", "source_prompt": [{"content": DAPO, "role": "user"}]}
    | {"data_source": "math_dapo", "extra_info": {"index": "9a9b6eb4"}},
    "haizhongzheng/DAPO-Math-17K-cleaned": {"prompt": QUESTION, "target": "4", "ability": "MATH"},
    "HuggingFaceH4/aime_2024": {"id": 60, "problem": QUESTION, "solution": WORKED, "answer": "004"},
    "math-ai/aime24": {"id": 60, "problem": QUESTION, "solution": r"\boxed{4}"},
    "math-ai/aime25": {"problem": QUESTION, "answer": "4", "id": "0"},
    "math-ai/amc23": {"id": 0, "question": QUESTION, "answer": "4.0"},
    "HuggingFaceH4/MATH-500": {"problem": QUESTION, "solution": WORKED, "answer": "4", "unique_id": "test/1.json"},
    "math-ai/minervamath": {"question": QUESTION, "answer": "4"},
    "math-ai/olympiadbench": OLYMPIAD | {"final_answer": ["$4$"]},
    "Hothan/OlympiadBench": OLYMPIAD | {"final_answer": ["4"]},
    "openai/gsm8k": {"question": QUESTION, "answer": "Two and two are <<2+2=4>>4.\n#### 4"},
    "agentica-org/DeepScaleR-Preview-Dataset": {"problem": QUESTION, "answer": "4", "solution": "Count."},
    "trl text": {"prompt": QUESTION, "solution": "4"},
    "trl messages": {"prompt": MESSAGES, "solution": WORKED, "level": 3},
    "PrimeIntellect/SYNTHETIC-1": {"prompt": QUESTION, "verification_info": '{"ground_truth": "4"}', "id": "a"},
    "Search-R1": {"prompt": MESSAGES, "reward_model": {"ground_truth": {"target": ["4"]}, "style": "rule"}},
    "nvidia/OpenMathReasoning": {"problem": QUESTION, "expected_answer": "4", "generated_solution": WORKED},
    "allenai/RLVR-MATH": {"messages": MESSAGES, "ground_truth": "4", "dataset": "MATH"},
    "NeMo Skills": {"problem": QUESTION, "golden_answer": "4"},
    "Maxwell-Jia/AIME_2024": {"ID": "I-1", "Problem": QUESTION, "Answer": 4},
    "a list of values": {"question": QUESTION, "answer": [{"value": "4"}]},
    "hkust-nlp/SimpleRL-Zoo-Data": {"prompt": [{"role": "user", "content": QWEN}], "gt_answer": "4"},
    "Llama's template": {"prompt": LLAMA, "target": "4"},
    "Phi-4's template": {"prompt": f"<|im_start|>user<|im_sep|>{QUESTION}<|im_end|>", "answer": "4"},
    "gpt-oss's template": {"prompt": f"<|start|>user<|message|>{QUESTION}<|end|><|start|>assistant", "answer": "4"},
    "several spellings": {"prompt": QUESTION, "reward_model": {"ground_truth": {"target": ["4", "four"]}}},
    "a solution inside": {"question": QUESTION, "answer": {"final_answer": "4"}},
    "messages as JSON": {"prompt": json.dumps(MESSAGES), "answer": "4"},
    "verl's gsm8k.py": {"prompt": [{"role": "user", "content": f"{QUESTION} {HASHES}"}]} | GRADED,
    "Qwen's wording": {"prompt": add_instruction(QUESTION, QWENS), "solution": "4"},
}


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


def said(capsys):
    return next(line for line in capsys.readouterr().err.splitlines() if "problems from" in line)


@pytest.mark.parametrize("suffix", [".parquet", ".jsonl"])
@pytest.mark.parametrize("row", SCHEMAS.values(), ids=SCHEMAS)
def test_every_schema_comes_out_the_same(save, row, suffix):
    dataset = load_math_dataset(save([row], suffix))
    name = row.get("id", row.get("unique_id", (row.get("extra_info") or {}).get("index", 0)))
    assert dataset.to_list() == [{"prompt": ASKED, "solution": r"\boxed{4}", "source": "problems", "id": str(name)}]


@pytest.mark.parametrize(
    ("row", "solution"),
    [
        ({"question": "?", "answer": "so\n#### 1,234"}, r"\boxed{1234}"),
        ({"question": "?", "answer": "so\n#### (3, 4)"}, r"\boxed{(3, 4)}"),
        ({"question": "?", "answer": "so\n#### 1, 2"}, r"\boxed{1, 2}"),
        ({"problem": "?", "answer": "18 square feet"}, r"\boxed{18\text{ square feet}}"),
        ({"problem": "?", "answer": "10 AM"}, r"\boxed{10 AM}"),
        ({"problem": "?", "answer": "-007"}, r"\boxed{-7}"),
        ({"problem": "?", "answer": "0"}, r"\boxed{0}"),
        ({"problem": "?", "answer": None, "solution": WORKED}, r"\boxed{4}"),
        ({"prompt": None, "problem": "?", "answer": "4"}, r"\boxed{4}"),
        ({"question": "?", "final_answer": ["$-3$", "0"]}, r"\boxed{-3, 0}"),
        ({"problem": "?", "answer": "033"}, r"\boxed{33}"),
        ({"problem": "?", "answer": "27.0"}, r"\boxed{27}"),
        ({"problem": "?", "answer": "2.50"}, r"\boxed{2.50}"),
        ({"problem": "?", "answer": r"10,\!080"}, r"\boxed{10,\!080}"),
        ({"problem": "?", "answer": r"$\frac{1}{2}$"}, r"\boxed{\frac{1}{2}}"),
        ({"problem": "?", "answer": 34}, r"\boxed{34}"),
        ({"problem": "?", "answer": r"hence $\boxed 8$"}, r"\boxed{8}"),
        ({"problem": "?", "answer": 2.5e-7}, r"\boxed{2.5e-07}"),
        ({"problem": "?", "solution": "#### 1. Try\n$\\boxed{8}$\n#### 2. Check 3"}, r"\boxed{8}"),
    ],
)
def test_the_answer_of_every_layout_is_read(save, row, solution):
    assert load_math_dataset(save([row]))["solution"] == [solution]


def test_text_before_a_problem_stays(save):
    system = {"role": "system", "content": "Be brief."}
    dataset = load_math_dataset(save([{"prompt": [system, *MESSAGES], "solution": "4"}]))
    assert dataset[0]["prompt"] == [system, *ASKED]
    dataset = load_math_dataset(save([{"question": QUESTION, "context": "Think.", "final_answer": ["4"]}], ".jsonl"))
    assert f"Think.\n\n{QUESTION}" in dataset[0]["prompt"][0]["content"]


def test_one_instruction_replaces_that_of_the_data_set(save):
    path = save([{"prompt": DAPO, "solution": "4"}])
    assert load_math_dataset(path, answer_format="answer_line")[0]["prompt"][0]["content"] == DAPO
    assert load_math_dataset(path, instruction="{problem}")[0]["prompt"] == MESSAGES
    boxed = load_math_dataset(path, instruction="{problem} \\boxed{}")
    assert boxed[0]["prompt"][0]["content"] == QUESTION + " \\boxed{}"


@pytest.mark.parametrize("wording", INSTRUCTIONS.values(), ids=INSTRUCTIONS)
def test_instructions_come_off_again(wording):
    assert strip_instruction(add_instruction(QUESTION, wording)) == QUESTION
    assert strip_instruction(QUESTION) == QUESTION


@pytest.mark.parametrize(
    "wording",
    [
        "{problem}\nPut the final answer in \\boxed{}.",
        "{problem} Think step by step and write your final answer after ####.",
        "{problem}\n\nYou must place your answer inside \\boxed{}, and it will be extracted from the \\boxed{} tag.",
        "{problem} Return your response within \\boxed{your answer}.",
    ],
)
def test_a_sentence_about_the_form_comes_off(wording):
    for problem in (QUESTION, "Write $0.5$ as a fraction. Give your answer in lowest terms."):
        assert strip_instruction(wording.replace("{problem}", problem)) == problem


def test_conversations_that_end_alike_are_different_problems(save):
    def talk(i):
        turns = [("system", "Be brief."), ("user", f"{i}+1?"), ("assistant", "0"), ("user", "Try again.")]
        return {"prompt": [{"role": role, "content": text} for role, text in turns], "solution": str(i + 1)}

    rows = [talk(i) for i in range(4)] + [talk(0)]
    assert len(load_math_dataset(save(rows))) == 4


def test_copies_are_removed_and_counted(save, capsys):
    rows = [
        {"id": 7, "prompt": "1+1?", "solution": "2"},
        {"id": 7, "prompt": " 1+1? \n", "solution": r"\frac{4}{2}"},  # the same answer, written in another way
        {"id": 8, "prompt": "1+2?", "solution": "3"},
        {"id": 8, "prompt": "1+2?", "solution": "4"},
        {"id": 9, "prompt": DAPO, "solution": "4"},
        {"id": 9, "prompt": QUESTION, "solution": "4"},
        {"id": 10, "prompt": "", "solution": "4"},
    ] + [{"id": 100 + i, "prompt": f"{i}+1?", "solution": str(i + 1)} for i in range(30, 60)]
    rows.append({"id": 11, "prompt": "What is it?", "solution": "the number of apples"})
    dataset = load_math_dataset(save(rows))
    assert dataset["id"][:2] == ["7", "9"] and len(dataset) == 32
    line = said(capsys)
    assert "32 problems from 38 rows." in line
    counts = (
        "1 rows without a question",
        "3 copies",
        "1 problems whose copies disagree",
        "1 only equal to itself (row 37: ",
    )
    assert all(count in line for count in counts)
    rows = [{"id": 0, "prompt": f"{i}+1?", "solution": str(i + 1)} for i in range(3)]
    assert load_math_dataset(save(rows))["id"] == ["0", "1", "2"]  # names that are not unique are no names
    assert said(capsys).endswith("3 problems from 3 rows.")


def test_rows_without_an_answer_are_removed_and_counted(save, capsys):
    rows = [{"prompt": f"{i}+1?", "solution": str(i + 1)} for i in range(20)]
    tests = json.dumps({"inputs": ["1"], "outputs": ["2"]})
    faults = {"proof": "proof", "Proof.": "proof", "notfound": "no answer", "N/A": "no answer", tests: "program"}
    rows += [{"prompt": f"Why {gold}?", "solution": gold} for gold in faults]
    assert load_math_dataset(save(rows))["solution"][:] == [rf"\boxed{{{i + 1}}}" for i in range(20)]
    line = said(capsys)
    assert all(text in line for text in ("2 proof (row 20", "2 no answer (row 22", "1 program (row 24"))


def test_long_numbers_of_a_file_keep_their_digits(tmp_path):
    path = tmp_path / "long.jsonl"
    path.write_text('{"problem": "a?", "answer": 98765432109876543210987}\n{"problem": "b?", "answer": 0.5}\n')
    assert load_math_dataset(str(path))["solution"][:] == [r"\boxed{98765432109876543210987}", r"\boxed{0.5}"]


LONG = 10**20
ROWS = 10
SPLITS = ["train", "all", "train[:80%]", "train[80%:]", "train[-2:]", "train[:20%]+train[7:]", "train[:2]+train[:2]"]
EMPTY_SPLITS = ["train[:0]", "train[90:]", "train[4:2]"]
UNKNOWN_SPLITS = ["test", "train[:2]+test", "train[", "train[:10%](pct1_dropremainder)"]
LAYOUTS = {
    "lines": "\n".join,
    "lines of Windows": "\r\n".join,
    "array": lambda rows: f"[{', '.join(rows)}]",
    "indented": lambda rows: "\n".join(row.replace("{", "{\n  ") for row in rows),
}


@pytest.fixture(scope="module")
def short_numbers(tmp_path_factory):
    path = tmp_path_factory.mktemp("short") / "short.parquet"
    Dataset.from_dict({"number": range(ROWS)}).to_parquet(path)
    return str(path)


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_a_split_of_long_numbers_is_that_of_other_files(tmp_path, short_numbers, layout):
    path = tmp_path / "long.jsonl"
    path.write_text(layout([json.dumps({"number": LONG + number}) for number in range(ROWS)]))
    for split in SPLITS:
        numbers = [int(text) - LONG for text in read_rows(str(path), split, keeps_digits=True)["number"]]
        assert numbers == read_rows(short_numbers, split)["number"][:]
    for split in EMPTY_SPLITS + UNKNOWN_SPLITS:
        for file in (str(path), short_numbers):
            with pytest.raises(ValueError, match="has no rows" if split in EMPTY_SPLITS else "cannot be loaded"):
                read_rows(file, split, keeps_digits=True)


def test_training_and_test_rows_of_a_file_share_no_problem(tmp_path):
    path = tmp_path / "long.jsonl"
    path.write_text("".join(json.dumps({"problem": f"{i}?", "answer": LONG + i}) + "\n" for i in range(ROWS)))
    train, test = (load_math_dataset(str(path), split) for split in ("train[:80%]", "train[80%:]"))
    assert [len(part) for part in (train, test)] == [8, 2]
    assert not set(train["solution"]) & set(test["solution"])


@pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)
def test_a_file_with_long_numbers_has_all_its_texts_and_columns(tmp_path, layout):
    path = tmp_path / "long.jsonl"
    # These characters end a line for Python, but not in JSON.
    texts = [f"before{sign}behind" for sign in "\u2028\u2029\x85"]
    rows = [{"problem": texts[0]}, {"problem": texts[1], "answer": LONG}, {"problem": texts[2], "id": "a"}]
    path.write_text(layout([json.dumps(row, ensure_ascii=False) for row in rows]), "utf-8")
    read = read_rows(str(path), keeps_digits=True)
    assert read.to_dict() == {"problem": texts, "answer": [None, str(LONG), None], "id": [None, None, "a"]}


def test_problems_that_only_look_alike_stay(save):
    rows = [{"prompt": "What is 2²?", "solution": "4"}, {"prompt": "What is 22?", "solution": "22"}]
    assert len(load_math_dataset(save(rows))) == 2
    rows = [{"prompt": "1\uff0c2?", "solution": "4"}, {"prompt": "1,2?", "solution": "4"}]  # a wide comma
    assert len(load_math_dataset(save(rows, ".jsonl"))) == 1


def test_mixed_sets_lose_copies_between_them(save, tmp_path, capsys):
    one = save([{"problem": f"{i}+1?", "answer": str(i + 1)} for i in range(3)])
    two = tmp_path / "two.jsonl"
    answers = {"2+1?": '["3", "03"]', "0+1?": '["7"]', "8+1?": '["9"]'}  # the same, another one, one of its own
    rows = [
        {"prompt": [{"role": "user", "content": question}], "reward_model": {"ground_truth": truth}}
        for question, truth in answers.items()
    ]
    two.write_text("".join(json.dumps(row) + "\n" for row in rows))
    mixed = load_math_dataset([one, str(two)])
    assert mixed["solution"][:] == [r"\boxed{2}", r"\boxed{3}", r"\boxed{9}"]
    assert mixed["source"][:] == [Path(one).stem, Path(one).stem, "two"]
    assert "3 problems from 6 rows. Removed: 2 copies, 1 problems whose copies disagree." in said(capsys)


def test_long_prompts_are_dropped_and_counted(tmp_path, capsys):
    tokenizer = AutoTokenizer.from_pretrained(save_tiny_model(tmp_path / "tiny"))
    texts = ["1", "1 + 1 = " * 20]
    for prompts in (texts, [[{"role": "user", "content": text}] for text in texts]):
        rows = Dataset.from_dict({"prompt": prompts, "solution": ["1", "2"]})
        assert drop_long_prompts(rows, tokenizer, 50)["solution"][:] == ["1"]
        assert "Removed 1 of 2 prompts with more than 50 tokens" in capsys.readouterr().err
        assert len(drop_long_prompts(rows, tokenizer, 10_000)) == 2
        assert "Removed" not in capsys.readouterr().err
    with pytest.raises(ValueError, match="max_prompt_length=1 leaves none of the 2 prompts"):
        drop_long_prompts(rows, tokenizer, 1)
    tokenizer.chat_template = "{{ messages[0]['content'] * repeats }}"
    assert [len(drop_long_prompts(rows, tokenizer, 200, repeats=times)) for times in (1, 3)] == [2, 1]


def test_short_names_are_pinned_or_listed():
    unpinned = [name for name, source in SOURCES.items() if source.revision is None]
    assert unpinned == ["dapo-math-17k-cleaned", "skywork-or1-math", "polaris-53k", "aime26", "hmmt_feb26"]
    assert all(len(source.revision) == 40 for source in SOURCES.values() if source.revision)


@pytest.mark.parametrize("missing", ["question", "answer"])
@pytest.mark.parametrize("row", SCHEMAS.values(), ids=SCHEMAS)
def test_a_missing_column_is_named(save, row, missing):
    gone = set(QUESTIONS if missing == "question" else ANSWERS)
    rest = {name: value for name, value in row.items() if name not in gone} | {"other": 1}
    with pytest.raises(ValueError, match=rf"{missing} is missing: .* The columns are \["):
        load_math_dataset(save([rest]))


NOBODY, NOTHING = [{"role": "assistant", "content": "4"}], [{"role": "user", "content": None}]


@pytest.mark.parametrize(
    ("rows", "message"),
    [
        *(
            ([{"prompt": MESSAGES, "reward_model": reward_model}], "an answer is missing")
            for reward_model in ({"style": "rule"}, "rule", None)
        ),
        *(
            (
                [{"prompt": "1+1?", "solution": "2"}, {"prompt": "1+2?", "solution": answer}],
                r"1 of 2 gold answers cannot be scored.* \(row 1",
            )
            for answer in (None, "", "the number of apples")
        ),
        *(
            ([{"prompt": prompt, "solution": "4"}], "none of its 1 rows .* 1 rows without a question")
            for prompt in (None, [], NOTHING)
        ),
        ([{"prompt": NOBODY, "solution": "4"}], "1 rows whose conversation does not end with the user"),
        ([{"prompt": "1+1?", "solution": "proof"}], "none of its 1 rows .* 1 proof"),
        *(
            ([{"prompt": prompt, "solution": "2"} | columns], "none of its 1 rows .* 1 rows with an image")
            for prompt, columns in (("1+1?", {"image": "x.png"}), ("1+1?", {"image_url": "x"}), ("<image>1+1?", {}))
        ),
        ([], "has no rows"),
    ],
)
def test_rows_that_cannot_be_asked_or_scored(save, rows, message):
    with pytest.raises(ValueError, match=message):
        load_math_dataset(save(rows, ".jsonl"))


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"answer_format": "box"}, "answer_format='box' is unknown"),
        ({"instruction": "Solve it."}, "instruction must contain {problem} exactly once, .* got 'Solve it.'"),
    ],
)
def test_wrong_arguments(wrong, message):
    with pytest.raises(ValueError, match=message):
        load_math_dataset("nowhere.parquet", **wrong)


REAL = {"DAPO-Math-17k": 17_182, "aime24": 30, "aime25": 30, "amc23": 40, "gsm8k_test": 1_319, "math500": 500}
REAL |= {"minerva_math": 272, "olympiadbench": 673}


@pytest.mark.skipif(not SHARED.exists(), reason="the real data sets are not beside this checkout")
@pytest.mark.parametrize("name", REAL)
def test_real_data(name, capsys):
    dataset = load_math_dataset(str(SHARED / f"data/{name}.parquet"))
    assert len(dataset) == REAL[name]
    asked = "".join(row["prompt"][0]["content"] for row in dataset.select(range(30)))
    assert "Remember to put your answer on its own line" not in asked
