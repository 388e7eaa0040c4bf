"""A Qwen2 model with 0.36 million parameters, trained from scratch by supervised learning on random solutions.

python -m steer_trl.demo.start_model --output_dir runs/start
"""

from dataclasses import dataclass, field
from pathlib import Path

import torch
from datasets import Dataset
from transformers import AutoModelForCausalLM
from trl import SFTConfig, SFTTrainer, TrlParser

from steer_trl.demo.puzzle import CHARACTERS, START_STEPS, solved_examples
from steer_trl.demo.tiny import tiny_qwen2, tiny_tokenizer
from steer_trl.monitoring.run_log import RunLog, describe_run

BATCH_SIZE = 64


@dataclass
class StartArguments:
    """The arguments of the supervised training. Reinforcement learning starts from the trained model."""

    output_dir: str = field(metadata={"help": "Folder that the model is saved in."})
    steps: int = field(default=START_STEPS, metadata={"help": f"Optimizer steps of {BATCH_SIZE} solved examples."})
    seed: int = field(
        default=0, metadata={"help": "Seed of the first weights, of the training and of its examples, which differ."}
    )
    logging_steps: int = field(default=10, metadata={"help": "Optimizer steps between two lines of the log."})
    half_precision: bool = field(
        default=False, metadata={"help": "Whether to save the model in float16, which halves its file."}
    )


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
    # Transformers annotates dataclasses as a type of its own.
    (args,) = TrlParser((StartArguments,)).parse_args_and_config()  # type: ignore[arg-type]
    supervised_start(args.output_dir, args.steps, args.seed, args.logging_steps)
    if args.half_precision:
        model = AutoModelForCausalLM.from_pretrained(args.output_dir, dtype=torch.float16)
        model.save_pretrained(args.output_dir)


if __name__ == "__main__":
    main()
