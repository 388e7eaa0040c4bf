"""Real vLLM, colocated: it trains, the score of its rollouts costs no pass, and the same engine evaluates."""

import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM, AutoTokenizer

from steer_trl import SteerGRPOConfig, SteerGRPOTrainer
from steer_trl.cli.evaluate import main
from steer_trl.evaluation import BenchmarkEvaluation, Sampling, load_benchmarks


def test_trains_and_evaluates_without_an_extra_pass(model, problems, tmp_path):
    scored = []

    class Counting(SteerGRPOTrainer):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            self.score, self.rollouts.score = self.rollouts.score, self.count

        def count(self, rollout):
            scored.append(self.state.global_step)
            return self.score(rollout)

    benchmarks = load_benchmarks([f"sums={problems}@2"], instruction="{problem}")
    trainer = Counting(
        model=model,
        reward_funcs=lambda completions, **_: [float(len(text) % 3) for text in completions],
        args=SteerGRPOConfig(
            output_dir=str(tmp_path),
            advantage_shaping=["steer", "stare"],
            stare_target_entropy=100.0,
            use_vllm=True,
            vllm_mode="colocate",
            vllm_max_model_length=64,
            num_generations=4,
            per_device_train_batch_size=4,
            per_device_eval_batch_size=8,
            gradient_accumulation_steps=2,
            max_completion_length=8,
            max_steps=3,
            learning_rate=1e-2,
            eval_strategy="steps",
            eval_steps=3,
            use_cpu=True,
            bf16=False,
            gradient_checkpointing=False,
            logging_steps=1,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
        ),
        train_dataset=Dataset.from_dict({"prompt": [f"{i}+{j}=" for i in range(6) for j in range(6)]}),
        processing_class=AutoTokenizer.from_pretrained(model),
        benchmarks=BenchmarkEvaluation(benchmarks, Sampling(max_tokens=8)),
    )
    trainer.train()
    assert scored == []  # TRL scores vLLM's rollouts anyway, and that score is ours
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
