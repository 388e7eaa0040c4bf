"""`steer-trl train`: its help, columns of a user's own, and recipes whose method the command line changes."""

from dataclasses import fields

import pytest
from trl import ModelConfig

from steer_trl import SteerGRPOConfig
from steer_trl.cli.arguments import MathArguments
from steer_trl.cli.main import main
from steer_trl.cli.train import parse
from steer_trl.data import load_math_dataset
from steer_trl.shaping import SHAPERS

NEEDED = ["--model_name_or_path", "m", "--dataset_name", "math500", "--use_cpu", "true", "--bf16", "false"]


class TestHelp:
    def shown(self, capsys, *words):
        main(list(words))
        return capsys.readouterr().out

    def test_it_fits_a_few_screens_and_begins_with_what_everybody_needs(self, capsys, monkeypatch):
        monkeypatch.setenv("COLUMNS", "100")
        text = self.shown(capsys, "train", "--help")
        assert len(text.splitlines()) <= 335 and "  --config  " in text[:900] and "--accelerate_config" in text[:900]
        ours = [f.name for f in fields(MathArguments)]
        assert all(f"  --{name}" in text for name in [*ours, "advantage_shaping", "hold_entropy"])
        assert all(f"  --{name}  " in text for method in SHAPERS.values() for name in method.settings())
        assert max(map(len, text.splitlines())) <= 120

    def test_it_names_the_ways_to_resume(self, capsys):
        text = " ".join(self.shown(capsys, "train", "--help").split())
        assert (
            "--resume_from_checkpoint true for the last complete checkpoint in output_dir, auto for the same" in text
        )

    def test_it_is_a_command_as_well(self, capsys):
        assert self.shown(capsys, "help") == self.shown(capsys, "--help")
        assert self.shown(capsys, "help", "eval") == self.shown(capsys, "eval", "--help")

    def test_all_of_it(self, capsys):
        text = self.shown(capsys, "train", "--help-all")
        for kind in (MathArguments, SteerGRPOConfig, ModelConfig):
            assert [f.name for f in fields(kind) if f.init and f"  --{f.name}" not in text] == []

    def test_of_the_evaluation(self, capsys):
        assert all(flag in self.shown(capsys, "eval", "--help") for flag in ("--config", "--list", "--limit"))
        text = self.shown(capsys, "eval", "--list")
        assert "aime24@32" in text and "math500@1" in text and "dapo" not in text


class TestRecipes:
    def test_settings_of_a_method_that_the_command_line_leaves_out_are_left_out(self):
        line = ["--config", "smoke_cpu", *NEEDED, "--use_vllm", "false"]
        assert parse(line)[1].stare_target_entropy == 0.8
        _, args, _ = parse([*line, "--advantage_shaping", "none"])
        assert args.shaping_names == () and args.stare_target_entropy == 0.3

    def test_a_level_that_the_command_line_switches_off_takes_its_settings_along(self, tmp_path):
        falls = tmp_path / "falls.yaml"
        falls.write_text("extends: held_qwen2.5_math_1.5b\nhold_entropy_final: 0.25\nhold_entropy_decay_start: 0.4\n")
        line = ["--config", str(falls), *NEEDED, "--use_vllm", "false"]
        args = parse(line)[1]
        assert (args.hold_entropy_final, args.hold_entropy_decay_start) == (0.25, 0.4)
        _, args, _ = parse([*line, "--advantage_shaping", "none", "--hold_entropy", "none"])
        assert (args.hold_entropy, args.hold_entropy_final, args.hold_entropy_decay_start) == (None, None, 0.6)
        with pytest.raises(ValueError, match=r"hold_entropy_final=0\.3 cannot be combined with hold_entropy=None"):
            parse([*line, "--advantage_shaping", "none", "--hold_entropy", "none", "--hold_entropy_final", "0.3"])

    def test_what_is_typed_beside_the_method_is_not_left_out(self):
        line = ["--config", "smoke_cpu", *NEEDED, "--use_vllm", "false", "--advantage_shaping", "none"]
        with pytest.raises(ValueError, match=r"stare_amplify=1\.2 is a setting of 'stare'"):
            parse([*line, "--stare_amplify", "1.2"])

    def test_a_nearer_recipe_may_change_the_method(self, tmp_path):
        near, far = tmp_path / "near.yaml", tmp_path / "far.yaml"
        far.write_text("advantage_shaping: stare\nstare_amplify: 1.3\ncorrect_threshold: 0.0\n")
        near.write_text("extends: far.yaml\nadvantage_shaping: steer\nsteer_lambda_min: 0.7\n")
        _, args, _ = parse(["--config", str(near), *NEEDED, "--output_dir", "x"])
        assert (args.shaping_names, args.steer_lambda_min, args.stare_amplify) == (("steer",), 0.7, 1.1)

    def test_null_in_a_nearer_recipe_is_the_default(self, tmp_path):
        near = tmp_path / "near.yaml"
        kinds = "lr_scheduler_kwargs: {a: 1}\neval_strategy: no\nreport_to: [none]\nlearning_rate: 1e-3\n"
        near.write_text(f"extends: smoke_cpu\ndelta: null\nmax_steps: null\n{kinds}env: {{A_B: 3}}\n")
        _, args, _ = parse(["--config", str(near), *NEEDED, "--output_dir", "x"])
        assert (args.delta, args.max_steps, args.learning_rate) == (None, -1, 1e-3)
        assert args.lr_scheduler_kwargs == {"a": 1} and args.eval_strategy == "no"


class TestData:
    @pytest.fixture
    def table(self, tmp_path):
        path = tmp_path / "sums.csv"
        path.write_text("frage,antwort,prompt\n" + "".join(f"What is {i}+1?,{i + 1},no\n" for i in range(6)))
        return str(path)

    def test_columns_of_any_name_and_fewer_rows(self, table):
        data = load_math_dataset(table, prompt_column="frage", answer_column="antwort", limit=4)
        assert data["solution"][:] == [rf"\boxed{{{i + 1}}}" for i in range(4)]
        assert "What is 3+1?" in data[3]["prompt"][-1]["content"]

    def test_without_math_every_column_is_the_functions(self, table):
        args = MathArguments(dataset_name=[table], prompt_column="frage", reward_funcs=["a.b"], limit=2)
        args.instruction = "Say {problem}"
        with pytest.raises(ValueError, match="prompt"):  # a column of that name is there already
            args.load_dataset()
        args.prompt_column = "prompt"
        data = args.load_dataset()
        assert data.column_names == ["frage", "antwort", "prompt"] and len(data) == 2
        assert data[0]["prompt"] == [{"role": "user", "content": "Say no"}]
