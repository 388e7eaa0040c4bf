"""The glue: what the loss is given, what evaluation and checkpoints do with a method's state, what is logged."""

import functools
import json
import re

import pytest
import torch
from datasets import Dataset
from support import ROOT
from support.runs import ON_CPU, Watching, count_reward, same_parameters
from transformers import TrainerCallback
from trl import GRPOTrainer

from steer_trl import SteerGRPOConfig, SteerGRPOTrainer
from steer_trl.functional import entropy_change, steer_weights
from steer_trl.trainer.inputs import token_batch

OPEN_STARE = {"advantage_shaping": "stare", "stare_target_entropy": 100.0}


class Spy(SteerGRPOTrainer):
    """Records what TRL's own loss reads, and whether our copy of the inputs was the only thing written to."""

    def __init__(self, *args, **kwargs):
        super().__init__(*args, **kwargs)
        self.seen, self.shape, self.step.shape = [], self.step.shape, self.watch

    def compute_loss(self, model, inputs, **kwargs):
        before = dict(inputs)
        raw = inputs["advantages"].clone()
        loss = super().compute_loss(model, inputs, **kwargs)
        assert inputs.keys() == before.keys() and all(inputs[key] is before[key] for key in before)
        assert torch.equal(inputs["advantages"], raw) and raw.dim() == 1
        return loss

    def watch(self, inputs, logps, entropies):
        raw = inputs["advantages"]
        self.shape(inputs, logps, entropies)
        self.seen.append(
            (raw, inputs["advantages"], logps, inputs.get("old_per_token_logps", logps), entropies, inputs)
        )


def test_every_pass_weights_the_untouched_advantages_anew(train):
    """Two passes over one rollout: the second sees the same advantages, other log-probs, and so other weights."""
    settings = {"num_iterations": 2, "max_steps": 2, "gradient_accumulation_steps": 1, "shaping_scope": "exact_step"}
    trainer = train(Spy, **settings, steer_lambda_min=0.3)
    first, second = trainer.seen
    assert torch.equal(first[0], second[0])
    assert not torch.equal(first[1], second[1])
    for raw, shaped, logps, old_logps, entropies, inputs in trainer.seen:
        omega = entropy_change(logps, old_logps, entropies, raw)
        weights = steer_weights(omega, inputs["completion_mask"], lambda_min=0.3)
        assert torch.equal(shaped, raw.unsqueeze(1) * weights)
    assert torch.equal(second[3], first[2])  # the old log-probs of the second pass are the first's


def test_the_released_form_reads_the_rollouts_entropies(train):
    """With several steps per rollout the authors' code mixes the rollout's entropies with current log-probs."""
    settings = {"num_iterations": 2, "max_steps": 2, "gradient_accumulation_steps": 1, "shaping_scope": "exact_step"}
    trainer = train(Spy, **settings, steer_form="released")
    rollout_entropies = trainer.seen[0][4]
    raw, shaped, logps, old_logps, entropies, inputs = trainer.seen[1]
    assert not torch.equal(rollout_entropies, entropies)
    omega = entropy_change(logps, old_logps, rollout_entropies, raw, form="released")
    weights = steer_weights(omega, inputs["completion_mask"], floor=0.02)
    torch.testing.assert_close(shaped, raw.unsqueeze(1) * weights, atol=1e-6, rtol=0)


def test_several_methods_multiply(train):
    both = train(Spy, max_steps=1, **OPEN_STARE | {"advantage_shaping": ["stare", "steer"]})
    steer = train(Spy, max_steps=1)
    stare = train(Spy, max_steps=1, **OPEN_STARE)
    for pair, one, other in zip(both.seen, steer.seen, stare.seen, strict=True):
        raw = pair[0].unsqueeze(1)
        product = (one[1] / raw) * (other[1] / raw) * raw
        torch.testing.assert_close(pair[1][pair[0] != 0], product[pair[0] != 0])


def test_a_bad_token_does_not_reach_its_sequence_through_the_ratio(make_trainer):
    trainer = make_trainer(SteerGRPOTrainer, importance_sampling_level="sequence")
    logps = torch.tensor([[-0.1, torch.nan, -2.0, -3.0], [-1.0, -0.5, -2.5, -0.3]])
    inputs = {
        "completion_mask": torch.ones(2, 4, dtype=torch.long),
        "advantages": torch.tensor([1.0, -1.0]),
        "old_per_token_logps": torch.tensor([[-0.2, -0.4, -1.9, -3.0], [-1.0, -0.6, -2.0, -0.3]]),
    }
    trainer.step.shape(inputs, logps, torch.ones(2, 4))
    shaped = inputs["advantages"]
    assert shaped.isfinite().all() and shaped[0, 1] == 1
    assert (shaped[0, [0, 2, 3]] < 1).all()
    ratio = torch.tensor((0.1 - 0.1 + 0.0) / 3).exp()  # the mean log-ratio of the three good tokens
    batch = token_batch(trainer, inputs, logps, torch.ones(2, 4), draws=False)
    torch.testing.assert_close(batch.ratio[0], ratio.expand(1))
    assert torch.equal(
        batch.old_logps, inputs["old_per_token_logps"]
    )  # what they are is not what the loss makes of them


class TestGate:
    def test_reads_the_batch_mean_entropy_of_the_rollout(self, train):
        """One number per rollout, before any update with it: the token mean, not the mean of micro-batch means."""
        trainer = train(Spy, max_steps=1, **OPEN_STARE)
        entropies = torch.cat([seen[4].flatten() for seen in trainer.seen])
        mask = torch.cat([seen[5]["completion_mask"].flatten() for seen in trainer.seen]).bool()
        expected = entropies[mask].double().mean().item()
        assert trainer.state.log_history[0]["rollout_entropy"] == pytest.approx(expected, rel=1e-5)

    @pytest.mark.parametrize("sizes", [(8, 1), (4, 2), (2, 4)])
    def test_the_number_is_logged_for_a_method_without_a_gate_too(self, train, sizes):
        names = ("per_device_train_batch_size", "gradient_accumulation_steps")
        settings = dict(zip(names, sizes, strict=True)) | {"max_steps": 1}
        logged = {
            scope: train(SteerGRPOTrainer, **settings, shaping_scope=scope).state.log_history[0]
            for scope in ("step", "micro_batch")
        }
        assert logged["step"]["rollout_entropy"] == pytest.approx(logged["step"]["entropy"], rel=1e-4)
        assert "rollout_entropy" not in logged["micro_batch"]  # which sees no rollout

    def test_costs_no_pass_where_the_loss_sees_the_whole_rollout(self, train):
        class Scoring(Watching):
            def __init__(self, *args, **kwargs):
                super().__init__(*args, **kwargs)
                asked = self.rollouts._score_of
                self.rollouts._score_of = lambda *rollouts: asked(*rollouts[:2], {"entropies"})

        one_batch = {"per_device_train_batch_size": 8, "gradient_accumulation_steps": 1, "max_steps": 3}
        settings = OPEN_STARE | one_batch | {"stare_adaptive": True, "stare_target_entropy": 1.4}
        free, scoring = train(Watching, **settings), train(Scoring, **settings)
        assert (free.scored, scoring.scored) == (0, 3 * 8)
        keys = ("rollout_entropy", "stare/gate", "stare/amplify", "shaping/weight_mean", "loss")
        ours, theirs = ([[entry[key] for key in keys] for entry in x.state.log_history[:3]] for x in (free, scoring))
        for entry, other in zip(ours, theirs, strict=True):
            assert entry == pytest.approx(other, rel=1e-5, abs=1e-7)

    def test_is_constant_over_a_rollout_and_moves_with_the_next(self, train):
        settings = {"steps_per_generation": 4, "max_steps": 8, "stare_adaptive": True, "stare_step": 0.05}
        trainer = train(SteerGRPOTrainer, **OPEN_STARE, **settings)
        amplify = [entry["stare/amplify"] for entry in trainer.state.log_history if "stare/amplify" in entry]
        assert amplify == pytest.approx([1.15, 1.15, 1.2, 1.2, 1.25, 1.25, 1.3, 1.3])
        rollouts = [entry for entry in trainer.state.log_history if "rollout_entropy" in entry]
        assert len(rollouts) == 4

    def test_relative_target_is_fixed_by_the_first_rollout(self, train):
        trainer = train(
            SteerGRPOTrainer, advantage_shaping="stare", stare_target_entropy=0.75, stare_target_entropy_unit="initial"
        )
        first = trainer.state.log_history[0]
        targets = {entry["stare/target_entropy"] for entry in trainer.state.log_history if "stare/gate" in entry}
        assert targets == {0.75 * first["rollout_entropy"]}
        assert first["stare/gate"] == 0  # nothing is below three quarters of itself


def test_evaluation_changes_no_state_and_has_its_own_metrics(train, prompts):
    settings = {"stare_adaptive": True, "save_strategy": "no"} | OPEN_STARE
    evaluating = train(
        SteerGRPOTrainer,
        **settings | {"advantage_shaping": ["steer", "stare"]},
        eval_strategy="steps",
        eval_steps=1,
        trainer_arguments={"eval_dataset": prompts.select(range(3))},
    )
    evaluations = [entry for entry in evaluating.state.log_history if "eval_loss" in entry]
    assert len(evaluations) == 4
    assert all(entry["eval_shaping/weight_mean"] > 0 and "eval_stare/gate" in entry for entry in evaluations)
    amplify = [entry["stare/amplify"] for entry in evaluating.state.log_history if "stare/amplify" in entry]
    assert amplify == pytest.approx([1.11, 1.12, 1.13, 1.14])


def test_an_evaluation_within_a_step_is_not_in_the_steps_metrics(train, prompts):
    class EvaluateWithin(TrainerCallback):
        trainer = None

        def on_substep_end(self, *_, **__):
            self.trainer.evaluate()

    def log(*callbacks):
        class Evaluating(SteerGRPOTrainer):
            def train(self, *args, **kwargs):
                EvaluateWithin.trainer = self
                return super().train(*args, **kwargs)

        arguments = {"eval_dataset": prompts.select(range(3)), "callbacks": list(callbacks)}
        trainer = train(Evaluating, max_steps=1, trainer_arguments=arguments, eval_strategy="no")
        (entry,) = [entry for entry in trainer.state.log_history if "shaping/weight_mean" in entry]
        return {key: value for key, value in entry.items() if key.startswith("shaping/")}, trainer.state.log_history

    undisturbed, _ = log()
    evaluated, history = log(EvaluateWithin())
    assert evaluated == undisturbed and any("eval_shaping/weight_mean" in entry for entry in history)


class TestSeveralRollouts:
    """Two rollouts in one optimizer step, each of two micro-batches."""

    SIZES = {"gradient_accumulation_steps": 4, "steps_per_generation": 2, "shaping_scope": "micro_batch"}

    def test_the_gate_sees_each_once(self, train):
        stare = OPEN_STARE | {"stare_adaptive": True, "max_steps": 2}
        trainer = train(SteerGRPOTrainer, **stare, **self.SIZES)
        amplify = [entry["stare/amplify"] for entry in trainer.state.log_history if "stare/amplify" in entry]
        assert amplify == pytest.approx([1.12, 1.14])
        logged = trainer.state.log_history[0]
        assert logged["rollout_entropy"] == pytest.approx(logged["entropy"], rel=0.05)

    def test_each_has_draws_of_its_own(self, train):
        class Drawing(SteerGRPOTrainer):
            def __init__(self, *args, **kwargs):
                super().__init__(*args, **kwargs)
                quadrant = self.shapers["quadrant"]
                weights, self.drawn = quadrant.weights, []
                quadrant.weights = lambda batch, measure: self.drawn.append(batch.draws) or weights(batch, measure)

        quadrant = {"advantage_shaping": "quadrant", "max_steps": 1}
        rows = torch.cat([draws[:, 0] for draws in train(Drawing, **quadrant, **self.SIZES).drawn])
        assert len(rows) == 16 and len(set(rows.tolist())) == 16


def test_eq_10_holds_in_every_step_of_a_rollout_with_the_current_policys_maximum(train):
    settings = {"steps_per_generation": 8, "steer_lambda_min": 0.7}
    lowest = {
        scope: [
            entry["shaping/weight_min"]
            for entry in train(SteerGRPOTrainer, **settings, shaping_scope=scope).state.log_history[:4]
        ]
        for scope in ("exact_step", "step")
    }
    assert lowest["exact_step"] == pytest.approx([0.7] * 4, abs=1e-6)
    assert lowest["step"][0] == pytest.approx(0.7, abs=1e-6) and max(lowest["step"]) > 0.701


class TestCheckpoint:
    SETTINGS = {
        "advantage_shaping": "stare",
        "stare_adaptive": True,
        "stare_target_entropy": 5.0,
        "stare_target_entropy_unit": "initial",
        "save_strategy": "steps",
        "save_steps": 2,
        "max_steps": 5,
    }

    def test_a_resumed_run_continues_where_it_was(self, train, make_trainer, tmp_path):
        whole = train(SteerGRPOTrainer, **self.SETTINGS)
        checkpoint = tmp_path / "run/checkpoint-2"
        state = json.loads((checkpoint / "shaping_state.json").read_text())["stare"]
        first = whole.state.log_history[0]["rollout_entropy"]
        expected = {"gate": True, "amplify": 1.12, "attenuate": 0.88, "initial_entropy": first}
        assert state == pytest.approx(expected)
        resumed = make_trainer(SteerGRPOTrainer, **self.SETTINGS)
        resumed.train(resume_from_checkpoint=str(checkpoint))
        assert same_parameters(whole, resumed)
        assert resumed.shapers["stare"].state_dict() == whole.shapers["stare"].state_dict()

    def test_without_the_state_it_would_not_and_says_so(self, train, make_trainer, tmp_path, caplog):
        whole = train(SteerGRPOTrainer, **self.SETTINGS)
        checkpoint = tmp_path / "run/checkpoint-2"
        (checkpoint / "shaping_state.json").unlink()
        resumed = make_trainer(SteerGRPOTrainer, **self.SETTINGS)
        resumed.train(resume_from_checkpoint=str(checkpoint))
        assert resumed.shapers["stare"].state_dict() != whole.shapers["stare"].state_dict()
        assert "has no state of 'stare'" in caplog.text

    def test_a_new_target_is_taken_on_resume(self, train, make_trainer, tmp_path):
        train(SteerGRPOTrainer, **self.SETTINGS)
        settings = self.SETTINGS | {"stare_target_entropy": 0.5}
        resumed = make_trainer(SteerGRPOTrainer, **settings)
        resumed.train(resume_from_checkpoint=str(tmp_path / "run/checkpoint-2"))
        stare = resumed.shapers["stare"]
        assert stare.controller.target_entropy == 0.5 * stare.initial_entropy
        assert stare.controller.gate is False

    def test_a_method_without_state_writes_none(self, train, tmp_path):
        train(SteerGRPOTrainer, save_strategy="steps", save_steps=2)
        state = json.loads((tmp_path / "run/checkpoint-2/shaping_state.json").read_text())
        assert state == {"progress": {"micro_batches": 4, "per_rollout": 2}}

    @pytest.mark.parametrize(("saved", "content"), [(3, "no rollout"), (4, "its rollout")])
    def test_an_epoch_that_ends_with_a_shorter_step(self, train, make_trainer, tmp_path, prompts, saved, content):
        """Eight micro-batches an epoch, three a step: steps of 3, 3, 2; a rollout lasts two micro-batches."""
        sizes = {"gradient_accumulation_steps": 3, "steps_per_generation": 2, "shaping_scope": "micro_batch"}
        settings = sizes | {"max_steps": 8, "save_strategy": "steps", "save_steps": 1}
        settings["trainer_arguments"] = {"train_dataset": prompts.select(range(8))}
        whole = train(SteerGRPOTrainer, **settings)
        checkpoint = tmp_path / f"run/checkpoint-{saved}"
        assert (checkpoint / "rollout_0_of_1.pt").exists() == (content == "its rollout")
        resumed = make_trainer(SteerGRPOTrainer, **settings)
        resumed.train(resume_from_checkpoint=str(checkpoint))
        assert same_parameters(whole, resumed)

    MIDDLE = {"steps_per_generation": 4, "save_strategy": "steps", "save_steps": 1}

    def test_a_rollout_that_other_batch_sizes_have_cut(self, train, make_trainer, tmp_path):
        train(SteerGRPOTrainer, **self.MIDDLE)
        other = self.MIDDLE | {"per_device_train_batch_size": 8, "gradient_accumulation_steps": 1}
        resumed = make_trainer(SteerGRPOTrainer, **other | {"steps_per_generation": 2})
        with pytest.raises(
            ValueError, match="per_device_train_batch_size must be 4, got 8, steps_per_generation must"
        ):
            resumed.train(resume_from_checkpoint=str(tmp_path / "run/checkpoint-1"))
        resumed = make_trainer(SteerGRPOTrainer, **other | {"steps_per_generation": 2, "max_steps": 3})
        resumed.train(resume_from_checkpoint=str(tmp_path / "run/checkpoint-2"))  # between two rollouts
        assert resumed.state.global_step == 3

    @pytest.mark.parametrize("wrote", [GRPOTrainer, SteerGRPOTrainer])
    def test_a_checkpoint_that_does_not_hold_its_rollout_resumes_as_trl_does(
        self, train, make_trainer, tmp_path, caplog, wrote
    ):
        weights_only = {} if wrote is GRPOTrainer else {"save_only_model": True}
        train(wrote, **self.MIDDLE | weights_only)
        checkpoint = str(tmp_path / "run/checkpoint-1")
        off = {"advantage_shaping": "none", "output_dir": str(tmp_path / "other")}
        resumed, plain = make_trainer(SteerGRPOTrainer, **off), make_trainer(GRPOTrainer, output_dir=off["output_dir"])
        for trainer in (resumed, plain):
            torch.manual_seed(0)  # weights alone bring no random state
            trainer.train(resume_from_checkpoint=checkpoint)
        assert same_parameters(resumed, plain)
        assert "does not say where in a rollout it was saved" in caplog.text

    def test_true_is_the_last_complete_checkpoint(self, train, make_trainer, tmp_path, caplog):
        whole = train(SteerGRPOTrainer, **self.SETTINGS)
        for step, torn in ((4, '{"epoch": '), (5, None)):  # killed while they were written
            state = tmp_path / f"run/checkpoint-{step}/trainer_state.json"
            state.parent.mkdir(exist_ok=True)
            state.unlink(missing_ok=True)
            if torn:
                state.write_text(torn)
        resumed = make_trainer(SteerGRPOTrainer, **self.SETTINGS)
        resumed.train(resume_from_checkpoint=True)
        assert same_parameters(whole, resumed)
        assert [f"checkpoint-{step} is skipped" in caplog.text for step in (2, 4, 5)] == [False, True, True]
        assert resumed.state.log_history[2]["step"] == 3

    def test_true_without_a_complete_checkpoint(self, make_trainer, tmp_path):
        (tmp_path / "run/checkpoint-2").mkdir(parents=True)
        with pytest.raises(ValueError, match="needs a complete checkpoint in output_dir"):
            make_trainer(SteerGRPOTrainer).train(resume_from_checkpoint=True)

    def test_card_names_the_methods(self, train, tmp_path):
        train(SteerGRPOTrainer, **self.SETTINGS | {"advantage_shaping": ["steer", "stare"]})
        card = (tmp_path / "run/README.md").read_text()
        assert all(text in card for text in ("- steer\n", "- stare\n", "2510.10150", "2606.19236"))


class TestMetrics:
    def test_the_keys_are_the_documented_ones(self, train):
        ours = self.keys(train(SteerGRPOTrainer, **OPEN_STARE | {"advantage_shaping": ["steer", "stare"]}))
        trl = self.keys(train(SteerGRPOTrainer, advantage_shaping="none"))
        page = (ROOT / "docs/metrics.md").read_text()
        documented = set(re.findall(r"`((?:shaping|stare)/\w+|rollout_\w+)`", page))
        assert ours - trl == documented - {"rollout_advantage_change"}  # neither acts on whole rollouts

    def keys(self, trainer):
        return set().union(*trainer.state.log_history)

    def test_weights_of_a_step_are_summed_over_its_micro_batches(self, train):
        trainer = train(Spy, max_steps=1, gradient_accumulation_steps=4, **OPEN_STARE)
        weights = torch.cat(
            [
                (shaped / raw.unsqueeze(1)).nan_to_num(1)[inputs["completion_mask"].bool()]
                for raw, shaped, *_, inputs in trainer.seen
            ]
        )
        logged = trainer.state.log_history[0]
        assert logged["shaping/weight_mean"] == pytest.approx(weights.mean().item(), rel=1e-6)
        assert logged["shaping/weight_min"] == weights.min().item() == 1
        assert logged["shaping/weight_max"] == pytest.approx(1.1)
        assert logged["shaping/share_changed"] == pytest.approx((weights > 1.05).float().mean().item())


class TestArguments:
    def refused(self, model_dir, tokenizer, **arguments):
        defaults = {
            "model": model_dir,
            "reward_funcs": count_reward,
            "train_dataset": Dataset.from_dict({"prompt": ["1+1="]}),
            "processing_class": tokenizer,
        }
        return SteerGRPOTrainer(**defaults | arguments)

    def test_a_plain_grpo_config(self, model_dir, tokenizer, tmp_path):
        from trl import GRPOConfig

        args = GRPOConfig(output_dir=str(tmp_path), **ON_CPU)
        with pytest.raises(TypeError, match=r"args is a GRPOConfig, .* Pass a SteerGRPOConfig"):
            self.refused(model_dir, tokenizer, args=args)

    def test_fewer_prompts_than_a_rollout_takes(self, model_dir, tokenizer):
        """TRL drops the rollout it cannot fill, and ends without having trained."""
        sizes = {"per_device_train_batch_size": 8, "num_generations": 4, "steps_per_generation": 2}
        args = SteerGRPOConfig(output_dir="unused", **ON_CPU | sizes)
        three = Dataset.from_dict({"prompt": ["a", "b", "c"]})
        with pytest.raises(ValueError, match="it has 3 rows, and a rollout takes 4 different ones"):
            self.refused(model_dir, tokenizer, train_dataset=three, args=args)

    @pytest.mark.parametrize("label", ["train_dataset", "eval_dataset"])
    def test_an_empty_data_set(self, model_dir, tokenizer, label):
        empty = Dataset.from_dict({"prompt": []})
        with pytest.raises(ValueError, match=f"{label} is refused: it has no rows"):
            self.refused(model_dir, tokenizer, **{label: empty})

    def test_no_prompt(self, model_dir, tokenizer):
        dataset = Dataset.from_dict({"question": ["1+1="]})
        with pytest.raises(
            ValueError, match=r"the trainer needs a column 'prompt', and the columns are \['question'\]"
        ):
            self.refused(model_dir, tokenizer, train_dataset=dataset)

    def test_no_column_for_the_reward(self, model_dir, tokenizer):
        from trl.rewards import accuracy_reward

        with pytest.raises(ValueError, match="the reward function accuracy_reward needs a column 'solution'"):
            self.refused(model_dir, tokenizer, reward_funcs=[count_reward, accuracy_reward])

    @pytest.mark.parametrize("path", ["/nowhere/model", "./nowhere", "a/b/c"])
    def test_a_model_folder_that_is_not_there(self, tokenizer, path):
        with pytest.raises(FileNotFoundError, match="there is no such folder, and it cannot be a name on the Hub"):
            self.refused(path, tokenizer)

    def test_a_model_folder_that_could_be_a_name_on_the_hub(self, tokenizer, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        (tmp_path / "runs").mkdir()
        with pytest.raises(FileNotFoundError, match="there is a folder 'runs' here, but no such folder in it"):
            self.refused("runs/missing", tokenizer)

    def test_columns_of_a_streamed_data_set(self, model_dir, tokenizer):
        streamed = Dataset.from_dict({"question": ["1+1="]}).to_iterable_dataset()
        with pytest.raises(ValueError, match="the trainer needs a column 'prompt'"):
            self.refused(model_dir, tokenizer, train_dataset=streamed)

    def test_rewards_that_trl_takes_are_taken(self):
        from steer_trl.trainer.preflight import check_trainer_arguments

        def solution_reward(completions, solution):
            return [0.0] * len(completions)

        @functools.wraps(solution_reward)
        def adapter(completions, answer, **_):
            return solution_reward(completions, solution=answer)

        class Callable:
            def __call__(
                self, prompts, completions, completion_ids, trainer_state, log_extra, log_metric, answer, **_
            ):
                return [0.0] * len(completions)

        async def later(*, completions, answer, **_):
            return [0.0] * len(completions)

        fine = [adapter, Callable(), later, functools.partial(solution_reward, solution=[]), max, "a/reward-model"]
        dataset = Dataset.from_dict({"prompt": ["1"], "answer": ["1"]})
        check_trainer_arguments({"model": "some/model", "reward_funcs": fine, "train_dataset": dataset})

    def test_positional_arguments_and_the_default_configuration(self, model_dir, tokenizer, tmp_path, monkeypatch):
        monkeypatch.chdir(tmp_path)
        # TRL's default is bf16, which a machine without a GPU refuses; only the construction is looked at here.
        monkeypatch.setattr("transformers.training_args.is_torch_bf16_gpu_available", lambda: True)
        dataset = Dataset.from_dict({"prompt": ["1+1="] * 8})
        trainer = SteerGRPOTrainer(model_dir, count_reward, None, dataset, dataset.select([0]), tokenizer)
        assert isinstance(trainer.args, SteerGRPOConfig) and trainer.args.advantage_shaping == "steer"
        assert len(trainer.eval_dataset) == 1
