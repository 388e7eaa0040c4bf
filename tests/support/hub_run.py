"""What a user does with a Hub, in a process of its own: `huggingface_hub` reads its endpoint when it is imported."""

import json
import logging
import os
import sys
import urllib.request
import warnings
from pathlib import Path

import torch
from huggingface_hub.utils import http_backoff
from peft import LoraConfig
from transformers import PrinterCallback, TrainerCallback

from steer_trl import SteerGRPOConfig, SteerGRPOTrainer
from steer_trl.demo.tiny import tiny_tokenizer
from steer_trl.evaluation import BenchmarkEvaluation, Sampling, load_benchmarks
from steer_trl.report.push import PushError
from steer_trl.shaping import Shaper
from support.runs import CHARACTERS, TINY_RUN, count_reward, save_tiny_model, sums

LORA = LoraConfig(r=2, target_modules=["q_proj"], task_type="CAUSAL_LM")
http_backoff.__kwdefaults__.update(base_wait_time=0.01, max_wait_time=0.01)  # it tries again as often, but sooner


def fault(kind):
    body = json.dumps(kind).encode()
    urllib.request.urlopen(urllib.request.Request(f"{os.environ['HF_ENDPOINT']}/fault", body, method="POST")).read()


def make(folder, trainer_arguments=None, **fields):
    settings = TINY_RUN | {"output_dir": str(folder / "run"), "advantage_shaping": "stare"}
    settings |= {"gradient_accumulation_steps": 1, "steps_per_generation": 4}
    settings |= {"max_steps": 3, "save_strategy": "steps", "save_steps": 3}
    trainer = SteerGRPOTrainer(
        model=str(save_tiny_model(folder / "base", CHARACTERS)),
        reward_funcs=count_reward,
        args=SteerGRPOConfig(**settings | fields),
        train_dataset=sums(),
        processing_class=tiny_tokenizer(CHARACTERS),
        **trainer_arguments or {},
    )
    trainer.remove_callback(PrinterCallback)
    return trainer


class Shy(Shaper):
    """A custom method whose settings a user may have put anything into."""

    def weights(self, batch, measure):
        return batch.mask.float()


class Tracker(TrainerCallback):
    """Is told what every tracker of Transformers is told."""

    def __init__(self):
        self.told = []

    def on_train_begin(self, args, state, control, **_):
        self.told += [args.to_json_string(), str(args.to_dict()), str(args.to_sanitized_dict()), str(state)]


def whole(folder):
    """Train with checkpoints pushed and a benchmark, push the end; then resume from what the server holds."""
    problems = folder / "sums.jsonl"
    problems.write_text("".join(json.dumps({"problem": f"{i}+1=", "answer": str(i + 1)}) + "\n" for i in range(3)))
    benchmarks = load_benchmarks([f"sums={problems}@2"], instruction="{problem}")
    arguments = {"benchmarks": BenchmarkEvaluation(benchmarks, Sampling(max_tokens=8))}
    pushing = {"push_to_hub": True, "hub_model_id": "tester/whole", "hub_strategy": "checkpoint"}
    pushing |= {"hub_token": os.environ["GIVEN_TOKEN"]}
    evaluating = {"eval_strategy": "steps", "eval_steps": 3}
    trainer = make(folder, arguments, **pushing, **evaluating)
    trainer.train()
    trainer.save_model()
    arrived = folder / "server/tester/whole/main"
    resumed = make(folder, output_dir=str(folder / "resumed"), max_steps=5)
    resumed.train(resume_from_checkpoint=str(arrived / "last-checkpoint"))
    return {"steps": [entry["step"] for entry in resumed.state.log_history if "entropy" in entry]}


def failing(folder):
    """Pushes that cannot arrive, and the same again when they can."""
    said = {}

    def attempt(name, action):
        try:
            action()
            said[name] = None
        except PushError as error:
            said[name] = str(error)

    trainer = make(folder, push_to_hub=True, hub_strategy="all_checkpoints", save_steps=1)
    fault("refuse")
    trainer.train()
    said["steps"] = trainer.state.global_step
    attempt("refused", trainer.save_model)
    late = make(folder, output_dir=str(folder / "late"), save_strategy="no")
    late.train()
    attempt("no repository", late.push_to_hub)
    fault(None)
    attempt("fine", trainer.push_to_hub)
    return said


def secrets(folder):
    """Train with every kind of push, full and adapter, with a secret wherever a user can write one."""
    secret = os.environ["WANDB_API_KEY"]
    options = {"headers": {"Authorization": f"Bearer {secret}"}, "storage_options": [{"key": secret}], "strength": 0.5}
    hidden = {
        "hub_token": os.environ["HF_TOKEN"],
        "model_init_kwargs": {"token": secret, "attn_implementation": "eager"},
        "vllm_server_base_url": f"http://user:{secret}@host",
        "advantage_shaping": "hub_run.Shy",
        "shaping_options": options,
    }
    tracker, steps = Tracker(), {"save_steps": 1, "push_to_hub": True}
    kinds = {"end": "full", "every_save": "lora", "checkpoint": "full", "all_checkpoints": "lora"}
    for strategy, kind in kinds.items():
        arguments = {"callbacks": [tracker]}
        if kind == "lora":
            arguments["peft_config"] = LORA
        name = f"{strategy}-{kind}"
        pushing = {"hub_strategy": strategy, "hub_model_id": f"tester/{name}", "hub_always_push": True}
        trainer = make(folder, arguments, output_dir=str(folder / name), **steps, **pushing, **hidden)
        trainer.train()
        trainer.save_model()
        trainer.push_to_hub()
    return {"told": tracker.told}


if __name__ == "__main__":
    torch.set_num_threads(1)
    warnings.filterwarnings("error", module="steer_trl")
    logging.basicConfig(level=logging.WARNING)
    folder = Path(sys.argv[2])
    result = {"whole": whole, "failing": failing, "secrets": secrets}[sys.argv[1]](folder)
    (folder / "result.json").write_text(json.dumps(result))
