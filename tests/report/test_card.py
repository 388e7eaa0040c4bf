"""The card says what is known and nothing else, and nothing secret."""

import pickle
from dataclasses import MISSING, fields

import numpy as np
import pytest
import torch
import yaml
from huggingface_hub import ModelCard
from support.hub_server import complaints
from support.runs import ON_CPU

from steer_trl import SteerGRPOConfig, SteerGRPOTrainer
from steer_trl.demo.tiny import tiny_qwen2
from steer_trl.monitoring.start import entropy_ends
from steer_trl.report.card import CardFacts, make_card, select_settings
from steer_trl.shaping.methods import READERS
from steer_trl.support.redact import select_public

CORRECT = {"correct_reward", "correct_threshold"}
OPTIONS = {"shaping_options"}


def config(**fields):
    return SteerGRPOConfig(output_dir="somewhere", **ON_CPU | fields)


def card(log=(), **known):
    known = {"args": config(), "step": log[-1]["step"] if log else 0} | known
    return make_card(CardFacts(log=log, **known))


def points(count):
    return [{"step": 10 * i, "entropy": 1 - i / 100, "reward": i / 100} for i in range(1, count + 1)]


class TestEntropy:
    def test_the_end_is_a_mean_of_ten(self):
        assert entropy_ends(points(50)) == (0.99, pytest.approx(1 - 45.5 / 100))
        assert entropy_ends(points(2)) == (0.99, pytest.approx(0.985))
        assert entropy_ends([]) is None
        rows = [line for line in str(card(points(50))).splitlines() if line.startswith("| ") and "0." in line]
        assert len(rows) == 12 and (rows[0], rows[-1]) == ("| 10 | 0.9900 | 0.0100 |", "| 500 | 0.5000 | 0.5000 |")

    def test_a_point_without_a_reward_or_an_entropy(self):
        """TRL logs None where no completion could be scored."""
        log = [{"step": 1, "entropy": 1.0, "reward": None}, {"step": 2, "entropy": None, "reward": 0.5}]
        log += [{"step": 3, "eval_entropy": 5.0}]
        text = str(card(log))
        assert "| 1 | 1.0000 |  |" in text and "| 2 |" not in text and "| 3 |" not in text
        assert entropy_ends(log) == (1.0, 1.0)

    def test_a_run_without_a_log_or_report(self):
        text, linked = str(card()), str(make_card(CardFacts(args=config(), log=points(3)), has_report=True))
        assert "No entropy has been logged yet." in text and "No benchmark was measured during the training." in text
        assert "report" not in text and "[report.html](report.html)" in linked
        assert complaints(text) == [] == complaints(linked)


class TestWeights:
    def test_a_constant_weight_is_named_with_its_numbers(self):
        given = {"stare_variant": "C2", "stare_gate": "none", "stare_amplify": 1.25, "stare_attenuate": 0.8}
        text = str(card(args=config(advantage_shaping="stare", **given)))
        assert "STARE C2, W 1.25, M 0.8, no gate." in text and "target entropy" not in text

    def test_an_entropy_that_was_let_go_is_named_with_its_step(self):
        targets = [0.2, 0.2, 0.2, 0.15, 0.1, 0.0]
        log = [{"step": i, "entropy": 0.2, "hold_entropy/target": target} for i, target in enumerate(targets, 1)]
        text = str(card(log, args=config(hold_entropy=0.65, advantage_shaping="repo_r")))
        assert "0.2 nats per token up to step 3." in text and "the last target was 0." in text

    def test_a_held_entropy_is_named_with_its_target(self):
        log = [{"step": 1, "entropy": 0.3}, {"step": 2, "entropy": 0.2, "hold_entropy/target": 0.1234}]
        text = str(card(log, args=config(hold_entropy=0.65, advantage_shaping="repo_r")))
        assert "0.65 of its start" in text and "0.123 nats" in text

    @pytest.mark.parametrize("log", [[], [{"step": 3, "reward": 0.5}], points(3)])
    def test_a_level_that_was_never_known_is_stated(self, log):
        held = config(hold_entropy=0.65, advantage_shaping="stare", stare_gate="none")
        assert "was not held so far" in str(card(log, args=held))
        assert "was not held" not in str(card([*log, {"step": 9, "hold_entropy/target": 0.3}], args=held))
        assert "was not held" not in str(card(log))


class TestTheModel:
    def test_a_card_names_the_model_and_data_set_on_the_hub(self):
        known = {"datasets": ["a/b"], "repository": "me/m", "tags": ["trl"]}
        text = str(card(base_model="Qwen/Some", base_is_on_hub=True, **known))
        assert "version of [Qwen/Some](https://huggingface.co/Qwen/Some) on [a/b](" in text and 'model="me/m"' in text
        data = ModelCard(text).data
        assert (data.base_model, data.base_model_relation, data.datasets) == ("Qwen/Some", "finetune", ["a/b"])
        assert (data.library_name, data.pipeline_tag, data.tags) == ("transformers", "text-generation", ["trl"])
        assert complaints(text) == []

    def test_a_card_names_a_local_folder_or_no_model(self):
        local = str(card(base_model="runs/start", is_chat=False))
        assert "fine-tuned version of the local folder `start`" in local and 'model="."' in local
        assert "generator(question, " in local and "base_model" not in ModelCard(local).data.to_dict()
        assert "fine-tuned version of a model made in memory" in str(card())

    @pytest.mark.parametrize(
        ("name", "is_on_hub"),
        [
            *(("Qwen/Some", True), ("/home/else/start", False), ("runs/a/start", False)),
            # This folder was removed, and this is no name that the Hub takes.
            *(("kept/removed", False), ("my model", False)),
        ],
    )
    def test_a_local_path_is_no_name_on_the_hub(self, make_trainer, tokenizer, monkeypatch, tmp_path, name, is_on_hub):
        """Its name is in the configuration that was saved there."""
        (tmp_path / "kept").mkdir()
        monkeypatch.chdir(tmp_path)
        model = tiny_qwen2(tokenizer)
        model.config._name_or_path = name
        trainer = make_trainer(SteerGRPOTrainer, model=model)
        assert trainer.parts.cards.base_model == (name, is_on_hub)

    @pytest.mark.parametrize("is_list", [False, True])
    def test_a_local_path_of_a_data_set_is_not_published(self, make_trainer, tmp_path, is_list):
        (tmp_path / "rows").mkdir()
        trainer = make_trainer(SteerGRPOTrainer)
        local = [str(tmp_path / "rows"), "/home/else/rows", "data/problems.jsonl", "problems.jsonl", "~/rows"]
        for name in local:
            trainer.create_model_card(dataset_name=[name] if is_list else name)
            text = (tmp_path / "run" / "README.md").read_text()
            assert name not in text and "huggingface.co/datasets" not in text and "datasets:" not in text
        trainer.create_model_card(dataset_name=[*local, "a/b"] if is_list else "a/b")
        text = (tmp_path / "run" / "README.md").read_text()
        assert ModelCard(text).data.datasets == ["a/b"] and str(tmp_path / "rows") not in text

    @pytest.mark.parametrize(("checkpoint", "step"), [("run/checkpoint-10", 10), (None, 15)])
    def test_a_card_is_about_the_weights_that_are_loaded(self, make_trainer, tmp_path, checkpoint, step):
        """The best evaluation, here of step 5, may have no checkpoint."""
        trainer = make_trainer(SteerGRPOTrainer, output_dir=str(tmp_path / "run"))
        trainer.args.load_best_model_at_end = True
        trainer.state.global_step, trainer.state.best_global_step = 15, 5
        trainer.state.best_model_checkpoint = checkpoint
        assert trainer.parts.cards._step_of_weights() == step

    def test_a_name_given_to_a_card_stays_when_checkpoints_are_saved(self, make_trainer, tmp_path):
        trainer = make_trainer(SteerGRPOTrainer, output_dir=str(tmp_path / "run"))
        for name in ("run", "Puzzles", None, "run"):
            trainer.create_model_card(model_name=name)
        assert (tmp_path / "run/README.md").read_text().count("Puzzles")

    def test_the_recipe_in_a_card_has_no_local_path(self, make_trainer, tmp_path):
        trainer = make_trainer(SteerGRPOTrainer)
        trainer.parts.cards.recipe = {
            "dataset_name": [str(tmp_path / "a.jsonl"), "open-r1/some", "dapo-math-17k"],
            "model_name_or_path": "/home/else/start",
            "eval_benchmarks": ["validation=/home/else/v.jsonl@16", "aime24@32"],
            "reward_funcs": ["rewards.contains", "org/reward-model"],
            "instruction": "Solve 1/2 = {problem}",
        }
        trainer.create_model_card()
        text = (tmp_path / "run" / "README.md").read_text()
        (block,) = [part.split("```")[0] for part in text.split("```yaml\n")[1:]]
        settings = yaml.safe_load(block)
        assert settings["dataset_name"] == ["a.jsonl", "open-r1/some", "dapo-math-17k"]
        assert settings["model_name_or_path"] == "start"
        assert settings["eval_benchmarks"] == ["validation=v.jsonl@16", "aime24@32"]
        assert settings["reward_funcs"] == ["rewards.contains", "org/reward-model"]
        assert settings["instruction"] == "Solve 1/2 = {problem}"
        assert "/home/else" not in text and str(tmp_path) not in text


class TestLicense:
    def test_a_card_states_only_a_given_licence(self):
        given, unknown = (str(card(args=config(model_license=one))) for one in ("mit", None))
        assert ModelCard(given).data.license == "mit" and "Licence: mit." in given
        assert "license" not in ModelCard(unknown).data.to_dict() and "Licence: not stated." in unknown

    @pytest.mark.parametrize("wrong", ["Apache 2.0", "", "apache-2.0 ", 2])
    def test_a_licence_is_an_identifier(self, wrong):
        with pytest.raises(ValueError, match="model_license"):
            config(model_license=wrong)


def test_settings_of_numpy_and_a_dtype():
    numbers = {"learning_rate": np.float64(3e-6), "num_iterations": np.int64(2)}
    args = config(**numbers, model_init_kwargs={"dtype": torch.bfloat16})
    found = select_settings(args)
    assert (found["learning_rate"], found["num_iterations"]) == (3e-6, 2) and isinstance(found["num_iterations"], int)
    assert found["model_init_kwargs"] == {"dtype": "bfloat16"} and "learning_rate: 3.0e-06" in str(card(args=args))


class TestSettings:
    def test_the_settings_in_a_card_make_the_same_configuration(self):
        given = {"steer_lambda_min": 0.6, "learning_rate": 3e-6, "num_generations": 4}
        args = config(advantage_shaping=["steer", "clip_cov"], **given)
        (block,) = [part.split("```")[0] for part in str(card(args=args)).split("```yaml\n")[1:]]
        found = yaml.safe_load(block)
        assert found == select_settings(args)
        again = config(**{name: value for name, value in found.items() if name != "bf16"})
        assert select_settings(again) == found
        assert {"steer_mapping", "shaping_options", "shaping_scope"} <= found.keys()
        assert found["shaping_options"]["clip_cov"] == {"fraction": 2e-4, "lower": 1.0, "upper": 5.0}
        assert not {"stare_variant", "output_dir", "hub_token", "beta"} & found.keys()

    @pytest.mark.parametrize(
        ("methods", "expected"),
        [
            # The last three are changed by its loss.
            ("grpo_s", CORRECT | OPTIONS | {"epsilon", "epsilon_high", "loss_type"}),
            ("psr", CORRECT),
            ("opo", set()),
            (["position", "clip_cov"], OPTIONS),
        ],
    )
    def test_a_card_has_the_settings_of_its_methods(self, methods, expected):
        found = select_settings(config(advantage_shaping=methods)).keys()
        of_run = select_settings(config(advantage_shaping="none")).keys()
        assert found - of_run == expected

    def test_only_allowed_texts_reach_card_and_trackers(self):
        args = config(
            hub_token="sesame 1",
            model_init_kwargs={"token": "sesame 2", "headers": {"output_dir": "sesame 3"}, "dtype": torch.bfloat16},
            vllm_server_base_url="http://u:sesame4@h",
            optim_args="sesame 5",
            advantage_shaping="support.mistakes.Halved",
            shaping_options={"judges": [{"account": "sesame 6", "votes": 3}], "per_token": True},
        )
        text = str(card(args=args))
        assert "sesame" not in text + args.to_json_string() + str(args.to_sanitized_dict())
        assert select_settings(args)["shaping_options"] == {"judges": [{"votes": 3}], "per_token": True}
        assert select_settings(args)["model_init_kwargs"] == {"dtype": "bfloat16"}
        assert args.to_dict()["optim_args"] == "<OPTIM_ARGS>" and args.to_dict()["loss_type"] == "dapo"
        assert args.to_dict().keys() == super(SteerGRPOConfig, args).to_dict().keys()

    def test_a_sealed_configuration_is_pickled_without_secrets(self):
        args = config(hub_token="sesame", model_init_kwargs={"token": "sesame", "use_cache": False})
        assert pickle.loads(pickle.dumps(args)).hub_token == "sesame"  # for a process that has yet to train
        args.seal()
        assert (args.hub_token, args.model_init_kwargs["token"]) == ("sesame", "sesame")
        assert b"sesame" not in pickle.dumps(args)
        written = pickle.loads(pickle.dumps(args))
        assert written.hub_token is None and written.model_init_kwargs == {"use_cache": False}
        assert (written.learning_rate, written.optim, written.to_dict()["steer_lambda_min"]) == (1e-6, args.optim, 0.8)

    def test_every_text_of_a_method_is_public(self):
        """A method's texts are names from a list, which its own checks hold."""
        own = [field for field in fields(SteerGRPOConfig) if field.name in READERS]
        options = {field.name: field.default for field in own if field.default is not MISSING}
        assert len(options) > 10 and select_public(options) == options
