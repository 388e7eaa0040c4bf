"""The example with a tool: it runs at toy size, its calculator is safe, and a trajectory is one completion."""

import json
import sys

import pytest
from support import ROOT
from support.processes import flags, run
from support.runs import Watching

from steer_trl.monitoring import run_files

sys.path.insert(0, str(ROOT / "examples"))

import train_calculator as example


@pytest.mark.parametrize(("expression", "value"), [("37*6", "222"), ("2+3*4-5", "9"), ("(1+2)*3", "9")])
def test_the_calculator_evaluates_an_expression(expression, value):
    assert example.calculate(expression) == value


@pytest.mark.parametrize("bad", ["2**999", "__import__('os')", "a", "1.5", "True", "1/0", "", "1+", "9" * 41, "-1"])
def test_the_calculator_evaluates_nothing_else(bad):
    with pytest.raises((ValueError, SyntaxError)):
        example.calculate(bad)


def test_a_call_is_read_executed_and_masked(monkeypatch, tmp_path):
    """The model is made to call: one row has call, tool output and answer, and only the tool's tokens are masked."""
    written = []

    class Calling(Watching):
        def _generate_single_turn(self, prompt_ids, *args, **kwargs):
            turns = [text.rsplit("<end>", 2)[-2] for text in self.processing_class.batch_decode(prompt_ids)]
            texts = [turn.split("<eos>")[0] for turn in turns]
            told = all("<start>t" in text for text in self.processing_class.batch_decode(prompt_ids))
            said = [f"{text}<eos>" if told else f"<call>{text}</call><eos>" for text in texts]
            return [self.processing_class(one)["input_ids"] for one in said], None

        def _generate_and_score_completions(self, inputs):
            rollout = super()._generate_and_score_completions(inputs)
            written.append((self.processing_class, rollout))
            return rollout

    monkeypatch.setattr(example, "SteerGRPOTrainer", Calling)
    model = example.tiny_qwen2(example.calculator_tokenizer())
    log = example.reinforce(model, tmp_path, 1, 0, dynamic_sampling="none", advantage_shaping="stare")
    assert (log[0]["reward"], log[0]["tools/call_frequency"], log[0]["tools/failure_frequency"]) == (1, 1, 0)
    ((tokenizer, rollout),) = written
    names = ("prompt_ids", "completion_ids", "completion_mask", "tool_mask")
    for prompt, ids, mask, own in zip(*(rollout[name] for name in names), strict=True):
        problem = tokenizer.decode(prompt).split("<end>")[1].split("<eos>")[0]
        answer = example.calculate(problem)
        told = f"<start>t<end>{answer}<eos><start>a<end>"
        assert tokenizer.decode(ids[mask.bool()]) == f"<call>{problem}</call><eos>{told}{answer}<eos>"
        assert tokenizer.decode(ids[(mask * (1 - own)).bool()]) == told


def test_the_example_runs(tmp_path):
    sizes = ["--supervised_steps", 2, "--steps", 2, "--dynamic_sampling", "resample"]
    done = run(ROOT / "examples/train_calculator.py", "--output_dir", tmp_path, *sizes)
    lines = [line.split()[1] for line in done.stdout.splitlines() if line.startswith("step") and "calls" in line]
    assert lines == ["1", "2"]
    assert (tmp_path / "model.safetensors").exists()


def test_the_command_trains_with_the_tool(tmp_path):
    """From a start that has seen a few examples, which calls now and then."""
    start = example.supervised_start(tmp_path / "start", 60, seed=0)
    start.save_pretrained(tmp_path / "start")
    example.calculator_tokenizer().save_pretrained(tmp_path / "start")
    prompts = [[{"role": "user", "content": problem}] for problem in example.problems(16, seed=1)]
    (tmp_path / "products.jsonl").write_text("".join(json.dumps({"prompt": prompt}) + "\n" for prompt in prompts))
    places = {"model_name_or_path": "start", "dataset_name": "products.jsonl", "output_dir": "out"}
    fields = {name: tmp_path / place for name, place in places.items()}
    fields |= {"reward_funcs": "train_calculator.correct", "tools": "train_calculator.calculate"}
    fields |= {"per_device_train_batch_size": 64, "num_generations": 8, "max_completion_length": 32}
    fields |= {"max_tool_calling_iterations": 1, "max_steps": 2, "logging_steps": 1}
    fields |= {"dtype": "float32", "use_cpu": "true", "bf16": "false"}
    run("-m", "steer_trl.cli", "train", *flags(fields), folder=ROOT / "examples")
    log = list(run_files.lines(tmp_path / "out/_logs/metrics.jsonl"))
    calls = [entry["tools/call_frequency"] for entry in log if "tools/call_frequency" in entry]
    assert len(calls) == 2 and all(0 < share < 1 for share in calls)
    assert "calculate" in (tmp_path / "out/README.md").read_text()  # the card names its tools
