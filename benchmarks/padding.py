"""Measures how much of a training run is padding, and how much faster training is without it than with TRL.

    python benchmarks/padding.py                                                  count positions for each token
    python benchmarks/padding.py --train --means 4 --batches 8 --prompts chat     train, and compare with TRL
    python benchmarks/padding.py --before FOLDER                                  compare with an older version

Completions are given instead of generated. Their lengths are lognormal, as in mathematical RL, with a given mean.
`LENGTHS` has the longest. Prompts are short, as long as in a chat, or in a fixed ratio to the longest completion.

Positions for each token are counted from the lengths alone, without a model or a clock. The number is 1 if each prompt
of a step is computed once, and each completion, without any padding. *TRL, cut* is the plan of huggingface/trl#7179,
in which each micro-batch is padded to its own longest row. *In TRL's order* is this package without any exchange of
rows. With several ranks, the number is the slowest rank's positions divided by the mean of the ranks' tokens, because
all ranks wait for the slowest one in each step.

With `--train`, TRL's trainer and this package's take turns. The script measures the processor seconds of one thread in
user mode, which depend little on the machine's other work, and the operations (`FlopCounterMode`), which do not depend
on it at all. It also measures the peak memory above that of a process with the libraries loaded, and the difference
between the two updates. A rollout of 128 completions (`--completions`) is trained on in two optimizer steps
(`--rollout_steps`), so that TRL computes its log-probabilities beforehand, which it does not before a single step. The
first rollout is trained on but not measured, because the package compares one of its passes with TRL's.

With `--before`, the other version is the package in `FOLDER`, a checkout of it. The two versions take turns. The rows
of the two tables with which they are compared are

    python benchmarks/padding.py --before FOLDER --turns 5 --means 4 8 --batches 8 --prompts short
    python benchmarks/padding.py --before FOLDER --turns 5 --means 4 --batches 8 --prompts chat
    python benchmarks/padding.py --before FOLDER --turns 5 --means 4 --batches 16 --prompts short
    python benchmarks/padding.py --before FOLDER --turns 5 --means 1 --batches 8 --prompts 4:1 1:1 1:8 \
        --rollout_steps 1 --completions 32

README's script has the rollout of

    python benchmarks/padding.py --before FOLDER --turns 5 --means 2 --batches 8 --prompts script --rollout_steps 4 \
        --completions 512 --steps 4
"""

import argparse
import math
import multiprocessing
import os
import random
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from functools import cache, partial
from itertools import product
from pathlib import Path
from statistics import mean, median
from typing import Any, NamedTuple

import torch
from datasets import Dataset
from torch.nn.utils import parameters_to_vector
from torch.utils.flop_counter import FlopCounterMode
from transformers import PrinterCallback, TrainerCallback
from trl import GRPOConfig, GRPOTrainer

import steer_trl
from steer_trl import SteerGRPOConfig, SteerGRPOTrainer

try:
    from steer_trl.demo.tiny import tiny_qwen2, tiny_tokenizer
except ImportError:
    # An earlier version, given by --before.
    from steer_trl.tiny import tiny_qwen2, tiny_tokenizer  # type: ignore[no-redef]

COMPLETIONS, VOCABULARY, STEPS, GROUP = 128, 2048, 2, 8
SIZES = {"hidden_size": 128, "intermediate_size": 384, "num_hidden_layers": 3, "vocab_size": VOCABULARY}
LENGTHS = {
    **{"short": (30, 512), "chat": (256, 512), "script": (128, 256)},
    **{"4:1": (1024, 256), "1:1": (256, 256), "1:8": (64, 512)},
}
"""The lengths of prompts and of the longest completion, by the kind of the prompts. Prompts that are short, as in a
chat or as in a script for mathematics, differ in length.
"""
HIDDEN = 1536
"""The hidden size, that of Qwen2.5-1.5B, for which positions are counted."""
DRAWS = 10
"""The number of random steps over which the counted positions are averaged."""


class Training(NamedTuple):
    """The measurements of a training run. Its operations are 0 unless they were counted."""

    seconds: float
    mebibytes: float
    parameters: Any
    operations: int
    tokens: int
    positions: int


def now() -> float:
    """Return the processor seconds in user mode, or, with a GPU, the wall-clock seconds."""
    if torch.cuda.is_available():
        torch.cuda.synchronize()
        return time.perf_counter()
    return resource.getrusage(resource.RUSAGE_SELF).ru_utime


def lognormal(count: int, longest: int, share: int, rng: random.Random, least: int = 1) -> list[int]:
    """Return lengths with a mean of `longest / share`, of which one is `longest`. With a share of 1, all are."""
    if share == 1:
        return [longest] * count
    low, high = 0.0, float(longest)
    normal = [rng.gauss(0, 0.7) for _ in range(count - 1)]
    # Find the median with which the mean has the requested value after lengths are cut to the longest.
    for _ in range(60):
        middle = (low + high) / 2
        lengths = [longest, *(max(least, min(longest, round(middle * math.exp(x)))) for x in normal)]
        low, high = (middle, high) if mean(lengths) < longest / share else (low, middle)
    rng.shuffle(lengths)
    return lengths


@cache
def draw_lengths(count: int, share: int, prompts: str, seed: int) -> tuple[list[int], list[int]]:
    """Return the lengths of prompts and completions. Each prompt has a group of `GROUP` completions."""
    rng = random.Random(seed)
    prompt, longest = LENGTHS[prompts]
    completions = lognormal(count, longest, share, rng)
    groups = max(count // GROUP, 1)
    of_groups = [prompt] * groups
    if prompts == "short":
        of_groups = [rng.randint(prompt - 10, prompt + 10) for _ in range(groups)]
    elif prompts in ("chat", "script"):
        of_groups = lognormal(groups, prompt, 3, rng, 24)
    return [of_groups[row // GROUP] for row in range(count)], completions


# Positions.


def count_positions(rows: int, ranks: int, batch: int, share: int, prompts: str) -> list[float]:
    """Return positions for each token: TRL, TRL's micro-batches cut, this package in TRL's order and in its own."""
    # Imported here because --before also runs earlier versions of the package, which have no such modules.
    from steer_trl.trainer.forward.arrangement import Row, arrange
    from steer_trl.trainer.forward.cost import Cost

    cost = Cost(HIDDEN)
    found = []
    for seed in range(DRAWS):
        of_prompts, of_completions = draw_lengths(rows * ranks, share, prompts, seed)
        order = list(range(rows * ranks))
        random.Random(seed).shuffle(order)
        step = [Row(i // GROUP, of_prompts[i], of_completions[i]) for i in order]

        def area(places: range, step: list[Any] = step) -> int:
            return len(places) * (max(step[i].prompt_length for i in places) + max(step[i].length for i in places))

        def packed(places: Sequence[int], step: list[Any] = step) -> int:
            groups: dict[int, list[Any]] = {}
            for i in places:
                groups.setdefault(step[i].prompt, []).append(step[i])
            total = 0
            for own in groups.values():
                prompt = own[0].prompt_length
                lengths = [row.length for row in own]
                is_shared = len(own) > 1 and cost.of_shared(prompt, lengths) < cost.of_rows(prompt, lengths)
                total += sum(lengths) + (prompt - 1 + len(own) if is_shared else prompt * len(own))
            return total

        split = [range(rank * rows, (rank + 1) * rows) for rank in range(ranks)]
        batches = [[own[begin : begin + batch] for begin in range(0, rows, batch)] for own in split]
        arranged = arrange(step, ranks, rows // batch, cost, is_packed=True) or batches
        ideal = (sum(of_completions) + sum(of_prompts[::GROUP])) / ranks
        counts = [max(map(area, split)), max(sum(map(area, own)) for own in batches)]
        counts += [max(sum(map(packed, own)) for own in of_ranks) for of_ranks in (batches, arranged)]
        found.append([count / ideal for count in counts])
    return [mean(column) for column in zip(*found, strict=True)]


def print_positions(means: list[int], batches: list[int], prompts: list[str]) -> None:
    """Print a table of positions for each token."""
    print(
        "| prompts | mean | completions of a step and rank | ranks | micro-batch | TRL | TRL, cut | in TRL's order "
        "| ours |"
    )
    print("|---|--:|--:|--:|--:|--:|--:|--:|--:|")
    for kind, share, rows, ranks, batch in product(prompts, means, (16, 32, 64, 128), (1, 2, 8), batches):
        if batch <= rows:
            cells = [f"{x:.2f}" for x in count_positions(rows, ranks, batch, share, kind)]
            print(f"| {kind} | 1/{share} | {rows} | {ranks} | {batch} | {' | '.join(cells)} |", flush=True)


# A training.


def write(share: int, kind: str, prompts: list[str], trainer: Any) -> dict[str, Any]:
    """Return completions of random tokens, instead of generating them with the policy."""
    step = trainer.state.global_step
    words = torch.Generator().manual_seed(step)
    ids = torch.randint(3, VOCABULARY, (len(prompts), max(LENGTHS[kind])), generator=words).tolist()
    of_prompts, of_completions = draw_lengths(len(prompts), share, kind, step)
    completion_ids = [row[:length] for row, length in zip(ids, of_completions, strict=True)]
    prompt_ids = [ids[i // GROUP * GROUP][:length] for i, length in enumerate(of_prompts)]
    return {"prompt_ids": prompt_ids, "completion_ids": completion_ids, "logprobs": None}


class Meter(TrainerCallback):
    """Measures by how much each number that `read` returns grows in training, after the `first` steps."""

    def __init__(self, first: int, read: Callable[[], list[Any]]) -> None:
        self.first = first
        self.read = read

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> None:
        """Read the numbers after the first steps."""
        if state.global_step == self.first:
            self.before = self.read()

    def on_train_end(self, *_: Any, **__: Any) -> None:
        """Compute the growth of the numbers when training ends."""
        self.grown = [after - before for before, after in zip(self.before, self.read(), strict=True)]


def train(
    trainer_class: type[GRPOTrainer],
    share: int,
    batch: int,
    rollout_steps: int,
    loss: str,
    prompts: str = "short",
    counts: bool = False,
    steps: int = STEPS,
    completions: int = COMPLETIONS,
) -> Training:
    """Train for one rollout, and then for `steps` measured steps, a multiple of `rollout_steps`.

    With `counts`, operations are counted, which makes training slower.
    """
    before = peak()
    ours = {"advantage_shaping": "none", "skip_padding": True, "alarms": False, "diagnostics": False, "run_log": False}
    accumulation = completions // batch // rollout_steps
    operations = FlopCounterMode(display=False) if counts else None
    seen = [0]
    meter = Meter(rollout_steps, lambda: [now(), operations.get_total_flops() if operations else 0, seen[0]])
    tokenizer = tiny_tokenizer()
    with tempfile.TemporaryDirectory() as folder:
        with torch.device("cuda" if torch.cuda.is_available() else "cpu"):
            model = tiny_qwen2(tokenizer, **SIZES)
        trainer = trainer_class(
            model,
            reward_funcs=lambda completions, **_: [float(len(text) % 2) for text in completions],
            args=(SteerGRPOConfig if trainer_class is SteerGRPOTrainer else GRPOConfig)(
                folder,
                loss_type=loss,
                use_cpu=not torch.cuda.is_available(),
                bf16=torch.cuda.is_available(),
                optim="sgd",
                learning_rate=1e-2,
                max_steps=rollout_steps + steps,
                num_generations=GROUP,
                per_device_train_batch_size=batch,
                gradient_accumulation_steps=accumulation,
                steps_per_generation=completions // batch,
                max_completion_length=LENGTHS[prompts][1],
                gradient_checkpointing=False,
                report_to="none",
                save_strategy="no",
                disable_tqdm=True,
                **(ours if trainer_class is SteerGRPOTrainer else {}),
            ),
            train_dataset=Dataset.from_dict({"prompt": ["x"] * 64}),
            processing_class=tokenizer,
            callbacks=[meter],
            rollout_func=partial(write, share, prompts),
        )
        trainer.remove_callback(PrinterCallback)

        def count(_model: Any, _args: Any, kwargs: dict[str, Any]) -> None:
            seen[0] += kwargs["input_ids"].numel()

        trainer.model.get_decoder().register_forward_pre_hook(count, with_kwargs=True)
        with operations or torch.enable_grad():
            trainer.train()
    seeds = range(rollout_steps, rollout_steps + steps, rollout_steps)
    # Before several steps, TRL computes the rollout's log-probabilities in one more pass.
    passes = 1 if rollout_steps == 1 else 2
    tokens = passes * sum(sum(map(sum, draw_lengths(completions, share, prompts, seed))) for seed in seeds)
    parameters = parameters_to_vector(trainer.model.parameters()).detach().double().cpu()
    seconds, total, positions = meter.grown
    return Training(seconds, peak() - before, parameters, total, tokens, positions)


def peak() -> float:
    """Return the most memory that this process has held, in MiB; with a GPU, its memory."""
    if torch.cuda.is_available():
        return torch.cuda.max_memory_allocated() / 2**20
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


def in_a_process(*training: Any) -> Training:
    """Run [`train`] in a process of its own, so that its peak memory belongs to this run alone."""
    if torch.cuda.is_available():
        torch.cuda.reset_peak_memory_stats()
        return train(*training)
    with multiprocessing.get_context("fork").Pool(1) as pool:
        return pool.apply(train, training)


class OtherVersion:
    """A process that has imported the package in `folder`, and trains with it.

    It stays, since importing the libraries takes as long as a short training.
    """

    def __init__(self, folder: Path) -> None:
        self._has_ended, has_ended = os.pipe()
        code = "import os, sys, torch, padding\ntorch.set_num_threads(1)\n"
        code += f"assert padding.is_package_in({str(folder)!r})\n"
        code += "for line in sys.stdin:\n"
        code += "    training = padding.in_a_process(padding.SteerGRPOTrainer, *torch.load(line.strip()))\n"
        code += "    torch.save(tuple(training), line.strip())\n"
        code += f"    os.write({has_ended}, b'.')"
        paths = os.pathsep.join([str(folder), str(Path(__file__).parent)])
        self._process = subprocess.Popen(
            [sys.executable, "-c", code],
            cwd=folder,
            env=os.environ | {"PYTHONPATH": paths},
            stdin=subprocess.PIPE,
            stdout=subprocess.DEVNULL,
            text=True,
            pass_fds=[has_ended],
        )
        os.close(has_ended)

    def train(self, *case: Any) -> Training:
        """Run [`train`] with the other version, in a process of its own."""
        assert self._process.stdin is not None
        with tempfile.NamedTemporaryFile() as file:
            torch.save(case, file.name)
            self._process.stdin.write(f"{file.name}\n")
            self._process.stdin.flush()
            # Without an answer, the process has died.
            if not os.read(self._has_ended, 1):
                raise RuntimeError("the training with the other version failed")
            return Training(*torch.load(file.name))


def is_package_in(folder: str) -> bool:
    """Return whether the imported package is the one in `folder`."""
    return Path(steer_trl.__file__).parents[1] == Path(folder).resolve()


def print_before(given: argparse.Namespace) -> None:
    """Print a table that compares training with this version and with the one in another folder."""
    print(
        "| loss | prompts | longest / mean | micro-batch | before, s | now, s | times as fast | of operations "
        "| positions for each token: before | now | MiB before | now |"
    )
    print("|---|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|--:|", flush=True)
    cases = product(given.losses, given.prompts, given.means, given.batches, given.rollout_steps)
    other = OtherVersion(given.before)
    size = (given.steps, given.completions)
    for loss, prompts, share, batch, rollout_steps in cases:
        case = (share, batch, rollout_steps, loss, prompts)
        turns = []
        for _ in range(given.turns):
            before = other.train(*case, False, *size)
            turns.append((before, in_a_process(SteerGRPOTrainer, *case, False, *size)))
        ratios = [before.seconds / now.seconds for before, now in turns]
        operations = math.nan
        if given.operations:
            counted = other.train(*case, True, *size)
            operations = counted.operations / in_a_process(SteerGRPOTrainer, *case, True, *size).operations
        cells = [*(loss, prompts, str(share), str(batch))]
        cells += [f"{median(turn[one].seconds for turn in turns):.2f}" for one in (0, 1)]
        cells += [f"{median(ratios):.2f} ({min(ratios):.2f} to {max(ratios):.2f})", f"{operations:.2f}"]
        cells += [f"{one.positions / one.tokens:.2f}" for one in turns[0]]
        cells += [f"{median(turn[one].mebibytes for turn in turns):.0f}" for one in (0, 1)]
        print(f"| {' | '.join(cells)} |", flush=True)


def print_trainings(given: argparse.Namespace) -> None:
    """Print a table that compares training with this package and with TRL."""
    print(
        "| loss | prompts | longest / mean | micro-batch | steps of a rollout | TRL, s | times as fast "
        "| of operations | ideal | positions for each token: TRL | ours | TRL, MiB | ours | difference |"
    )
    print("|---|---|--:|--:|---|--:|--:|--:|--:|--:|--:|--:|--:|--:|")
    start = parameters_to_vector(tiny_qwen2(tiny_tokenizer(), **SIZES).parameters()).double()
    cases = product(given.losses, given.prompts, given.means, given.batches, given.rollout_steps)
    for loss, prompts, share, batch, rollout_steps in cases:
        case = (share, batch, rollout_steps, loss, prompts)
        trainers = (GRPOTrainer, SteerGRPOTrainer)
        size = (given.steps, given.completions)
        turns = [[in_a_process(one, *case, False, *size) for one in trainers] for _ in range(given.turns)]
        theirs, own = (in_a_process(one, *case, True, *size) for one in trainers)
        difference = (own.parameters - theirs.parameters).norm() / (theirs.parameters - start).norm()
        cells = [
            *(loss, prompts, str(share), str(batch), str(rollout_steps), f"{median(a.seconds for a, _ in turns):.2f}"),
            f"{median(a.seconds / b.seconds for a, b in turns):.2f}",
            f"{theirs.operations / own.operations:.2f}",
            f"{theirs.positions / theirs.tokens:.2f}",
            *(f"{one.positions / one.tokens:.2f}" for one in (theirs, own)),
            *(f"{median(turn[one].mebibytes for turn in turns):.0f}" for one in (0, 1)),
            f"{difference:.0e}",
        ]
        print(f"| {' | '.join(cells)} |", flush=True)


def main() -> None:
    """Count positions or train, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--train", action="store_true", help="train, instead of counting positions")
    parser.add_argument("--before", type=Path, metavar="FOLDER", help="train against the package in this folder")
    parser.add_argument("--means", nargs="+", type=int, default=[2, 4, 8], help="longest over mean length")
    parser.add_argument("--batches", nargs="+", type=int, default=[1, 4, 8, 16], help="micro-batch sizes")
    parser.add_argument("--prompts", nargs="+", choices=LENGTHS, default=["short", "chat"])
    parser.add_argument("--rollout_steps", nargs="+", type=int, default=[2], help="optimizer steps of a rollout")
    parser.add_argument("--losses", nargs="+", default=["dapo"])
    parser.add_argument("--operations", action="store_true", help="count the operations, in one more pair")
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--steps", type=int, default=STEPS, help="measured steps of a training, an even number")
    parser.add_argument("--completions", type=int, default=COMPLETIONS, help="completions of a rollout")
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.before is not None:
        print_before(given)
    elif given.train:
        print_trainings(given)
    else:
        print_positions(given.means, given.batches, given.prompts)


if __name__ == "__main__":
    main()
