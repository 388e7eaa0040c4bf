r"""A tiny model that writes `\boxed{d}` with a random digit d from 2 to 6, and sums whose answer has one digit.

About a fifth of its answers are right, so that groups have a signal, and its entropy can fall.
"""

import random
from pathlib import Path
from typing import Any

import torch

from steer_trl.data.instructions import INSTRUCTIONS, add_instruction
from steer_trl.demo.tiny import tiny_qwen2, tiny_tokenizer

STEPS = 40


def problems(split: str) -> list[dict[str, Any]]:
    """Return the sums of a split."""
    pairs = [(i, j) for i in range(5) for j in range(5)]
    random.Random(0).shuffle(pairs)
    of_split = {"train": pairs[:16], "validation": pairs[16:17], "test": pairs[17:]}[split]
    return [
        {"id": f"{split}-{place}", "problem": f"{i}+{j}=?", "solution": str(i + j)}
        for place, (i, j) in enumerate(of_split)
    ]


def make_model(folder: Path) -> Path:
    """Save the model and its tokenizer in a folder, unless they are there, and return the folder."""
    if folder.exists():
        return folder
    torch.set_num_threads(1)
    tokenizer = tiny_tokenizer()
    # vLLM's CPU build wants heads of 32 numbers or more.
    model = tiny_qwen2(tokenizer, hidden_size=128, num_attention_heads=2, num_key_value_heads=1)
    optimizer = torch.optim.AdamW(model.parameters(), lr=3e-3)
    dice = random.Random(0)
    asked = [add_instruction(row["problem"], INSTRUCTIONS["boxed"]) for row in problems("train")]
    prompts = [
        tokenizer.apply_chat_template([{"role": "user", "content": text}], tokenize=False, add_generation_prompt=True)
        for text in asked
    ]
    for _ in range(STEPS):
        rows = [
            f"{prompt}\\boxed{{{dice.randrange(2, 7)}}}{tokenizer.eos_token}" for prompt in dice.choices(prompts, k=8)
        ]
        batch = tokenizer(rows, return_tensors="pt", padding=True)
        labels = batch["input_ids"].masked_fill(batch["attention_mask"] == 0, -100)
        labels[:, : labels.size(1) - 10] = -100
        model(**batch, labels=labels).loss.backward()
        optimizer.step()
        optimizer.zero_grad()
    part = folder.with_suffix(".part")
    tokenizer.save_pretrained(part)
    model.save_pretrained(part)
    return part.rename(folder)
