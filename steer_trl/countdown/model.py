"""A Qwen2 of 0.36 million parameters, made from scratch and started by supervised learning on random solutions.

python -m steer_trl.countdown.model --output_dir runs/start
"""

import json
from dataclasses import dataclass, field
from pathlib import Path

from datasets import Dataset
from trl import SFTConfig, SFTTrainer

from steer_trl.cli.parser import RecipeParser
from steer_trl.countdown.evaluation import MEASURED, measure_saved
from steer_trl.countdown.task import CHARACTERS, solved_examples, split_problems
from steer_trl.tiny import tiny_qwen2, tiny_tokenizer


@dataclass
class StartArguments:
    """Sizes of the supervised start."""

    output_dir: str = field(metadata={"help": "Folder that the model is saved in."})
    steps: int = field(default=1100, metadata={"help": "Optimizer steps of 64 solved examples."})
    held_out: int = field(default=400, metadata={"help": "Problems to judge on, of which no example is made."})
    logging_steps: int = field(default=50, metadata={"help": "Optimizer steps between two lines of the log."})
    seed: int = field(default=0, metadata={"help": "Seed of the model's first weights and of the training."})


def supervised_start(
    output_dir: str | Path, steps: int, prompts: list[str], seed: int = 0, logging_steps: int = 1
) -> None:
    """Train the model for `steps` batches of 64 solved examples of `prompts` and save it, with its tokenizer."""
    batch_size = 64
    tokenizer = tiny_tokenizer(CHARACTERS)
    model = tiny_qwen2(
        tokenizer, seed, hidden_size=96, intermediate_size=288, num_hidden_layers=3, num_key_value_heads=4
    )
    trainer = SFTTrainer(
        model,
        SFTConfig(
            output_dir=str(output_dir),
            max_steps=steps,
            per_device_train_batch_size=batch_size,
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
        train_dataset=Dataset.from_list(solved_examples(steps * batch_size, prompts)),
        processing_class=tokenizer,
    )
    trainer.train()
    trainer.save_model()


if __name__ == "__main__":
    (args,) = RecipeParser((StartArguments,)).parse_args_and_config()
    supervised_start(args.output_dir, args.steps, split_problems(args.held_out)[1], args.seed, args.logging_steps)
    measured = measure_saved(args.output_dir, args.held_out)
    Path(args.output_dir, MEASURED).write_text(json.dumps(measured, indent=1))
