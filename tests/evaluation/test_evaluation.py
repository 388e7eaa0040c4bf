"""Evaluation: pass@k and maj@k against brute force, resume after a kill, and the same code during training."""

import json
import shutil
import signal
from dataclasses import replace
from itertools import combinations
from math import comb, isnan, sqrt
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch
from accelerate import Accelerator
from datasets import Dataset
from hypothesis import given
from hypothesis import strategies as st
from support import SHARED, processes
from support.runs import CHARACTERS, same_parameters, save_tiny_model
from trl.generation.vllm_generation import VLLMGeneration

from steer_trl import SteerGRPOTrainer
from steer_trl.cli.evaluate import EvalArguments, run
from steer_trl.data import load_math_dataset
from steer_trl.evaluation import (
    Benchmark,
    BenchmarkEvaluation,
    Completion,
    Records,
    Sampling,
    evaluate,
    load_benchmarks,
    majority_vote,
    mean_and_interval,
    pass_at_k,
    summarize,
    table,
)
from steer_trl.evaluation.backends import TransformersGenerator, prompt_token_ids, saved_eos_token_ids
from steer_trl.rewards import MathReward
from steer_trl.tiny import tiny_qwen2, tiny_tokenizer
from steer_trl.trainer.generation import TrainerGenerator


class TestMetrics:
    @given(st.integers(1, 8).flatmap(lambda n: st.tuples(st.just(n), st.integers(0, n), st.integers(1, n))))
    def test_pass_at_k_counts_the_subsets_with_a_right_sample(self, sizes):
        n, correct, k = sizes
        samples = [i < correct for i in range(n)]
        hits = sum(any(subset) for subset in combinations(samples, k))
        assert pass_at_k(n, correct, k) == pytest.approx(hits / comb(n, k))

    @pytest.mark.parametrize("sizes", [(4, 2, 0), (4, 2, 5), (4, 5, 1), (4, -1, 1)])
    def test_impossible_sizes_are_refused(self, sizes):
        with pytest.raises(ValueError, match=r"pass@k needs 1 <= k <= num_samples"):
            pass_at_k(*sizes)

    @given(st.lists(st.sampled_from(["right", "a", "b", None]), min_size=1, max_size=7))
    def test_majority_vote_breaks_ties_at_random(self, votes):
        counts = {vote: votes.count(vote) for vote in votes if vote is not None}
        winners = [vote for vote, count in counts.items() if count == max(counts.values())]
        expected = winners.count("right") / len(winners) if winners else 0.0
        assert majority_vote(votes, [vote == "right" for vote in votes]) == pytest.approx(expected)

    def test_right_answers_are_one_candidate(self):
        assert majority_vote(["1/2", "0.5", "3", "3", "4"], [True, True, False, False, False]) == 0.5

    def test_interval_by_hand(self):
        # 0, 0, 1, 1: mean 1/2, standard deviation sqrt(1/3), half width 1.96 * sqrt(1/3) / 2
        mean, half_width = mean_and_interval([0, 0, 1, 1])
        assert (mean, half_width) == (0.5, pytest.approx(1.96 * sqrt(1 / 3) / 2))
        assert isnan(mean_and_interval([1.0])[1])


def entry(benchmark, problem, answer, correct, **others):
    flags = {"timed_out": False, "truncated": answer is None, "num_tokens": 10, "completion": f"It is {answer}."}
    return (
        {"benchmark": benchmark, "id": problem, "answer": answer, "vote": answer, "correct": correct} | flags | others
    )


class TestSummary:
    ENTRIES = [
        *(entry("a", "0", answer, answer == "1") for answer in ("1", "1", "2", None)),
        *(entry("a", "1", answer, answer == "7") for answer in ("5", "5", "7", "6")),
        *(entry("b", "0", answer, answer == "3") for answer in ("3", None)),
    ]

    def test_by_hand(self):
        summary = summarize(self.ENTRIES)
        a, b = summary["benchmarks"]["a"], summary["benchmarks"]["b"]
        assert (a["problems"], a["samples"], b["problems"], b["samples"]) == (2, 4, 1, 2)
        means = {key: mean for key, (mean, _) in a["metrics"].items()}
        assert means == {
            "avg@4": (2 / 4 + 1 / 4) / 2,
            "pass@2": pytest.approx(((1 - comb(2, 2) / comb(4, 2)) + (1 - comb(3, 2) / comb(4, 2))) / 2),
            "pass@4": 1.0,
            "maj@4": 0.5,
            "distinct@4": 1.0,  # "It is 1." twice, and "It is 7."
            "unanswered": 1 / 8,
            "truncated": 1 / 8,
            "timed_out": 0.0,
            "num_tokens": 10.0,
        }
        assert b["metrics"]["avg@2"] == (0.5, None)  # one problem has no interval
        average = summary["average"]
        assert average["avg"][0] == pytest.approx((3 / 8 + 1 / 2) / 2) and average["avg"][1] is None
        assert set(average) == {"avg", "maj", "pass@2", "unanswered", "truncated", "timed_out", "num_tokens"}
        json.dumps(summary, allow_nan=False)

    def test_interval_of_the_average(self):
        entries = [entry(name, str(i), "1", i % 2 == 0) for name in "ab" for i in range(4)]
        half = 1.96 * sqrt(1 / 3) / 2
        assert summarize(entries)["average"]["avg"] == pytest.approx((0.5, sqrt(2 * half**2) / 2))

    def test_table(self):
        lines = table(summarize(self.ENTRIES)).splitlines()
        assert lines[0].split() == [
            "benchmark",
            "problems",
            "avg@k",
            "maj@k",
            "pass@k",
            "distinct",
            "unanswered",
            "truncated",
            "tokens",
        ]
        assert lines[1].split()[:6] == ["a", "2", "@4:", "37.5", "±24.5", "50.0"] and " 1.00 " in lines[1]
        assert lines[3].startswith("average")


class Script:
    """A back end that knows what it will say: a function of prompt, seed and place in the batch."""

    is_collective = False

    def __init__(self):
        self.calls = []

    def __call__(self, prompts, sampling, seed):
        self.calls.append(seed)
        return [Completion(rf"\boxed{{{(seed + i) % 5}}}", 3 + seed % 9, i % 7 == 0) for i, _ in enumerate(prompts)]


@pytest.fixture(scope="module")
def judge():
    return MathReward(num_workers=1)


@pytest.fixture
def benchmarks():
    def rows(count):
        prompt = [{"role": "user", "content": "?"}]
        return [
            {"prompt": prompt, "solution": rf"\boxed{{{i % 3}}}", "id": str(i), "source": "x"} for i in range(count)
        ]

    return [Benchmark("one", Dataset.from_list(rows(5)), 4), Benchmark("two", Dataset.from_list(rows(3)), 1)]


class TestResume:
    def test_every_cut_goes_on_to_the_same_file(self, benchmarks, judge, tmp_path):
        settings = {"a": 1}
        whole = Records(tmp_path / "whole", settings)
        entries = evaluate(benchmarks, Script(), judge, Sampling(), 6, whole)
        assert len(entries) == 23 and [e["batch"] for e in entries] == [i // 6 for i in range(23)]
        text = (tmp_path / "whole/completions.jsonl").read_text()
        cuts = [0, 1, len(text) // 3, len(text) // 2, text.index("\n") + 1, len(text) - 1, len(text)]
        for cut in cuts:
            folder = tmp_path / str(cut)
            Records(folder, settings)
            (folder / "completions.jsonl").write_text(text[:cut])
            generate = Script()
            assert evaluate(benchmarks, generate, judge, Sampling(), 6, Records(folder, settings)) == entries
            assert (folder / "completions.jsonl").read_text() == text
            assert len(generate.calls) == 4 - (text[:cut].count("\n") // 6 if cut < len(text) else 4)

    def test_seeds_share_no_batch(self, benchmarks, judge):
        drawn = []
        for seed in range(4):
            generate = Script()
            evaluate(benchmarks, generate, judge, Sampling(seed=seed), 6)
            drawn += generate.calls
        assert len(set(drawn)) == len(drawn) == 16

    def test_other_settings_are_refused(self, tmp_path):
        Records(tmp_path, {"top_p": 0.7})
        with pytest.raises(ValueError, match=r"other settings \(top_p: 0.7 there, 0.9 here\)"):
            Records(tmp_path, {"top_p": 0.9})
        Records(tmp_path, {"top_p": 0.9}, overwrite=True)
        (tmp_path / "settings.json").unlink()
        (tmp_path / "completions.jsonl").write_text("{}\n")
        with pytest.raises(ValueError, match=r"holds completions, but settings\.json, .* is missing"):
            Records(tmp_path, {"top_p": 0.9})


class TestBenchmarks:
    def test_specifications(self, tmp_path):
        path = tmp_path / "mine.jsonl"
        path.write_text('{"problem": "1+1?", "answer": "2"}\n')
        loaded = load_benchmarks([str(path), f"aime24={path}", f"b={path}@3"])
        assert [(b.name, b.num_samples, len(b.dataset)) for b in loaded] == [
            ("mine", 1, 1),
            ("aime24", 32, 1),
            ("b", 3, 1),
        ]

    @pytest.mark.parametrize(
        ("wrong", "message"),
        [
            (["a=x.jsonl", "a=y.jsonl"], "benchmark 'a' is named twice"),
            (["a=x.jsonl@0"], "benchmark 'a' must have >= 1 samples, got 0"),
            ([], "benchmarks must not be empty"),
            ([""], "a benchmark must be NAME, .* got ''"),
        ],
    )
    def test_refusals(self, wrong, message):
        with pytest.raises(ValueError, match=message):
            load_benchmarks(wrong)


@pytest.fixture(scope="module")
def generator():
    tokenizer = tiny_tokenizer()
    model = tiny_qwen2(tokenizer)
    model.generation_config.repetition_penalty = 100.0  # a habit of the model that must not be mixed in
    return TransformersGenerator(model, tokenizer)


class TestTransformersBackEnd:
    PROMPTS = [[{"role": "user", "content": text}] for text in ("1+1?", "a longer problem than that")]

    def test_seeds(self, generator):
        sampling = Sampling(max_tokens=12)
        state = torch.get_rng_state()
        drawn = generator(self.PROMPTS, sampling, seed=0)
        assert drawn == generator(self.PROMPTS, sampling, seed=0) != generator(self.PROMPTS, sampling, seed=1)
        assert torch.equal(torch.get_rng_state(), state)
        assert all(one.num_tokens == 12 if one.truncated else one.num_tokens <= 12 for one in drawn)

    def test_greedy_is_the_most_probable_token(self, generator):
        drawn = generator(self.PROMPTS[:1], Sampling(temperature=0.0, max_tokens=4), seed=0)[0]
        ids = prompt_token_ids(generator.tokenizer, self.PROMPTS[:1])[0]
        start = len(ids)
        for _ in range(drawn.num_tokens):
            with torch.no_grad():
                ids = [*ids, generator.model(torch.tensor([ids])).logits[0, -1].argmax().item()]
        assert generator.tokenizer.decode(ids[start:], skip_special_tokens=True) == drawn.text

    @pytest.mark.parametrize("sampling", [Sampling(temperature=0.0), Sampling(top_k=1), Sampling(top_k=2)])
    def test_is_greedy_where_all_samples_are_the_same(self, generator, sampling):
        prompts = self.PROMPTS[:1] * 16
        drawn = generator(prompts, replace(sampling, max_tokens=12), seed=0)
        assert sampling.is_greedy is (len(set(drawn)) == 1)

    def test_top_p_draws_from_the_head_only(self, generator):
        greedy = generator(self.PROMPTS, Sampling(temperature=0.0, max_tokens=6), seed=0)
        assert generator(self.PROMPTS, Sampling(top_p=1e-6, max_tokens=6), seed=3) == greedy

    def test_no_padding_token(self, generator):
        tokenizer = tiny_tokenizer()
        tokenizer.pad_token = None
        drawn = TransformersGenerator(generator.model, tokenizer)(self.PROMPTS, Sampling(max_tokens=4), seed=0)
        assert len(drawn) == 2

    def test_no_chat_template(self, generator):
        tokenizer = tiny_tokenizer()
        tokenizer.chat_template = None
        with pytest.raises(ValueError, match="has no chat template"):
            TransformersGenerator(generator.model, tokenizer)(self.PROMPTS, Sampling(), seed=0)


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"temperature": -1.0}, "temperature must be in .*, got -1.0"),
        ({"top_p": 0.0}, "top_p must be in .*, got 0.0"),
        ({"max_tokens": 0}, "max_tokens must be in .*, got 0"),
        ({"top_k": -1}, "top_k must be in .*, got -1"),
        ({"seed": -1}, "seed must be >= 0, got -1"),
    ],
)
def test_sampling_refusals(wrong, message):
    with pytest.raises(ValueError, match=message):
        Sampling(**wrong)


class TestDuringTraining:
    @pytest.fixture
    def evaluation(self, tmp_path, judge):
        path = tmp_path / "sums.jsonl"
        path.write_text("".join(f'{{"problem": "{i}+1=", "answer": "{i + 1}"}}\n' for i in range(3)))
        benchmarks = load_benchmarks([f"sums={path}@2", f"more={path}@1"], instruction="{problem}")
        return BenchmarkEvaluation(benchmarks, Sampling(max_tokens=4), judge)

    FIELDS = {"eval_strategy": "steps", "eval_steps": 1, "max_steps": 2}

    def test_logs_chooses_the_best_and_leaves_training_alone(self, train, evaluation, tmp_path):
        plain = train(SteerGRPOTrainer, max_steps=2)
        trainer = train(
            SteerGRPOTrainer,
            **self.FIELDS,
            save_strategy="steps",
            save_steps=1,
            metric_for_best_model="sums_num_tokens",
            trainer_arguments={"benchmarks": evaluation},
        )
        assert same_parameters(plain, trainer)
        logs = [log for log in trainer.state.log_history if "eval_sums_avg@2" in log]
        assert [log["step"] for log in logs] == [1, 2]
        keys = {
            "eval_sums_pass@2",
            "eval_sums_maj@2",
            "eval_more_avg@1",
            "eval_average_avg",
            "eval_average_num_tokens",
        }
        assert keys <= logs[0].keys()
        assert "eval_reward" not in logs[0]
        assert trainer.state.best_metric == max(log["eval_sums_num_tokens"] for log in logs)
        for step, log in zip((1, 2), logs, strict=True):
            folder = Path(trainer.args.output_dir, "benchmarks", f"step-{step}")
            summary = json.loads((folder / "summary.json").read_text())
            assert summary["benchmarks"]["sums"]["metrics"]["num_tokens"][0] == log["eval_sums_num_tokens"]
            assert len((folder / "completions.jsonl").read_text().splitlines()) == 9

    @pytest.mark.parametrize("named", [False, True], ids=["one", "named"])
    def test_beside_an_eval_dataset(self, train, evaluation, prompts, named):
        data = prompts.select(range(2))
        trainer = train(
            SteerGRPOTrainer,
            **self.FIELDS,
            trainer_arguments={"benchmarks": evaluation, "eval_dataset": {"x": data, "y": data} if named else data},
        )
        log = trainer.state.log_history
        assert sum("eval_sums_avg@2" in entry for entry in log) == 2
        assert sum("eval_reward" in entry for entry in log) == (4 if named else 2)

    def test_what_is_logged_of_training_stays(self, train, evaluation):
        """TRL empties the metrics it thinks are meant; those of training must not end in an evaluation's log."""
        fields = {"max_steps": 3, "logging_steps": 3}
        plain = train(SteerGRPOTrainer, **fields).state.log_history[0]
        trainer = train(SteerGRPOTrainer, **self.FIELDS | fields, trainer_arguments={"benchmarks": evaluation})
        log = trainer.state.log_history
        assert not any("reward" in entry for entry in log if "eval_sums_avg@2" in entry)
        trained = next(entry for entry in log if "reward" in entry)
        assert all(trained[key] == plain[key] for key in ("reward", "entropy", "shaping/weight_mean", "num_tokens"))

    def test_a_data_set_given_by_hand_is_what_is_evaluated(self, make_trainer, evaluation, prompts):
        trainer = make_trainer(SteerGRPOTrainer, **self.FIELDS, trainer_arguments={"benchmarks": evaluation})
        assert "eval_sums_avg@2" in trainer.evaluate()
        metrics = trainer.evaluate(prompts.select(range(2)))
        assert "eval_loss" in metrics and "eval_sums_avg@2" not in metrics

    def test_the_habits_of_training_and_of_the_model_stay_out(self, make_trainer, evaluation):
        def measure(habits, **fields):
            trainer = make_trainer(
                SteerGRPOTrainer, **self.FIELDS, **fields, trainer_arguments={"benchmarks": evaluation}
            )
            trainer.model.generation_config.update(**habits)
            return {key: value for key, value in trainer.evaluate().items() if "sums" in key}

        plain = measure({})
        assert measure({"min_p": 0.9999, "no_repeat_ngram_size": 1}) == plain
        assert measure({}, generation_kwargs={"typical_p": 0.01}) == plain

    def test_the_engine_is_given_back_its_own_sampling(self, make_trainer, evaluation):
        trainer = make_trainer(SteerGRPOTrainer, **self.FIELDS, trainer_arguments={"benchmarks": evaluation})
        before = trainer.generation_config
        seen = []
        generate = trainer._generate_single_turn
        trainer._generate_single_turn = lambda *a, **k: (
            seen.append(trainer.generation_config.to_dict()) or generate(*a, **k)
        )
        trainer.evaluate()
        assert {(c["top_p"], c["temperature"], c["max_new_tokens"]) for c in seen} == {(0.7, 1.0, 4)}
        assert trainer.generation_config is before and before.top_p == 1.0

    def test_greedy_draws_one_sample(self, make_trainer, evaluation, caplog):
        greedy = BenchmarkEvaluation(evaluation.benchmarks, Sampling(temperature=0.0, max_tokens=4), evaluation.judge)
        trainer = make_trainer(
            SteerGRPOTrainer,
            **self.FIELDS,
            metric_for_best_model="sums_avg@1",
            trainer_arguments={"benchmarks": greedy},
        )
        metrics = trainer.evaluate()
        assert "eval_sums_avg@1" in metrics and not any("@2" in key for key in metrics)
        assert "one sample per problem, not sums@2, is drawn" in caplog.text

    def test_tools_have_no_loop_here(self, make_trainer, evaluation):
        def add(a: int, b: int) -> int:
            """Add.

            Args:
                a: one
                b: other
            """
            return a + b

        with pytest.raises(ValueError, match=r"benchmarks cannot be combined with tools: .* Leave benchmarks unset"):
            make_trainer(SteerGRPOTrainer, trainer_arguments={"benchmarks": evaluation, "tools": [add]})

    def test_the_regex_of_training_stays_out(self):
        """TRL's own vLLM client code, up to the request that it would send."""
        asked = []

        def request(prompts, features, **sampling):
            asked.append(sampling)
            return {"prompt_ids": prompts, "completion_ids": prompts, "logprobs": None}

        vllm = object.__new__(VLLMGeneration)
        training = {"structured_outputs_regex": "[0-9]+", "generation_kwargs": {"stop": "x"}, "min_p": 0.5}
        vars(vllm).update(
            {"mode": "server", "accelerator": Accelerator(cpu=True), "vllm_client": SimpleNamespace(generate=request)}
            | {"temperature": 2.0, "top_p": 0.1, "top_k": 3, "repetition_penalty": 9.0, "max_completion_length": 8}
            | {"logprobs": 0}
            | training
        )
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
    def test_a_best_metric_that_nobody_measures(self, make_trainer, evaluation, metric):
        with pytest.raises(ValueError, match=r"metric_for_best_model must be one of .*sums_avg@2.* got"):
            make_trainer(
                SteerGRPOTrainer,
                **self.FIELDS,
                metric_for_best_model=metric,
                trainer_arguments={"benchmarks": evaluation},
            )


# The command.


@pytest.fixture(scope="module")
def tiny_folder(tmp_path_factory):
    return save_tiny_model(tmp_path_factory.mktemp("tiny"))


@pytest.fixture(scope="module")
def aime24(tmp_path_factory):
    """The real file where it is; else a stand-in of its size."""
    real = SHARED / "data/aime24.parquet"
    if real.exists():
        return real
    path = tmp_path_factory.mktemp("data") / "aime24.parquet"
    Dataset.from_list([{"problem": f"What is {i}+1?", "answer": str(i + 1)} for i in range(30)]).to_parquet(path)
    return path


@pytest.fixture
def sums(tmp_path):
    path = tmp_path / "sums.jsonl"
    path.write_text("".join(f'{{"problem": "{i}+1=", "answer": "{i + 1}"}}\n' for i in range(3)))
    return f"{path}@2"


def arguments(model, folder, benchmark, **others):
    sizes = {"max_tokens": 4, "batch_size": 4, "backend": "transformers"}
    return EvalArguments(str(model), str(folder), [benchmark], **sizes | others)


def other_template(folder):
    path = folder / "chat_template.jinja"
    path.write_text(path.read_text() + "1")


def other_tokenizer(folder):
    tiny_tokenizer(CHARACTERS).save_pretrained(folder)


def other_eos(folder):
    path = folder / "generation_config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | {"eos_token_id": [1, 5]}))


class TestCommand:
    def test_killed_half_way_and_gone_on_with(self, tiny_folder, aime24, tmp_path):
        def arguments(folder, module="steer_trl.cli"):
            sizes = ["--max_tokens", 16, "--batch_size", 16, "--output_dir", tmp_path / folder]
            model = ["--model_name_or_path", tiny_folder, "--benchmarks", f"aime24={aime24}@8"]
            return ["-m", module, "eval", *model, *sizes]

        done = processes.run(*arguments("whole"))
        assert "aime24" in done.stdout and "Wrote" in done.stdout
        killed = processes.run(*arguments("cut", "support.killed_eval"), check=False)
        assert killed.returncode == -signal.SIGKILL, killed.stderr
        drawn = (tmp_path / "cut/completions.jsonl").read_text().count("\n")
        assert drawn == 7 * 16 and not (tmp_path / "cut/summary.json").exists()
        processes.run(*arguments("cut"))
        for name in ("completions.jsonl", "summary.json", "settings.json"):
            assert (tmp_path / "cut" / name).read_bytes() == (tmp_path / "whole" / name).read_bytes()
        metrics = json.loads((tmp_path / "whole/summary.json").read_text())["benchmarks"]["aime24"]
        assert (metrics["problems"], metrics["samples"]) == (30, 8)

    def test_greedy_is_avg_at_1(self, tiny_folder, sums, tmp_path, caplog):
        summary = run(arguments(tiny_folder, tmp_path, sums, temperature=0.0))
        assert "avg@1" in summary["benchmarks"]["sums"]["metrics"]
        assert summary["settings"]["benchmarks"]["sums"]["samples"] == 1
        assert (tmp_path / "completions.jsonl").read_text().count("\n") == 3
        assert [record.message for record in caplog.records if "greedy" in record.message] == [
            "Sampling is greedy: one sample per problem, not sums@2, is drawn."
        ]

    @pytest.mark.parametrize(
        ("change", "message"),
        [
            (other_template, r"\(prompt_token_ids: '\w{16}' there, '\w{16}' here\)"),
            (other_tokenizer, r"\(prompt_token_ids: '\w{16}' there, '\w{16}' here\)"),
            (other_eos, r"\(eos_token_ids: \[1\] there, \[1, 5\] here\)"),
            (None, r"\(timeout: 5.0 there, 4.0 here\)"),
        ],
    )
    def test_of_another_model_or_prompt_nothing_is_resumed(self, tiny_folder, sums, tmp_path, change, message):
        model = shutil.copytree(tiny_folder, tmp_path / "model")
        run(arguments(model, tmp_path / "out", sums))
        if change:
            change(model)
        with pytest.raises(ValueError, match=message):
            run(arguments(model, tmp_path / "out", sums, timeout=5.0 if change else 4.0))

    def test_of_another_commit_nothing_is_resumed(self, tiny_folder, sums, tmp_path, monkeypatch):
        monkeypatch.setattr("huggingface_hub.constants.HF_HUB_CACHE", str(tmp_path))
        repository = tmp_path / "models--us--tiny"
        (repository / "refs").mkdir(parents=True)
        for commit in ("a" * 40, "b" * 40):
            shutil.copytree(tiny_folder, repository / "snapshots" / commit)
        (repository / "refs/main").write_text("a" * 40)
        run(arguments("us/tiny", tmp_path / "out", sums))
        run(arguments("us/tiny", tmp_path / "out", sums))  # nothing is left to draw
        (repository / "refs/main").write_text("b" * 40)
        with pytest.raises(ValueError, match=r"\(model_commit: 'a{40}' there, 'b{40}' here\)"):
            run(arguments("us/tiny", tmp_path / "out", sums))

    def test_saved_eos_token_ids(self, tiny_folder, tmp_path):
        model = shutil.copytree(tiny_folder, tmp_path / "model")
        assert saved_eos_token_ids(str(model)) == [1]
        other_eos(model)
        assert saved_eos_token_ids(str(model)) == [1, 5]
        (model / "generation_config.json").unlink()
        assert saved_eos_token_ids(str(model)) == [1]

    def test_two_processes_measure_what_one_does(self, tiny_folder, tmp_path):
        path = tmp_path / "sums.jsonl"
        path.write_text("".join(f'{{"problem": "{i}+1=", "answer": "{i + 1}"}}\n' for i in range(5)))
        model = [
            "--model_name_or_path",
            tiny_folder,
            "--benchmarks",
            f"{path}@2",
            "--max_tokens",
            8,
            "--batch_size",
            4,
        ]
        for folder, engine in (("one", None), ("two", processes.TWO_PROCESSES)):
            processes.run("-m", "steer_trl.cli", "eval", *model, "--output_dir", tmp_path / folder, engine=engine)
        for name in ("completions.jsonl", "summary.json"):
            assert (tmp_path / "one" / name).read_bytes() == (tmp_path / "two" / name).read_bytes()

    @pytest.mark.parametrize(
        ("wrong", "message"),
        [
            ({"backend": "tgi"}, "backend='tgi' is unknown"),
            ({"backend": "vllm"}, "backend='vllm' needs vLLM, which is not installed here"),
            (
                {"backend": "transformers", "tensor_parallel_size": 2},
                "tensor_parallel_size=2 cannot be combined with backend='transformers'",
            ),
            ({"batch_size": 0}, "batch_size must be >= 1, got 0"),
            ({"dtype": "int8"}, "dtype='int8' is unknown"),
        ],
    )
    def test_refusals(self, wrong, message):
        with pytest.raises(ValueError, match=message):
            EvalArguments("model", "out", **wrong)


def test_a_reward_that_judges_by_an_answer_line(tmp_path):
    path = tmp_path / "x.jsonl"
    path.write_text('{"problem": "1+1?", "answer": "2"}\n')
    data = load_math_dataset(str(path), answer_format="answer_line")

    def say(prompts, sampling, seed):
        return [Completion("Answer: 2", 3, False) for _ in prompts]

    say.is_collective = False
    strict, lenient = MathReward(num_workers=1), MathReward(num_workers=1, answer_format="answer_line")
    judged = [
        evaluate([Benchmark("x", data, 1)], say, judge, Sampling(), 4)[0]["correct"] for judge in (strict, lenient)
    ]
    assert judged == [False, True]
