"""How much faster is a training without padding? Against TRL's GRPOTrainer, in turns, with completions of all lengths.

    python benchmarks/padding.py
    python benchmarks/padding.py --means 4 --batches 8

Completions are given instead of generated. Their lengths are lognormal, as in mathematical RL: the longest has
`LONGEST` tokens, the mean is a share of that. A rollout is two optimizer steps, so TRL scores it once; without a score
it is one. On the CPU, processor seconds of one thread are counted, which do not depend on what else the machine does.
The ideal is how many positions TRL computes for each token that there is. Memory is the peak above a process that has
loaded the libraries; each training has a process of its own.
"""

import argparse
import math
import multiprocessing
import random
import resource
import tempfile
import time
from functools import partial
from itertools import product
from statistics import mean, median
from typing import Any

import torch
from datasets import Dataset
from torch.nn.utils import parameters_to_vector
from transformers import PrinterCallback, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

from steer_trl import SteerGRPOConfig, SteerGRPOTrainer
from steer_trl.tiny import tiny_qwen2, tiny_tokenizer

LONGEST, PROMPT, COMPLETIONS, VOCABULARY, STEPS = 512, 40, 128, 2048, 2
SIZES = {"hidden_size": 128, "intermediate_size": 384, "num_hidden_layers": 3, "vocab_size": VOCABULARY}
CLOCK = time.perf_counter if torch.cuda.is_available() else time.process_time


def lengths_of(share: int, seed: int) -> list[int]:
    """Lengths of the completions of a rollout, with a mean of `LONGEST / share`; 1: all are as long."""
    rng = random.Random(seed)
    if share == 1:
        return [LONGEST] * COMPLETIONS
    low, high = 0.0, float(LONGEST)
    normal = [rng.gauss(0, 0.7) for _ in range(COMPLETIONS - 1)]
    for _ in range(60):  # the median whose mean, cut at the longest, is the one asked for
        middle = (low + high) / 2
        lengths = [LONGEST, *(max(1, min(LONGEST, round(middle * math.exp(x)))) for x in normal)]
        low, high = (middle, high) if mean(lengths) < LONGEST / share else (low, middle)
    rng.shuffle(lengths)
    return lengths


def write(share: int, prompts: list[str], trainer: Any) -> dict[str, Any]:
    """Completions of random tokens in the place of a policy's."""
    step = trainer.state.global_step
    words = torch.Generator().manual_seed(step)
    ids = torch.randint(3, VOCABULARY, (len(prompts), LONGEST), generator=words).tolist()
    completions = [row[:length] for row, length in zip(ids, lengths_of(share, step), strict=True)]
    prompt_ids = [row[: random.Random(i // 8).randint(PROMPT // 2, PROMPT)] for i, row in enumerate(ids)]
    return {"prompt_ids": prompt_ids, "completion_ids": completions, "logprobs": None}


class Clock(TrainerCallback):
    """The seconds of a training."""

    def on_train_begin(self, *_: Any, **__: Any) -> None:
        """Begin."""
        self.began = CLOCK()

    def on_train_end(self, *_: Any, **__: Any) -> None:
        """End."""
        self.seconds = CLOCK() - self.began


def train(
    trainer_class: type[GRPOTrainer], share: int, batch: int, is_scored: bool, loss: str
) -> tuple[float, float, Any]:
    """Train one rollout or two; return the seconds, the peak of memory in MiB, and the final parameters."""
    before = peak()
    ours = {"advantage_shaping": "none", "skip_padding": True, "alarms": False, "diagnostics": False, "run_log": False}
    accumulation = COMPLETIONS // batch // (2 if is_scored else 1)
    clock = Clock()
    tokenizer = tiny_tokenizer()
    with tempfile.TemporaryDirectory() as folder:
        trainer = trainer_class(
            tiny_qwen2(tokenizer, **SIZES),
            reward_funcs=lambda completions, **_: [float(len(text) % 2) for text in completions],
            args=(SteerGRPOConfig if trainer_class is SteerGRPOTrainer else GRPOConfig)(
                folder,
                loss_type=loss,
                use_cpu=not torch.cuda.is_available(),
                bf16=False,
                optim="sgd",
                learning_rate=1e-2,
                max_steps=STEPS,
                num_generations=8,
                per_device_train_batch_size=batch,
                gradient_accumulation_steps=accumulation,
                steps_per_generation=COMPLETIONS // batch,
                max_completion_length=LONGEST,
                gradient_checkpointing=False,
                report_to="none",
                save_strategy="no",
                disable_tqdm=True,
                **(ours if trainer_class is SteerGRPOTrainer else {}),
            ),
            train_dataset=Dataset.from_dict({"prompt": ["x"] * 64}),
            processing_class=tokenizer,
            callbacks=[clock],
            rollout_func=partial(write, share),
        )
        trainer.remove_callback(PrinterCallback)
        trainer.train()
    return clock.seconds, peak() - before, parameters_to_vector(trainer.model.parameters()).detach().double().cpu()


def peak() -> float:
    """The most memory that this process has had, in MiB; the accelerator's where there is one."""
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated() / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


def in_a_process(*training: Any) -> tuple[float, float, Any]:
    """[`train`] in a process of its own, whose peak of memory is that of one training."""
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
        return train(*training)
    with multiprocessing.get_context("fork").Pool(1) as pool:
        return pool.apply(train, training)


def main() -> None:
    """Measure, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--means", nargs="+", type=int, default=[1, 2, 4, 8], help="longest through mean length")
    parser.add_argument("--batches", nargs="+", type=int, default=[1, 4, 8, 16], help="micro-batch sizes")
    parser.add_argument("--scored", nargs="+", choices=("yes", "no"), default=["yes", "no"], help="by TRL, or not")
    parser.add_argument("--losses", nargs="+", default=["dapo"])
    parser.add_argument("--turns", type=int, default=3)
    given = parser.parse_args()
    torch.set_num_threads(1)
    print(
        "| loss | longest / mean | micro-batch | score | TRL, s | times as fast | positions per token "
        "| TRL, MiB | without padding | difference |"
    )
    print("|---|--:|--:|---|--:|--:|--:|--:|--:|--:|")
    for loss, share, batch, score in product(given.losses, given.means, given.batches, given.scored):
        is_scored = score == "yes"
        turns = [
            [in_a_process(one, share, batch, is_scored, loss) for one in (GRPOTrainer, SteerGRPOTrainer)]
            for _ in range(given.turns)
        ]
        theirs, own = turns[0][0][2], turns[0][1][2]
        start = parameters_to_vector(tiny_qwen2(tiny_tokenizer(), **SIZES).parameters()).double()
        rollouts = [lengths_of(share, seed) for seed in range(1 if is_scored else STEPS)]
        tokens = mean(length for lengths in rollouts for length in lengths) + PROMPT * 0.75
        cells = [
            *(loss, str(share), str(batch), score, f"{median(t[0][0] for t in turns):.2f}"),
            f"{median(t[0][0] / t[1][0] for t in turns):.2f}",
            f"{(LONGEST + PROMPT) / tokens:.2f}",
            *(f"{median(turn[one][1] for turn in turns):.0f}" for one in (0, 1)),
            f"{(own - theirs).norm() / (theirs - start).norm():.0e}",
        ]
        print(f"| {' | '.join(cells)} |", flush=True)


if __name__ == "__main__":
    main()
