"""The laptop task: its verifier, its data, its measurements."""

import io
import json
import random

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from tqdm import tqdm

from steer_trl import SteerGRPOConfig
from steer_trl.countdown.evaluation import evaluate, sample, task_sampling
from steer_trl.countdown.experiment import START, Experiment, show, train_methods
from steer_trl.countdown.report import verdicts
from steer_trl.countdown.task import (
    CHARACTERS,
    FEWEST_SOLUTIONS,
    MAX_COMPLETION_TOKENS,
    all_problems,
    countdown_reward,
    is_correct,
    solutions,
    solved_examples,
    split_problems,
)
from steer_trl.countdown.training import main
from steer_trl.tiny import tiny_qwen2, tiny_tokenizer


@pytest.mark.parametrize(
    ("completion", "right"),
    [
        ("3*7=21;21+5=26", True),
        ("7*3=21;5+21=26", True),
        ("3*7=21", False),  # a number left over
        ("3*7=22;22+4=26", False),  # wrong arithmetic
        ("3*7=21;21+6=27", False),  # a number that is not there
        ("3*7=21;21+5=26;", False),
        ("3*7=21;21+5=26;26+0=26", False),
        ("3*7=21;5+3=8", False),  # a number used twice
        ("5+21=26;3*7=21", False),  # a result used before it is there
        ("3*7=21;21-5=16", False),  # another target
        ("", False),
        ("nonsense", False),
        ("\uff13*7=21;21+5=26", False),  # a full-width 3
    ],
)
def test_verifier(completion, right):
    assert is_correct("3 5 7>26:", completion) is right
    assert countdown_reward(prompts=["3 5 7>26:"], completions=[completion]) == [float(right)]


def test_every_listed_solution_is_correct_fits_and_has_company():
    problems = all_problems()
    assert len(problems) == 2466
    for prompt, found in problems.items():
        assert len(set(found)) == len(found) >= FEWEST_SOLUTIONS
        assert all(is_correct(prompt, text) and len(text) < MAX_COMPLETION_TOKENS for text in found)


@given(st.integers(0, 10**6))
def test_the_verifier_accepts_no_more_than_the_list(seed):
    """Random step pairs: right if and only if listed."""
    rng = random.Random(seed)
    prompt = rng.choice(list(all_problems()))
    a, b, c = rng.sample(prompt.split(">")[0].split(), 3)
    first, second = rng.choice("+-*"), rng.choice("+-*")
    middle = eval(f"{a}{first}{b}")
    text = f"{a}{first}{b}={middle};{middle}{second}{c}={eval(f'{middle}{second}{c}')}"
    assert is_correct(prompt, text) == (text in all_problems()[prompt])


def test_held_out_problems_are_in_no_training_example():
    held_out, train = split_problems(400)
    assert len(held_out) == 400 and len(held_out) + len(train) == len(all_problems())

    def problem(prompt):
        numbers, target = prompt.split(">")
        return tuple(sorted(numbers.split())), target

    hidden = {problem(prompt) for prompt in held_out}
    assert not hidden & {problem(prompt) for prompt in train}
    examples = solved_examples(500, train)
    assert not hidden & {problem(example["prompt"]) for example in examples}
    assert all(is_correct(**{"prompt": e["prompt"], "completion": e["completion"]}) for e in examples)
    assert split_problems(400) == (held_out, train)


def test_tokenizer_round_trip():
    tokenizer = tiny_tokenizer(CHARACTERS)
    text = "3 5 7>26:3*7=21;21+5=26"
    assert tokenizer.decode(tokenizer(text)["input_ids"]) == text
    assert len(tokenizer(text)["input_ids"]) == len(text)


class TestEvaluation:
    @pytest.fixture
    def model(self):
        tokenizer = tiny_tokenizer(CHARACTERS)
        return tiny_qwen2(tokenizer), tokenizer

    def test_sampling_leaves_the_random_state_and_repeats_itself(self, model):
        before = torch.random.get_rng_state()
        prompts = split_problems(3)[0]
        first = sample(*model, prompts, 2, task_sampling())
        assert torch.equal(torch.random.get_rng_state(), before)
        assert first == sample(*model, prompts, 2, task_sampling())
        assert [len(texts) for texts in first] == [2, 2, 2]

    def test_metrics_by_hand(self, model, monkeypatch):
        prompts = split_problems(2)[0]
        one, two = solutions(prompts[0])[:2]
        # Numbers in another order change nothing about the steps; four samples, 3 right of 2 kinds, and 0 right.
        texts = [[one, two, one, "no"], ["no"] * 4]
        monkeypatch.setattr("steer_trl.countdown.evaluation.sample", lambda *_: texts)
        metrics = evaluate(*model, prompts, 4, task_sampling())
        assert {name: mean for name, (mean, _) in metrics.items()} == {
            "accuracy": 0.375,
            "pass@4": 0.5,
            "distinct": 1.0,
        }


class TestTraining:
    @pytest.fixture
    def run(self, tmp_path, model_dir):
        """The command on a model that knows some of the characters; what it measured comes back."""

        def run(**fields):
            folder = tmp_path / "run"
            fields |= {"start": model_dir, "output_dir": folder, "held_out": 4, "per_device_train_batch_size": 8}
            main([str(word) for name, value in fields.items() for word in (f"--{name}", value)])
            return json.loads((folder / "measured.json").read_text())

        return run

    @pytest.mark.parametrize(("word", "resumes"), [("true", True), ("checkpoint-2", True), ("false", False)])
    def test_resumes(self, run, tmp_path, word, resumes):
        """The log and the evaluations go on where those of the checkpoint ended, of which one entry each is marked."""
        fields = {"save_strategy": "steps", "save_steps": 2, "eval_every": 1}
        run(max_steps=2, **fields)
        saved = tmp_path / "run/checkpoint-2/trainer_state.json"
        state = json.loads(saved.read_text())
        for entry in state["log_history"][:2]:
            entry |= {"held_out": {"T=1": {"accuracy": -1.0}}} if "held_out" in entry else {"entropy": -1.0}
        saved.write_text(json.dumps(state))
        path = tmp_path / "run" / word if word == "checkpoint-2" else word
        measured = run(max_steps=3, resume_from_checkpoint=path, **fields)
        entropies = [entry["entropy"] for entry in measured["log"] if "entropy" in entry]
        accuracies = {point["step"]: point["T=1"]["accuracy"] for point in measured["held_out"]}
        assert len(entropies) == 3 and max(accuracies) == 3
        assert [entropies[0] == -1, accuracies[1] == -1] == [resumes] * 2

    def test_several_processes_evaluate_at_the_end_only(self, run, monkeypatch):
        monkeypatch.setattr(SteerGRPOConfig, "world_size", 2)
        with pytest.raises(ValueError, match="eval_every=2 cannot be combined with 2 processes"):
            run(max_steps=1, eval_every=2)


def test_a_run_that_fails_says_why(tmp_path):
    experiment = Experiment({"GRPO": {}}, tmp_path, held_out=4)  # there is no start
    with pytest.raises(RuntimeError, match=r"(?s)GRPO failed.*/grpo/output\.txt .*there is no such folder"):
        train_methods(experiment)


def test_verdicts_in_words():
    columns = {
        "T=1": ("accuracy", "pass@16", "distinct"),
        "top-p 0.7": ("accuracy", "pass@16"),
        "greedy": ("accuracy",),
    }

    skill = [number / 50 for number in range(50)]

    def run(shift, noise=0.0):
        values = [value + shift + noise * (-1) ** number for number, value in enumerate(skill)]
        return {"problems": {sampling: dict.fromkeys(metrics, values) for sampling, metrics in columns.items()}}

    results = {START: {}, "GRPO": run(0.0), "better": run(0.02, 0.01), "level": run(0.001, 0.1)}
    first, *lines = verdicts(results, "GRPO").splitlines()
    assert first == "Against GRPO, paired over the same problems, difference and 95 % interval:"
    # The intervals of the two means overlap by far: the problems differ more than the models.
    better = "accuracy T=1 +0.020 (+0.017 to +0.023), accuracy top-p 0.7 +0.020 (+0.017 to +0.023), "
    assert lines[0].startswith(f"better: higher in {better}")
    assert lines[1].startswith("level: not decided in accuracy T=1 +0.001 (-0.028 to +0.030), ") and len(lines) == 2


def test_the_time_left_of_a_run_begins_with_its_first_step():
    """A quarter of an hour of loading and evaluating before it is no step."""
    clock = 0.0
    with tqdm(total=100, file=io.StringIO(), mininterval=0) as bar:
        bar._time = lambda: clock  # its clock, whatever the machine's
        bar.start_t = bar.last_print_t = clock
        for second, line in enumerate(["loading", *(f"step {n}/100  entropy 0.4" for n in range(1, 6))]):
            clock = 0.0 if second == 0 else 900.0 + 2 * second
            show(bar, line)
        assert bar.n == 5 and bar.format_dict["rate"] == pytest.approx(0.5, rel=0.5)
