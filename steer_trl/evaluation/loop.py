"""The evaluation that the command line and the trainer share: draw, judge, write down.

Samples are drawn in batches of fixed content, each with a seed of its own, so an interrupted evaluation draws the rest
as it would have. Ranks take batches in turn; the first writes them down.
"""

import random
from collections.abc import Callable, Sequence
from typing import Any

from accelerate import PartialState
from accelerate.utils import broadcast_object_list, gather_object
from tqdm import tqdm

from steer_trl.evaluation.benchmarks import Benchmark, one_sample_if_greedy
from steer_trl.evaluation.judges import Judge, as_judge
from steer_trl.evaluation.records import Records
from steer_trl.evaluation.sampling import Generator, Sampling
from steer_trl.rewards import MathReward

Request = tuple[dict[str, Any], dict[str, Any]]
"""One sample of one problem: what names it in an entry, and the row of the data set."""


def evaluate(
    benchmarks: Sequence[Benchmark],
    generate: Generator,
    judge: MathReward | Callable[..., Any],
    sampling: Sampling,
    batch_size: int,
    records: Records | None = None,
    desc: str = "Evaluating",
) -> list[dict[str, Any]]:
    """Return one entry for each sample of each problem, in order. Collective: call it on every rank.

    An entry has `benchmark`, `id`, `sample`, `completion`, `num_tokens`, `truncated`, `answer`, `correct`,
    `timed_out`, `vote` and `batch`.

    Args:
        judge: whose verdict counts, whatever reward was trained on: `MathReward`, or a reward function, above 0 of
            which a completion is correct.
        sampling: how completions are drawn; greedy, one for each problem.
        batch_size (`int`): completions drawn at once, on each rank.
        records (*optional*): the folder to resume from and to write to; on the first rank only.
    """
    benchmarks, decide = one_sample_if_greedy(benchmarks, sampling), as_judge(judge)
    requests = [request for benchmark in benchmarks for request in _requests(benchmark)]
    batches = [requests[i : i + batch_size] for i in range(0, len(requests), batch_size)]
    state = PartialState()
    done = records.load([len(batch) for batch in batches]) if records else {}
    done = broadcast_object_list([done])[0]
    todo = [number for number in range(len(batches)) if number not in done]
    bar = tqdm(total=len(requests), desc=desc, unit="sample", disable=not state.is_main_process, leave=False)
    with bar:  # is erased also where drawing fails
        bar.update(sum(map(len, done.values())))
        for start in range(0, len(todo), state.num_processes):
            mine = todo[start : start + state.num_processes][state.process_index : state.process_index + 1]
            entries = [
                entry
                for number in mine
                for entry in _run(batches[number], number, generate, decide, sampling, batch_size)
            ]
            if not mine and generate.is_collective:  # the others cannot draw without this rank
                _run(batches[0], 0, generate, decide, sampling, batch_size)
            entries = gather_object(entries) if state.num_processes > 1 else entries
            if records:
                records.append(entries)
            for entry in entries:
                done.setdefault(entry["batch"], []).append(entry)
            bar.update(len(entries))
    return [entry for number in sorted(done) for entry in done[number]]


def _requests(benchmark: Benchmark) -> list[Request]:
    return [
        ({"benchmark": benchmark.name, "id": name, "sample": sample}, row)
        for name, row in zip(benchmark.ids, benchmark.dataset, strict=True)
        for sample in range(benchmark.num_samples)
    ]


def _seed(sampling: Sampling, number: int) -> int:
    """Seed of a batch: no batch of one seed is drawn as another batch of another seed."""
    return random.Random(f"{sampling.seed}/{number}").getrandbits(31)


def _run(
    batch: list[Request], number: int, generate: Generator, judge: Judge, sampling: Sampling, batch_size: int
) -> list[dict[str, Any]]:
    names, rows = zip(*batch, strict=True)
    prompts = [row["prompt"] for row in rows]
    if generate.needs_equal_batches:
        prompts += prompts[:1] * (batch_size - len(batch))
    drawn = generate(prompts, sampling, _seed(sampling, number))[: len(batch)]
    verdicts = judge([one.text for one in drawn], rows)
    return [
        {"batch": number, **name, **verdict._asdict()}
        | {"truncated": one.truncated, "num_tokens": one.num_tokens, "completion": one.text}
        for name, one, verdict in zip(names, drawn, verdicts, strict=True)
    ]
