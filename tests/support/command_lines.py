"""Command lines that are wrong, one of each kind, and the folder in which they are typed."""

import json
import shutil

from support import SMOKE
from support.runs import save_tiny_model

FILES = {
    "tab.yaml": "max_steps: 1\n\tseed: 2\n",
    "empty.yaml": "",
    "twice.yaml": "max_steps: 1\nseed: 2\nmax_steps: 2\n",
    "circle.yaml": "extends: circle.yaml\n",
    "gone.yaml": "extends: fist_run\n",
    "env.yaml": f"extends: {SMOKE}\nenv: [A, B]\n",
    "binary.yaml": b"\xff\xfe\x00",
    "switch.yaml": f"extends: {SMOKE}\nnum_generations: true\n",
    "mapping.yaml": f"extends: {SMOKE}\nlearning_rate: {{a: 1}}\n",
    "typos.yaml": f"extends: {SMOKE}\nlambda_min: 0.7\nsteer_lamda_min: 0.7\n",
    "same.yaml": f"extends: {SMOKE}\nadvantage_shaping: steer\nstare_amplify: 2.0\n",
    "nul.yaml": f'extends: {SMOKE}\nenv: {{A: "a\\0"}}\n',
    "tracker.yaml": f"extends: {SMOKE}\nreport_to: {{a: b}}\n",
    "reward.yaml": f"extends: {SMOKE}\nreward_funcs: maths\n",
    "bare.yaml": f"extends: {SMOKE}\non: 2\n",
    "no.yaml": f"extends: {SMOKE}\neval_strategy: no\neval_benchmarks: problems.jsonl\n",
    "latin.jsonl": '{"problem": "Wie groß?", "answer": "2"}\n'.encode("latin-1"),
    "objects.jsonl": '{"problem": {"a": 1}, "answer": "2"}\n' * 8,
    "talks.jsonl": '{"prompt": [{"role": "assistant", "content": "2"}]}\n' * 8,
    "bad.jsonl": '{"problem": "1+1?", "answer": "2"}\n{"problem": \n',
    "columns.jsonl": '{"frage": "1+1?", "antwort": "2"}\n' * 8,
    "problems.csv": "frage,antwort\nWhat is 1+1?,2\nWhat is 1+2?,3\n",
    "problems.txt": "What is 1+1?",
    "rewards_of_mine.py": "VALUE = 3\ndef reward(completions, **_): return [1.0] * len(completions)\n",
    "torn_file.py": "def reward(\n",
    "raises.py": "x = 1\n1 / 0\n",
    "ends.py": "raise SystemExit\n",
    "tools_of_mine.py": "def silent(x: str): return x\ndef untyped(x):\n '''Do.\n Args:\n  x: it\n '''\n",
}


def fill(folder):
    """Write a model, problems and the `FILES` to a folder."""
    save_tiny_model(folder / "tiny")
    rows = [{"problem": f"What is {i}+1?", "answer": str(i + 1)} for i in range(8)]
    (folder / "problems.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    for name, text in FILES.items():
        (folder / name).write_bytes(text if isinstance(text, bytes) else text.encode())
    (folder / "empty").mkdir()
    shutil.copytree(folder / "tiny", folder / "torn")
    (folder / "torn/model.safetensors").write_bytes((folder / "tiny/model.safetensors").read_bytes()[:999])
    shutil.copytree(folder / "tiny", folder / "base")
    (folder / "base/chat_template.jinja").unlink()
    shutil.copytree(folder / "tiny", folder / "wordless", ignore=shutil.ignore_patterns("tokenizer*"))
    for step in (2, 4):
        (folder / f"run/checkpoint-{step}").mkdir(parents=True)
        state = {"settings": {"advantage_shaping": ["steer", "stare"]}}
        (folder / f"run/checkpoint-{step}/shaping_state.json").write_text(json.dumps(state))


TRAIN = {"--config": str(SMOKE), "--model_name_or_path": "tiny", "--dataset_name": "problems.jsonl"}
TRAIN |= {"--output_dir": "new"}
EVAL = {"--model_name_or_path": "tiny", "--output_dir": "new", "--benchmarks": "problems.jsonl@1"}


def train(**changed):
    """A command line that works, but for what is changed."""
    return words("train", TRAIN, changed)


def evaluate(**changed):
    return words("eval", EVAL, changed)


def words(command, usual, changed):
    given = usual | {f"--{name}": value for name, value in changed.items()}
    line = [command]
    for flag, value in given.items():
        if value is not None:
            line += [flag, *map(str, value if isinstance(value, list) else [value])]
    return line


EVALUATED = {"eval_strategy": "steps", "eval_steps": 1, "eval_benchmarks": ["problems.jsonl@1"]}
LINES = [
    # Commands and flags.
    [],
    ["help", "trian"],
    ["trian"],
    ["train"],
    train(advantage_shapping="steer"),
    train(**{"steer-lamda-min": 0.7}),
    train(max_step=3),
    train(dry_run="true", resume_from_checkpoint="true"),
    train(accelerate_config="cpu", num_processes=2),
    train(lr=1e-3, epochs=2, batch_size=8, model="tiny", dataset="problems.jsonl"),
    ["train", "first_run"],
    [*train(), "steer"],
    [*train(), "--"],
    # Recipes.
    [*train(config=None), "--config"],
    train(config="first-run"),
    train(config="runs/mine.yaml"),
    train(config="tab.yaml"),
    train(config="empty.yaml"),
    train(config="binary.yaml"),
    train(config="twice.yaml"),
    train(config="circle.yaml"),
    train(config="gone.yaml"),
    train(config="env.yaml"),
    train(config="mapping.yaml"),
    train(config="switch.yaml"),
    train(config="typos.yaml"),
    train(config="same.yaml"),
    train(config="nul.yaml"),
    train(config="reward.yaml"),
    train(config="no.yaml"),
    train(config="bare.yaml"),
    # Methods.
    train(advantage_shaping="ster"),
    train(advantage_shaping=["psr", "nsr"]),
    train(advantage_shaping="steer", stare_amplify=2.0),
    train(steer_lambda_min=2, stare_variant="X"),
    # TRL's own settings.
    train(per_device_train_batch_size=0),
    train(loss_type="grop"),
    train(report_to="tensorbord"),
    train(report_to=["none", "none"]),
    train(config="tracker.yaml"),
    train(report_to="mlflow"),
    train(lora_r=8),
    train(lora_r=16),  # the default
    train(load_in_4bit="true"),
    train(bnb_4bit_quant_type="fp4"),
    train(dtype="bfloat16", model_init_kwargs='{"dtype": "float32"}'),
    train(reward_funcs="rewards_of_mine.reward", reward_timeout=5),
    train(steps_per_generation=0),
    train(num_iterations=0),
    train(num_train_epochs="inf", max_steps=-1),
    train(use_liger_kernel="true"),
    train(dynamic_sampling="resample", correct_threshold=1),
    train(stare_target_entropy=80, stare_target_entropy_unit="initial"),
    train(num_generations=0),
    train(entropy_target=0.5),
    train(eval_strategy="steps", eval_steps=1),
    train(dataset_config="main"),
    train(beta=-1),
    train(eval_on_start="true"),
    train(eval_benchmarks="problems.jsonl@1"),
    train(eval_samplings="t1"),
    train(eval_judge="my.judge"),
    train(**EVALUATED, eval_samplings=["t1", "greddy"]),
    train(**EVALUATED, eval_judge="no.such.judge"),
    # The model.
    train(model_name_or_path="empty"),
    train(model_name_or_path="runs/nope"),
    train(model_name_or_path="./nope", dataset_name="nope.jsonl", output_dir="run"),
    train(model_name_or_path="torn"),
    train(model_name_or_path="base"),
    train(model_name_or_path="wordless"),
    # The data set.
    train(dataset_name=""),
    train(dataset_name=["problems.jsonl", " "]),
    train(dataset_name="dapo-math"),
    train(dataset_name="nope.jsonl"),
    train(dataset_name="empty"),
    train(dataset_name="problems.txt"),
    train(dataset_name="me/no-such-data"),
    train(dataset_name="bad.jsonl"),
    train(dataset_name="latin.jsonl"),
    train(dataset_name="objects.jsonl"),
    train(dataset_name="objects.jsonl", prompt_column="problem", reward_funcs="rewards_of_mine.reward"),
    train(dataset_name="talks.jsonl", reward_funcs="rewards_of_mine.reward", instruction="Say {problem}"),
    train(dataset_name="columns.jsonl"),
    train(dataset_name="problems.csv", prompt_column="frage"),
    train(dataset_name="problems.csv", prompt_column="frag", answer_column="antwort"),
    train(dataset_split="test"),
    train(limit=0),
    train(limit=1, gradient_accumulation_steps=2),
    # The reward.
    train(reward_incorrect=1),
    train(reward_timeout=0),
    train(reward_funcs="no_such_module.f"),
    train(reward_funcs="rewards_of_mine.f"),
    train(reward_funcs="raises.f"),
    train(reward_funcs="ends.f"),
    train(reward_funcs="torn_file.reward"),
    train(reward_funcs="rewards_of_mine.VALUE"),
    train(reward_funcs="rewards_of_mine.reward"),
    train(reward_funcs="rewards_of_mine.reward", reward_incorrect=0),
    train(tools="run_python"),
    train(tools="tools_of_mine.gone"),
    train(tools="tools_of_mine.silent"),
    train(tools="tools_of_mine.untyped"),
    # Folders.
    train(output_dir="problems.txt"),
    train(output_dir=" "),
    train(output_dir="runs/\udcff"),
    train(output_dir="run"),
    train(output_dir="tiny"),
    train(output_dir="tiny", resume_from_checkpoint="auto"),
    train(output_dir="run", resume_from_checkpoint="checkpoint-3"),
    train(resume_from_checkpoint="tiny"),
    # Processes: all of this without starting any.
    [*train(), "--accelerate_config"],
    train(accelerate_config="zero4"),
    train(accelerate_config="cpu", num_processes=0),
    train(num_processes=4),
    ["demo", "--problems", "0", "--tokens", "0", "--seed", "-1"],
    ["demo", "--problems", "5000"],
    # Evaluation.
    ["eval"],
    evaluate(benchmark="aime24"),
    evaluate(benchmarks="aime27"),
    evaluate(benchmarks="mine=columns.jsonl"),
    evaluate(benchmarks="problems.jsonl@many"),
    evaluate(instruction="papers", answer_format="either"),
    evaluate(model_name_or_path="runs/nope", benchmarks="aime24"),
    evaluate(backend="vlm"),
    evaluate(tensor_parallel_size=0, gpu_memory_utilization=7, max_model_length=-3),
    evaluate(temperatures=[0.5, 1], top_p=0.7),
    evaluate(samplings="greedy", temperature=1.0),
    evaluate(output_dir=" "),
    evaluate(model_name_or_path=""),
    evaluate(judge="no.such"),
    evaluate(model_name_or_path="torn"),
    evaluate(model_name_or_path="base"),
    evaluate(model_name_or_path="wordless"),
    evaluate(output_dir="problems.txt"),
    evaluate(save_temperature="problems"),
    evaluate(temperatures=["0.5", "1"], save_temperature="problem"),
    # Recipes, listed.
    ["recipes", "psrr"],
    ["recipes", "lora"],
    ["recipes", "a", "b"],
    # The report.
    ["report"],
    ["report", "nope"],
    ["report", "--out", "x", "nope"],
]


def shown(line):
    """Return what of a line differs from the one that works."""
    text = " ".join(line)
    for flag, value in (TRAIN | EVAL).items():
        text = text.replace(f" {flag} {value}", "")
    return f"steer-trl {text}".strip()
