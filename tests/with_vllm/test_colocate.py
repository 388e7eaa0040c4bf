"""Real vLLM, colocated: it trains, the score of its rollouts costs no pass, and the same engine evaluates."""

import torch
from support.runs import OPEN_STARE, TINY_RUN, Watching, sums
from transformers import AutoModelForCausalLM, AutoTokenizer

from steer_trl import SteerGRPOConfig
from steer_trl.cli.evaluate import main
from steer_trl.evaluation import BenchmarkEvaluation, Sampling, load_benchmarks


def test_trains_and_evaluates_without_an_extra_pass(model, problems, tmp_path):
    benchmarks = load_benchmarks([f"sums={problems}@2"], instruction="{problem}")
    settings = TINY_RUN | OPEN_STARE | {"advantage_shaping": ["steer", "stare"], "output_dir": str(tmp_path)}
    settings |= {"use_vllm": True, "vllm_mode": "colocate", "vllm_max_model_length": 64, "max_steps": 3}
    settings |= {"eval_strategy": "steps", "eval_steps": 3, "per_device_eval_batch_size": 8}
    trainer = Watching(
        model=model,
        reward_funcs=lambda completions, **_: [float(len(text) % 3) for text in completions],
        args=SteerGRPOConfig(**settings),
        train_dataset=sums(),
        processing_class=AutoTokenizer.from_pretrained(model),
        benchmarks=BenchmarkEvaluation(benchmarks, Sampling(max_tokens=8)),
    )
    trainer.train()
    assert trainer.scored == 0  # TRL scores vLLM's rollouts anyway, and that score is ours
    log = trainer.state.log_history
    steps = [entry for entry in log if "shaping/weight_min" in entry]
    assert [entry["step"] for entry in steps] == [1, 2, 3]
    assert all(entry["shaping/weight_min"] < 1 and entry["rollout_entropy"] > 0 for entry in steps)
    assert any("eval_sums_avg@2" in entry for entry in log)
    before = AutoModelForCausalLM.from_pretrained(model)
    pairs = zip(before.parameters(), trainer.model.parameters(), strict=True)
    assert any(not torch.equal(old, new) for old, new in pairs)


def test_the_command_draws_the_same_twice(model, problems, tmp_path):
    def run(folder):
        sizes = ["--max_tokens", "8", "--batch_size", "8", "--max_model_length", "512", "--dtype", "float32"]
        benchmark = ["--benchmarks", f"sums={problems}@4"]
        main(["--model_name_or_path", model, "--output_dir", str(tmp_path / folder), *benchmark, *sizes])
        return (tmp_path / folder / "completions.jsonl").read_text()

    first = run("one")
    assert first == run("two") and first.count("\n") == 24
