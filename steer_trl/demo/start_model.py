"""A Qwen2 model with 0.36 million parameters, trained from scratch by supervised learning on random solutions.

python -m steer_trl.demo.start_model --output_dir runs/start
"""

import argparse
from pathlib import Path

import torch
import yaml
from datasets import Dataset
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer

from steer_trl.demo.puzzle import CHARACTERS, START_STEPS, solved_examples
from steer_trl.demo.tiny import tiny_qwen2, tiny_tokenizer
from steer_trl.monitoring.run_log import RunLog, describe_run

BATCH_SIZE = 64


def supervised_start(output_dir: str | Path, steps: int, seed: int = 0, logging_steps: int = 10) -> None:
    """Train the model on `steps` batches of solved training problems, and save it with its tokenizer."""
    tokenizer = tiny_tokenizer(CHARACTERS)
    model = tiny_qwen2(
        tokenizer, seed, hidden_size=96, intermediate_size=288, num_hidden_layers=3, num_key_value_heads=4
    )
    trainer = SFTTrainer(
        model,
        SFTConfig(
            output_dir=str(output_dir),
            max_steps=steps,
            per_device_train_batch_size=BATCH_SIZE,
            learning_rate=2e-3,
            lr_scheduler_type="cosine",
            gradient_checkpointing=False,
            use_cpu=True,
            bf16=False,
            seed=seed,
            save_strategy="no",
            report_to="none",
            disable_tqdm=True,
            logging_steps=logging_steps,
        ),
        train_dataset=Dataset.from_list(solved_examples(steps * BATCH_SIZE, seed + 1)),
        processing_class=tokenizer,
        callbacks=[RunLog(describe_run)],
    )
    trainer.train()
    trainer.save_model()


def main() -> None:
    """Read the command line, train the model, and save it."""
    files = argparse.ArgumentParser(add_help=False)
    files.add_argument("--config", type=Path, help="YAML file with values of these arguments")
    config = files.parse_known_args()[0].config
    defaults = yaml.safe_load(config.read_text()) if config else {}
    parser = argparse.ArgumentParser(
        "steer_trl.demo.start_model", allow_abbrev=False, description=__doc__, parents=[files]
    )
    parser.add_argument(
        "--output_dir", required="output_dir" not in defaults, help="folder that the model is saved in"
    )
    parser.add_argument(
        "--steps", type=int, default=START_STEPS, help=f"optimizer steps of {BATCH_SIZE} solved examples"
    )
    parser.add_argument("--seed", type=int, default=0, help="seed of the first weights, the training and its examples")
    parser.add_argument("--logging_steps", type=int, default=10, help="optimizer steps between two lines of the log")
    parser.add_argument("--half_precision", action="store_true", help="save in float16, which halves the file")
    parser.set_defaults(**defaults)
    args = parser.parse_args()
    supervised_start(args.output_dir, args.steps, args.seed, args.logging_steps)
    if args.half_precision:
        model = AutoModelForCausalLM.from_pretrained(args.output_dir, dtype=torch.float16)
        model.save_pretrained(args.output_dir)


if __name__ == "__main__":
    main()
