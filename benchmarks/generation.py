"""Measures how much faster completions are generated than with the loop of Transformers' `generate`, without vLLM.

    python benchmarks/generation.py                                       generate completions of random lengths
    python benchmarks/generation.py --train FOLDER --tokens 150000        train in the demonstration's folder FOLDER

The first command generates with a model of random weights whose completions end at random. They have geometric
lengths, whose mean is a given share of the longest, `LONGEST` tokens. Both loops draw the same random numbers, so they
write the same completions. The columns are processor seconds of one thread in user mode, tokens that the model
computes after the prompts for each token that is written, and peak memory above that of a process with the libraries
loaded.

The second command trains with a recipe of the demonstration. FOLDER has its problems and the model that it starts
from, as `steer-trl demo` writes them. For the *long* regime of `experiments/dial`, the model comes from

    python -m steer_trl.demo.start_model --steps 500 --seed 41 --output_dir FOLDER/start

Each generation of the training runs with both loops, in turns and from the same random state, so both are timed on the
same work under the same load. The training's speed with either loop is that of the rest and of this loop together.

    python benchmarks/generation.py --train FOLDER --whole                       time the training as it is
    PYTHONPATH=VERSION python benchmarks/generation.py --train FOLDER --whole    the same with another version

These two, in turns, compare whole trainings of two versions of the package.
"""

import argparse
import json
import multiprocessing
import os
import resource
from collections.abc import Callable
from copy import deepcopy
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple
from unittest.mock import patch

import torch
from torch import Tensor
from transformers import GenerationConfig

import steer_trl
from steer_trl import SteerGRPOTrainer
from steer_trl.cli.train import main as train_command

LONGEST, GROUPS, GROUP, PROMPT, VOCABULARY = 512, 8, 8, 64, 2048
SIZES = {"hidden_size": 128, "intermediate_size": 384, "num_hidden_layers": 3, "vocab_size": VOCABULARY}


class Generated(NamedTuple):
    """The measurements of one generation."""

    seconds: float
    computed: float
    mean_length: float
    mebibytes: float
    tokens: list[list[int]]


def now() -> float:
    """Return the processor seconds of this process in user mode."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_utime


def peak() -> float:
    """Return the most memory that this process has held, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**10


def in_a_process(function: Callable[..., Any], *arguments: Any) -> Any:
    """Call the `function` in a process of its own, so that its time and memory belong to it alone."""
    with multiprocessing.get_context("fork").Pool(1) as pool:
        return pool.apply(function, arguments)


@torch.no_grad()
def generate(share: int, has_loop: bool) -> Generated:
    """Generate completions with a mean of `LONGEST / share` tokens, with this package's loop or Transformers'."""
    from steer_trl.demo.tiny import tiny_qwen2, tiny_tokenizer

    tokenizer = tiny_tokenizer()
    model = tiny_qwen2(tokenizer, **SIZES).eval()
    ids = torch.randint(3, VOCABULARY, (GROUPS, PROMPT), generator=torch.Generator().manual_seed(0))
    ids = ids.repeat_interleave(GROUP, dim=0)
    # All tokens of a model with random weights are about equally likely, and the bias makes the end more so.
    end = share / LONGEST
    bias = torch.tensor(end / (1 - end) * (VOCABULARY - 1)).log().item()
    settings = GenerationConfig(
        max_new_tokens=LONGEST,
        do_sample=True,
        top_k=0,
        pad_token_id=tokenizer.pad_token_id,
        eos_token_id=tokenizer.eos_token_id,
        sequence_bias=[[[tokenizer.eos_token_id], bias]],
        disable_compile=True,
    )
    rows = [0]

    def count(_model: Any, _args: Any, kwargs: dict[str, Any]) -> None:
        rows[0] += len(kwargs["input_ids"]) if kwargs["input_ids"].size(1) == 1 else 0

    model.get_decoder().register_forward_pre_hook(count, with_kwargs=True)
    from steer_trl.generation.decoding import decode

    loop = {"custom_generate": decode} if has_loop else {}
    torch.manual_seed(0)
    memory = peak()
    before = now()
    written = model.generate(ids, attention_mask=torch.ones_like(ids), generation_config=settings, **loop)
    seconds = now() - before
    completions = written[:, PROMPT:]
    # The padding token may be written as well, so a completion is counted up to its end.
    ends = completions == tokenizer.eos_token_id
    lengths = torch.where(ends.any(1), ends.int().argmax(1) + 1, completions.size(1))
    total = int(lengths.sum())
    # The first token of each completion comes from its prompt.
    return Generated(seconds, rows[0] / (total - len(ids)), total / len(ids), peak() - memory, completions.tolist())


def print_generations(shares: list[int], turns: int) -> None:
    """Print a table of generations."""
    print(
        "| longest / mean | mean length | generate, s | ours, s | times as fast | tokens computed for each token: "
        "generate | ours | generate, MiB | ours | rows that differ |"
    )
    print("|--:" * 10 + "|")
    for share in shares:
        pairs = [[in_a_process(generate, share, has_loop) for has_loop in (False, True)] for _ in range(turns)]
        theirs, ours = pairs[0]
        differing = sum(one != other for one, other in zip(theirs.tokens, ours.tokens, strict=True))
        cells = [
            str(share),
            f"{ours.mean_length:.0f}",
            *(f"{median(pair[i].seconds for pair in pairs):.2f}" for i in (0, 1)),
            f"{median(a.seconds / b.seconds for a, b in pairs):.2f}",
            *(f"{one.computed:.2f}" for one in (theirs, ours)),
            *(f"{median(pair[i].mebibytes for pair in pairs):.0f}" for i in (0, 1)),
            str(differing),
        ]
        print(f"| {' | '.join(cells)} |", flush=True)


# A training.


class BothLoops:
    """Generates with both loops in turns, from the same random state, and adds up the seconds of each."""

    def __init__(self) -> None:
        self.seconds = {"generate": 0.0, "ours": 0.0}
        self.differing = 0
        self.completions = 0
        self._order = ["generate", "ours"]

    def __call__(self, model: Any, input_ids: Tensor, **arguments: Any) -> Tensor:
        """Return the completions of this package's loop, which has the arguments of `decode`."""
        # Imported here because --whole also runs earlier versions of the package, which have no such module.
        from steer_trl.generation.decoding import decode

        loops = {"generate": partial(type(model)._sample, model), "ours": partial(decode, model)}
        state = torch.get_rng_state()
        self._order.reverse()
        written = {}
        for name in self._order:
            torch.set_rng_state(state)
            own = deepcopy(arguments)
            before = now()
            written[name] = loops[name](input_ids, **own)
            self.seconds[name] += now() - before
        theirs, ours = (written[name] for name in ("generate", "ours"))
        width = min(theirs.size(1), ours.size(1))
        self.differing += int((theirs[:, :width] != ours[:, :width]).any(1).sum())
        self.completions += len(ours)
        return ours


def train(folder: Path, recipe: str, tokens: int) -> tuple[int, float]:
    """Train in `folder`. Return the number of tokens that were generated, and the seconds of the training."""
    os.chdir(folder)
    begin: list[float] = []
    init_training_state = SteerGRPOTrainer._init_training_state

    def begin_training(self: SteerGRPOTrainer, *args: Any, **kwargs: Any) -> Any:
        begin.append(now())
        return init_training_state(self, *args, **kwargs)

    output = f"generation_{os.getpid()}"
    words = ["--config", recipe, "--output_dir", output, "--max_generated_tokens", str(tokens)]
    with patch.object(SteerGRPOTrainer, "_init_training_state", begin_training):
        train_command([*words, "--save_strategy", "no"])
    seconds = now() - begin[0]
    lines = Path(output, "_logs/metrics.jsonl").read_text().splitlines()
    return int(max(json.loads(line).get("generated_tokens", 0) for line in lines)), seconds


def print_whole_training(folder: Path, recipe: str, tokens: int) -> None:
    """Train in `folder`, and print the time."""
    generated, seconds = train(folder, recipe, tokens)
    print("| package | tokens | s | tokens per second |")
    print("|---|--:|--:|--:|")
    version = Path(steer_trl.__file__).parents[1]
    print(f"| {version} | {generated} | {seconds:.2f} | {generated / seconds:.0f} |")


def print_training(folder: Path, recipe: str, tokens: int) -> None:
    """Train in `folder`, and print how much faster the training is."""
    from steer_trl.generation import faster

    loops = BothLoops()
    with patch.object(faster, "decode", loops):
        generated, seconds = train(folder, recipe, tokens)
    rest = seconds - sum(loops.seconds.values())
    speeds = [generated / (rest + loops.seconds[name]) for name in ("generate", "ours")]
    print(
        "| tokens | rest, s | generate, s | ours, s | times as fast | training: tokens per second | ours "
        "| times as fast | completions that differ |"
    )
    print("|--:" * 9 + "|")
    cells = [str(generated), *(f"{x:.2f}" for x in (rest, *loops.seconds.values()))]
    cells += [f"{loops.seconds['generate'] / loops.seconds['ours']:.2f}", *(f"{speed:.0f}" for speed in speeds)]
    cells += [f"{speeds[1] / speeds[0]:.2f}", f"{loops.differing} of {loops.completions}"]
    print(f"| {' | '.join(cells)} |")


def main() -> None:
    """Generate or train, and print a table."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--shares", nargs="+", type=int, default=[2, 4, 8])
    parser.add_argument("--turns", type=int, default=3, help="pairs of generations, of which the median is printed")
    parser.add_argument("--train", type=Path, help="folder of the demonstration")
    parser.add_argument("--config", default="demo_held", help="recipe of the training")
    parser.add_argument("--tokens", type=int, default=150_000)
    parser.add_argument("--whole", action="store_true", help="time the training as it is, with one loop")
    given = parser.parse_args()
    torch.set_num_threads(1)
    if given.train is None:
        print_generations(given.shares, given.turns)
    elif given.whole:
        print_whole_training(given.train, given.config, given.tokens)
    else:
        print_training(given.train, given.config, given.tokens)


if __name__ == "__main__":
    main()
