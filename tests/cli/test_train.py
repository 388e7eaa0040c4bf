"""`steer-trl train`: its help, columns of a user's own, and recipes whose method the command line changes."""

import json
import re
from dataclasses import fields

import pytest
from support import ROOT, SMOKE
from trl import GRPOConfig, ModelConfig

from steer_trl import SteerGRPOConfig
from steer_trl.cli.arguments import MathArguments
from steer_trl.cli.main import main
from steer_trl.cli.recipe_files import RECIPES, load_recipe
from steer_trl.cli.train import parse
from steer_trl.data import load_math_dataset

# The recipes of a run, without those of an evaluation and those that only others extend.
FILES = [*RECIPES.rglob("*.yaml"), *(ROOT / "examples/methods").glob("*.yaml")]
RUNNABLE = sorted(path for path in FILES if "output_dir" in load_recipe(path) and path.parent.name != "evaluation")

NEEDED = ["--model_name_or_path", "m", "--dataset_name", "math500", "--use_cpu", "true", "--bf16", "false"]


class TestHelp:
    def shown(self, capsys, *words):
        main(list(words))
        return capsys.readouterr().out

    def test_short_help_is_ours_and_long_complete(self, capsys):
        short, long = (self.shown(capsys, "train", word) for word in ("--help", "--help-all"))
        ours = {f.name for f in fields(MathArguments)} | {f.name for f in fields(SteerGRPOConfig)}
        ours -= {f.name for f in fields(GRPOConfig)}
        every = ours.union(f.name for kind in (GRPOConfig, ModelConfig) for f in fields(kind) if f.init)
        flags = {text: set(re.findall(r"^  --(\w+)", text, re.MULTILINE)) for text in (short, long)}
        assert ours <= flags[short] and every <= flags[long] and len(flags[short]) < len(every) / 2
        assert "--resume_from_checkpoint" in short and "auto for the same" in short

    def test_help_and_list_of_the_evaluation_are_complete(self, capsys):
        assert self.shown(capsys, "help") == self.shown(capsys, "--help")
        text = self.shown(capsys, "help", "eval")
        assert text == self.shown(capsys, "eval", "--help")
        assert all(flag in text for flag in ("--config", "--list", "--limit"))
        text = self.shown(capsys, "eval", "--list")
        assert "aime24@32" in text and "math500@1" in text and "dapo" not in text


class TestRecipes:
    def test_replaced_methods_lose_their_settings(self):
        line = ["--config", str(SMOKE), *NEEDED, "--use_vllm", "false"]
        assert parse(line)[1].stare_target_entropy == 0.8
        _, args, _ = parse([*line, "--advantage_shaping", "none"])
        assert args.shaping_names == () and args.stare_target_entropy == 0.3

    def test_the_recommended_recipe_becomes_plain_grpo(self):
        off = ["--advantage_shaping", "none", "--hold_entropy", "none"]
        line = ["--config", "recommended_qwen2.5_math_7b", *NEEDED, "--use_vllm", "false"]
        _, args, _ = parse([*line, *off])
        assert (args.shaping_names, args.hold_entropy, args.dynamic_sampling) == ((), None, "resample")

    @pytest.mark.parametrize("recipe", RUNNABLE)
    def test_every_recipe_becomes_plain_grpo(self, recipe, monkeypatch):
        monkeypatch.syspath_prepend(str(ROOT / "examples/methods"))
        given, line = load_recipe(recipe), ["--config", str(recipe), *NEEDED, "--use_vllm", "false"]
        _, args, _ = parse([*line, "--advantage_shaping", "none", "--hold_entropy", "none"])
        assert args.shaping_names == () and args.hold_entropy is None and not args.shaping_options
        # Values with a meaning for GRPO stay: a wide clipping, and TRL's own KL penalty.
        wide = {"steer_extreme": (0.99, 5.0), "clip_cov": (1.0, 1.0)}.get(recipe.stem, ())
        stays = dict(zip(("epsilon", "epsilon_high"), wide, strict=False))
        stays |= {"beta": given["beta"]} if recipe.stem in ("kl_penalty", "entrocraft") else {}
        base = load_recipe(RECIPES / "base_qwen2.5_math_7b.yaml")
        clipping = {"epsilon": (0.2,), "epsilon_high": (None, 0.2, 0.28), "beta": (base["beta"],)}
        for name, values in clipping.items():
            assert getattr(args, name) in ((stays[name],) if name in stays else values)

    FAR = "advantage_shaping: f_grpo\nhold_entropy: 0.98\nstare_variant: O1\nstare_top_fraction: 0.05\n"

    def test_settings_of_the_method_that_the_level_moves_go_with_the_level_alone(self, tmp_path):
        far = tmp_path / "far.yaml"
        far.write_text(self.FAR)
        line = ["--config", str(far), *NEEDED, "--output_dir", "x"]
        for methods in ("none", "f_grpo", "pass_at_k"):
            _, args, _ = parse([*line, "--advantage_shaping", methods])
            assert args.shaping_names[-1] == "stare" and (args.stare_variant, args.stare_top_fraction) == ("O1", 0.05)
        _, args, _ = parse([*line, "--hold_entropy", "none"])
        assert args.shaping_names == ("f_grpo",) and args.stare_top_fraction == 0.1
        _, args, _ = parse([*line, "--hold_entropy_by", "repo_r"])
        assert args.shaping_names == ("f_grpo", "repo_r") and args.stare_top_fraction == 0.1

    def test_options_of_the_method_that_the_level_moves_go_with_the_level_alone(self, tmp_path, monkeypatch):
        far, options = tmp_path / "far.yaml", "shaping_options: {clip_bounds.ClipBounds: {}, f_grpo: {gamma: 2.0}}\n"
        moved = "hold_entropy: 0.98\nhold_entropy_by: clip_bounds.ClipBounds\nepsilon: 1.0\nepsilon_high: 1.0e+9\n"
        far.write_text(f"advantage_shaping: f_grpo\n{moved}{options}")
        monkeypatch.syspath_prepend(str(ROOT / "examples/methods"))
        line = ["--config", str(far), *NEEDED, "--output_dir", "x"]
        _, args, _ = parse([*line, "--advantage_shaping", "none"])
        assert args.shaping_names == (*args.shaping_options,) == ("clip_bounds.ClipBounds",)
        _, args, _ = parse([*line, "--hold_entropy", "none"])
        assert args.shaping_names == (*args.shaping_options,) == ("f_grpo",) and args.epsilon == 0.2

    def test_typed_settings_beside_the_method_stay(self):
        line = ["--config", str(SMOKE), *NEEDED, "--use_vllm", "false", "--advantage_shaping", "none"]
        with pytest.raises(ValueError, match=r"stare_amplify=1\.2 is a setting of 'stare'"):
            parse([*line, "--stare_amplify", "1.2"])

    def test_a_nearer_recipe_may_change_the_method(self, tmp_path):
        near, far = tmp_path / "near.yaml", tmp_path / "far.yaml"
        far.write_text("advantage_shaping: stare\nstare_amplify: 1.3\ncorrect_threshold: 0.0\n")
        near.write_text("extends: far.yaml\nadvantage_shaping: steer\nsteer_lambda_min: 0.7\n")
        _, args, _ = parse(["--config", str(near), *NEEDED, "--output_dir", "x"])
        assert (args.shaping_names, args.steer_lambda_min, args.stare_amplify) == (("steer",), 0.7, 1.1)

    def test_recipes_may_not_set_ignored_settings(self, tmp_path):
        near = tmp_path / "near.yaml"
        near.write_text("extends: stare_o1\nadvantage_shaping: steer\nstare_amplify: 1.3\n")
        with pytest.raises(ValueError, match=r"stare_amplify=1\.3 is a setting of 'stare'"):
            parse(["--config", str(near), *NEEDED, "--output_dir", "x"])

    def test_a_level_that_is_switched_off_takes_its_settings_along(self, tmp_path):
        far, near = tmp_path / "far.yaml", tmp_path / "near.yaml"
        far.write_text("extends: repo_r\nhold_entropy: 0.5\nhold_entropy_final: 0.25\n")
        near.write_text("extends: far.yaml\nhold_entropy: null\nshaping_options: {repo_r: {zeta: 0.2}}\n")
        line = ["--config", str(far), *NEEDED, "--use_vllm", "false"]
        assert parse(line)[1].hold_entropy_final == 0.25
        off = [*line, "--advantage_shaping", "none", "--hold_entropy", "none"]
        for words in (off, ["--config", str(near), *NEEDED, "--use_vllm", "false"]):
            _, args, _ = parse(words)
            assert (args.hold_entropy, args.hold_entropy_final) == (None, None)
        with pytest.raises(ValueError, match=r"hold_entropy_final=0\.3"):
            parse([*off, "--hold_entropy_final", "0.3"])

    def test_null_in_a_nearer_recipe_is_the_default(self, tmp_path):
        near = tmp_path / "near.yaml"
        kinds = "lr_scheduler_kwargs: {a: 1}\neval_strategy: no\nreport_to: [none]\nlearning_rate: 1e-3\n"
        near.write_text(f"extends: {SMOKE}\ndelta: null\nmax_steps: null\n{kinds}env: {{A_B: 3}}\n")
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

    def test_a_custom_reward_gets_every_column_of_the_data_set(self, table):
        args = MathArguments(dataset_name=[table], prompt_column="frage", reward_funcs=["a.b"], limit=2)
        args.instruction = "Say {problem}"
        with pytest.raises(ValueError, match="prompt"):  # a column of that name is there already
            args.load_dataset()
        args.prompt_column = "prompt"
        data = args.load_dataset()
        assert data.column_names == ["frage", "antwort", "prompt"] and len(data) == 2
        assert data[0]["prompt"] == [{"role": "user", "content": "Say no"}]

    TALK = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "1+1?"},
        {"role": "assistant", "content": "3"},
        {"role": "user", "content": "Really?"},
    ]

    def of_prompts(self, tmp_path, *prompts):
        path = tmp_path / "talks.jsonl"
        path.write_text("".join(json.dumps({"prompt": prompt, "level": 3}) + "\n" for prompt in prompts))
        return MathArguments(dataset_name=[str(path)], reward_funcs=["a.b"])

    def test_an_instruction_goes_into_the_last_message_of_the_user(self, tmp_path):
        ended = [*self.TALK, {"role": "assistant", "content": "2"}]
        args = self.of_prompts(tmp_path, self.TALK, ended)
        assert args.load_dataset()["prompt"][:] == [self.TALK, ended]
        args.instruction = "Say {problem}"
        asked = {"role": "user", "content": "Say Really?"}
        data = args.load_dataset()
        assert data["prompt"][:] == [[*self.TALK[:3], asked], [*self.TALK[:3], asked, ended[-1]]]
        assert data["level"][:] == [3, 3]

    @pytest.mark.parametrize(
        ("prompt", "value"),
        [
            ([{"role": "assistant", "content": "3"}], "'3'"),
            ([{"role": "user", "content": [{"type": "text", "text": "1+1?"}]}], "1[+]1"),
            (None, ""),
            ([], ""),
        ],
    )
    def test_a_prompt_without_a_text_of_the_user_takes_no_instruction(self, tmp_path, prompt, value):
        args = self.of_prompts(tmp_path, self.TALK if isinstance(prompt, list) else "1+1?", prompt)
        args.instruction = "Say {problem}"
        with pytest.raises(ValueError, match=f"row 1.*{value}"):
            args.load_dataset()
