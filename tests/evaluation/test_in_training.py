"""The same evaluation during training: what is logged, the best checkpoint, and a training that it leaves alone."""

import json
from pathlib import Path
from types import SimpleNamespace

import pytest
from accelerate import Accelerator
from datasets import Dataset
from support.runs import has_one, same_parameters
from trl.generation.vllm_generation import VLLMGeneration

from steer_trl import SteerGRPOTrainer
from steer_trl.evaluation import Benchmark, BenchmarkEvaluation, Sampling, load_benchmarks, load_samplings
from steer_trl.report.evaluations import find_evaluations
from steer_trl.report.read import find_runs
from steer_trl.trainer.benchmark_runs import TrainerGenerator

EVERY_STEP = {"eval_strategy": "steps", "eval_steps": 1, "max_steps": 2}
SAVING = {"save_strategy": "steps", "save_steps": 1}


@pytest.fixture
def evaluation(sums, judge):
    benchmarks = load_benchmarks([f"sums={sums}@2", f"more={sums}@1"], instruction="{problem}")
    return BenchmarkEvaluation(benchmarks, Sampling(max_tokens=4), judge)


@pytest.fixture
def measuring(make_trainer, evaluation):
    def make(*, arguments=None, **fields):
        given = {"benchmarks": evaluation} | (arguments or {})
        return make_trainer(SteerGRPOTrainer, **EVERY_STEP | fields, trainer_arguments=given)

    return make


def test_logs_chooses_the_best_and_leaves_training_alone(train, measuring):
    plain = train(SteerGRPOTrainer, max_steps=2, logging_steps=2)
    trainer = measuring(logging_steps=2, **SAVING, metric_for_best_model="sums_num_tokens")
    trainer.train()
    assert same_parameters(plain, trainer)
    logs = [log for log in trainer.state.log_history if "eval_sums_avg@2" in log]
    assert [log["step"] for log in logs] == [1, 2]
    names = ("sums_pass@2", "sums_maj@2", "more_avg@1", "average_avg", "average_num_tokens")
    assert {f"eval_{name}" for name in names} <= logs[0].keys() and not {"reward", "eval_reward"} & logs[0].keys()
    for key in ("reward", "entropy", "shaping/weight_mean", "num_tokens"):  # TRL empties what it thinks is meant
        with_it, without = ([log[key] for log in t.state.log_history if "reward" in log] for t in (trainer, plain))
        assert with_it == without
    assert trainer.state.best_metric == max(log["eval_sums_num_tokens"] for log in logs)
    for step, log in zip((1, 2), logs, strict=True):
        folder = Path(trainer.args.output_dir, "benchmarks", f"step-{step}")
        summary = json.loads((folder / "summary.json").read_text())
        assert summary["benchmarks"]["sums"]["metrics"]["num_tokens"][0] == log["eval_sums_num_tokens"]
        assert len((folder / "completions.jsonl").read_text().splitlines()) == 4 * (2 + 1)


@pytest.mark.parametrize("named", [False, True], ids=["one", "named"])
def test_beside_an_eval_dataset(measuring, prompts, named):
    data = prompts.select(range(2))
    trainer = measuring(arguments={"eval_dataset": {"x": data, "y": data} if named else data})
    trainer.train()
    log = trainer.state.log_history
    assert sum("eval_sums_avg@2" in entry for entry in log) == 2
    assert sum("eval_reward" in entry for entry in log) == (4 if named else 2)


def test_an_explicit_data_set_is_evaluated(measuring, prompts):
    trainer = measuring()
    assert "eval_sums_avg@2" in trainer.evaluate()
    assert "test_sums_avg@2" in (named := trainer.evaluate(metric_key_prefix="test"))
    assert not any(key.startswith("eval_sums") for key in named)
    metrics = trainer.evaluate(prompts.select(range(2)))
    assert "eval_loss" in metrics and "eval_sums_avg@2" not in metrics


def test_settings_of_training_and_model_stay_out(measuring):
    def measure(habits, **fields):
        trainer = measuring(**fields)
        trainer.model.generation_config.update(**habits)
        before, generate, seen = trainer.generation_config, trainer._generate_single_turn, []
        trainer._generate_single_turn = lambda *a, **k: seen.append(trainer.generation_config) or generate(*a, **k)
        metrics = trainer.evaluate()
        assert {(c.top_p, c.temperature, c.max_new_tokens) for c in seen} == {(0.7, 1.0, 4)}
        assert trainer.generation_config is before and before.top_p == 1.0
        return {key: value for key, value in metrics.items() if "sums" in key}

    plain = measure({})
    assert measure({"min_p": 0.9999, "no_repeat_ngram_size": 1}) == plain
    assert measure({}, generation_kwargs={"typical_p": 0.01}) == plain


def test_tools_have_no_loop_here(measuring):
    def now() -> int:
        """Return the time."""
        return 0

    with pytest.raises(ValueError, match=r"benchmarks cannot be combined with tools"):
        measuring(arguments={"tools": [now]})


def test_the_regex_of_training_stays_out():
    """TRL's own vLLM client code, up to the request that it would send."""
    asked = []

    def request(prompts, features, **sampling):
        asked.append(sampling)
        return {"prompt_ids": prompts, "completion_ids": prompts, "logprobs": None}

    vllm = object.__new__(VLLMGeneration)
    training = {"structured_outputs_regex": "[0-9]+", "generation_kwargs": {"stop": "x"}, "min_p": 0.5}
    client = {"mode": "server", "accelerator": Accelerator(cpu=True), "vllm_client": SimpleNamespace(generate=request)}
    client |= {"temperature": 2.0, "top_p": 0.1, "top_k": 3, "repetition_penalty": 9.0, "max_completion_length": 8}
    vars(vllm).update(client | {"logprobs": 0} | training)
    generator = TrainerGenerator(SimpleNamespace(use_vllm=True, vllm_generation=vllm))
    with generator._engine_samples(Sampling(max_tokens=4)):
        vllm.generate([[1]], None, 1)
    vllm.generate([[1]], None, 1)
    benchmark, training_again = asked
    assert benchmark == {
        **{"n": 1, "temperature": 1.0, "top_p": 0.7, "top_k": 0, "min_p": 0.0, "repetition_penalty": 1.0},
        **{"max_tokens": 4, "logprobs": 0, "structured_outputs_regex": None, "generation_kwargs": {}},
    }
    assert training.items() <= training_again.items()


@pytest.mark.parametrize("metric", ["sums_avg@32", "eval_sums", "loss", "avg"])
def test_a_best_metric_that_nobody_measures(measuring, metric):
    with pytest.raises(ValueError, match=r"metric_for_best_model must be one of .*sums_avg@2.* got"):
        measuring(metric_for_best_model=metric)


def test_several_samplings_during_training(measuring, tmp_path):
    rows = [{"id": str(i), "prompt": f"{i}+1=", "answer": str(i + 1)} for i in range(3)]
    samplings = load_samplings(["greedy", "t1"], max_tokens=4)
    evaluation = BenchmarkEvaluation([Benchmark("sums", Dataset.from_list(rows), 4)], samplings, has_one)
    given = SAVING | {"arguments": {"benchmarks": evaluation}}
    trainer = measuring(**given, load_best_model_at_end=True, metric_for_best_model="sums_t1_pass@4")
    trainer.train()
    logged = [entry for entry in trainer.state.log_history if "eval_sums_t1_avg@4" in entry]
    assert [entry["step"] for entry in logged] == [1, 2] and "eval_sums_greedy_avg@1" in logged[0]
    assert evaluation.num_samples == 3 * (1 + 4)
    lines = (tmp_path / "run/benchmarks/step-2/t1/completions.jsonl").read_text().splitlines()
    right = [json.loads(line)["correct"] for line in lines]
    assert len(right) == 12 and sum(right) / 12 == pytest.approx(logged[1]["eval_sums_t1_avg@4"])
    shown = find_evaluations(*find_runs([tmp_path / "run"]))
    assert shown.step == 2 and set(shown.intervals) == {key for key in logged[0] if key.startswith("eval_sums_")}
    card = (tmp_path / "run/checkpoint-2/README.md").read_text()
    assert "temperature 0.0" in card and "temperature 1.0, top-p 1.0" in card
    with pytest.raises(ValueError, match=r"metric_for_best_model must be one of .*sums_greedy_avg@1"):
        measuring(**given, metric_for_best_model="sums_avg@4")
