"""Draws samples, judges them and records them, for the command line and for the trainer.

Every batch of samples has fixed contents and its own seed, so a resumed evaluation draws the same
samples as an uninterrupted one. Ranks take batches in turn, and the first rank writes the judged
samples to the folder of the evaluation.
"""

import random
from collections.abc import Callable, Mapping, Sequence
from itertools import groupby
from typing import Any, NamedTuple

from accelerate import PartialState
from accelerate.utils import broadcast_object_list, gather_object
from tqdm import tqdm

from steer_trl.evaluation.benchmarks import Benchmark, limit_greedy_samples
from steer_trl.evaluation.judges import Judge, make_judge
from steer_trl.evaluation.records import Records, SampleRecord
from steer_trl.evaluation.sampling import Generator, Sampling
from steer_trl.rewards import MathReward
from steer_trl.rewards.math_reward import Verdict


class Request(NamedTuple):
    """A sample to be drawn.

    `sample` is its number among the samples of the problem, from 0. `row` is the problem's row in the
    data set.
    """

    benchmark: str
    id: str
    sample: int
    row: Mapping[str, Any]


def evaluate(
    benchmarks: Sequence[Benchmark],
    generate: Generator,
    judge: MathReward | Callable[..., Any],
    sampling: Sampling,
    batch_size: int,
    records: Records | None = None,
    desc: str = "Evaluating",
) -> list[SampleRecord]:
    """Draw and judge the samples of all problems. Collective.

    Args:
        judge: decides which completions are correct. It is a `MathReward` or a reward function,
            whose reward is above 0 for correct completions. It may differ from the training reward.
        sampling: the settings for drawing completions. A greedy sampling draws one completion for
            each problem.
        batch_size (`int`): the number of completions that each rank draws at once.
        records (*optional*): the files to resume from and to write to. They are given on the first
            rank only.
        desc (`str`): the label of the progress bar.

    Returns:
        the judged samples of all ranks, in the order of benchmarks and problems.
    """
    benchmarks = limit_greedy_samples(benchmarks, sampling)
    decide = make_judge(judge)
    requests = [request for benchmark in benchmarks for request in _list_requests(benchmark)]
    batches = [requests[i : i + batch_size] for i in range(0, len(requests), batch_size)]
    state = PartialState()
    done = records.load([len(batch) for batch in batches]) if records else {}
    done = broadcast_object_list([done])[0]
    missing = [number for number in range(len(batches)) if number not in done]
    bar = tqdm(total=len(requests), desc=desc, unit="sample", disable=not state.is_main_process, leave=False)
    # The `with` block removes the progress bar even if sampling or judging fails.
    with bar:
        bar.update(sum(map(len, done.values())))
        for first in range(0, len(missing), state.num_processes):
            turn = missing[first : first + state.num_processes]
            numbers = turn[state.process_index : state.process_index + 1]
            judged = [
                record for number in numbers for record in _draw_batch(batches, number, generate, decide, sampling)
            ]
            if not numbers and generate.is_collective:
                # All ranks must draw together. A rank without a batch of its own draws one that is discarded.
                _draw_batch(batches, 0, generate, decide, sampling)
            judged = gather_object(judged) if state.num_processes > 1 else judged
            if records:
                records.append(judged)
            for record in judged:
                done.setdefault(record.batch, []).append(record)
            bar.update(len(judged))
    return [record for number in sorted(done) for record in done[number]]


def _list_requests(benchmark: Benchmark) -> list[Request]:
    return [
        Request(benchmark.name, name, sample, row)
        for name, row in zip(benchmark.ids, benchmark.dataset, strict=True)
        for sample in range(benchmark.num_samples)
    ]


def _derive_seed(sampling: Sampling, number: int) -> int:
    """Return the seed of a batch, which is derived from the batch's number and the sampling's seed."""
    return random.Random(f"{sampling.seed}/{number}").getrandbits(31)


def _draw_batch(
    batches: Sequence[list[Request]], number: int, generate: Generator, judge: Judge, sampling: Sampling
) -> list[SampleRecord]:
    batch = batches[number]
    rows = [request.row for request in batch]
    prompts = [row["prompt"] for row in rows]
    if generate.needs_equal_batches:
        prompts += prompts[:1] * (len(batches[0]) - len(batch))
    completions = generate(prompts, sampling, _derive_seed(sampling, number))[: len(batch)]
    verdicts: list[Verdict] = []
    # A batch may have problems of several benchmarks, whose columns differ.
    for _, part in groupby(zip(batch, completions, strict=True), lambda pair: pair[0].benchmark):
        requests, drawn = zip(*part, strict=True)
        verdicts += judge([completion.text for completion in drawn], [request.row for request in requests])
    return [
        SampleRecord(
            batch=number,
            benchmark=request.benchmark,
            id=request.id,
            sample=request.sample,
            **verdict._asdict(),
            truncated=completion.truncated,
            num_tokens=completion.num_tokens,
            completion=completion.text,
        )
        for request, completion, verdict in zip(batch, completions, verdicts, strict=True)
    ]
