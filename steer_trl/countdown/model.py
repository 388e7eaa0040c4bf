"""A Qwen2 of 0.36 million parameters, made from scratch and started by supervised learning on random solutions."""

from collections.abc import Sequence
from pathlib import Path

from datasets import Dataset
from transformers import PrinterCallback, TrainerCallback
from trl import SFTConfig, SFTTrainer

from steer_trl.countdown.task import CHARACTERS, solved_examples
from steer_trl.tiny import tiny_qwen2, tiny_tokenizer


def supervised_start(
    output_dir: str | Path, steps: int, prompts: list[str], callbacks: Sequence[TrainerCallback] = (), seed: int = 0
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
            logging_strategy="no",
        ),
        train_dataset=Dataset.from_list(solved_examples(steps * batch_size, prompts)),
        processing_class=tokenizer,
        callbacks=list(callbacks),
    )
    trainer.remove_callback(PrinterCallback)
    trainer.train()
    trainer.save_model()
