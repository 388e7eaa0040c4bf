"""`"resample"`: groups that teach nothing are replaced by other prompts' groups, until the rollout is full.

An attempt writes the groups of the next prompts: TRL's method is run on them up to the point where the completions are
there, and stopped. When enough groups are informative, the ranks share them out evenly, and TRL's method is run once
more, to its end; where it would write completions, it is given those. Groups that are left over wait for the next
rollout. They and the place in the data are in every checkpoint, `dynamic_sampling.pt`.
"""

import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch

from steer_trl.config import SteerGRPOConfig
from steer_trl.system import write_whole
from steer_trl.trainer.sampling.completions import Completion, Group, exchanged, given_back, taken, written_tokens
from steer_trl.trainer.sampling.log import Judged, tell_sampling
from steer_trl.trainer.sampling.prompts import PromptStream
from steer_trl.trainer.sampling.select import DynamicSampling, Generate, Rows, Score, correctness_column, judged
from steer_trl.trainer.saved import SAMPLING_FILE, read_tensors
from steer_trl.trainer.trl import GRPOTrainer, append_to_log, micro_batches_done, steps_per_rollout

logger = logging.getLogger(__name__)

SHORT = (
    "dynamic_sampling='resample' found %d of the %d groups of a rollout in %d attempts (%d prompts); the others teach "
    "nothing, since all of their completions were correct, or none was. Give prompts of fitting difficulty, or raise "
    "num_generations or dynamic_sampling_max_attempts. This is not repeated until a rollout is full."
)


class _Written(Exception):
    """Ends TRL's method where an attempt's completions are there; its arguments are these and the verdict on them."""


class Resampling(DynamicSampling):
    """Writes groups until enough are informative."""

    def __init__(self, trainer: GRPOTrainer) -> None:
        super().__init__(trainer)
        self._waiting: list[Group] = []
        self._answer: Callable[[list[Any], Generate, Score], tuple[Any, ...]] | None = None
        self._was_short = False

    # One rollout.

    @contextmanager
    def choosing(self, inputs: Rows, write: Callable[[Rows], Any]) -> Iterator[Rows]:
        groups, found, attempts = self._collected(write)
        completions = [completion for group in groups for completion in group]
        chosen = self._chosen = self._verdict(completions, found)
        own, masked = self._share(completions), any(completion["tool_mask"] for completion in completions)
        self._answer = lambda prompts, *_: given_back(self._trainer, prompts, own, masked)
        try:
            yield self._stream.rows_of([completion["number"] for completion in own])
        finally:
            self._answer = self._chosen = None
        tell_sampling(self._trainer, Judged.merged(attempts) if attempts else None, chosen)
        counts = {
            "dynamic_sampling/attempts": float(len(attempts)),
            "dynamic_sampling/waiting": float(len(self._waiting)),
            "dynamic_sampling/epochs": self._stream.epochs,
        }
        append_to_log(self._trainer, counts)

    def generated(self, prompts: list[Any], generate: Generate, score: Score) -> tuple[Any, ...]:
        return generate(prompts) if self._answer is None else self._answer(prompts, generate, score)

    def _collected(self, write: Callable[[Rows], Any]) -> tuple[list[Group], int, list[Judged]]:
        """Return the groups of a rollout, how many are informative, which come first, and the verdicts on attempts."""
        args, size = self._trainer.args, self._trainer.num_generations
        wanted = args.groups_per_rollout
        groups, self._waiting = self._waiting, []
        attempts: list[Judged] = []
        rejects: list[Group] = []
        while len(groups) < wanted and len(attempts) < args.dynamic_sampling_max_attempts:
            own, verdict = self._attempt(write)
            attempts.append(verdict)
            informative = verdict.chosen.nonzero().flatten().tolist()
            others: list[int] = []
            if len(attempts) == args.dynamic_sampling_max_attempts:  # they fill what is missing at the very end
                missing = max(wanted - len(groups) - len(informative), 0)
                others = (~verdict.chosen).nonzero().flatten().tolist()[:missing]
            first = self._trainer.accelerator.process_index * len(own)
            written = exchanged(own, first, [*informative, *others], size)
            groups, rejects = groups + written[: len(informative)], written[len(informative) :]
        found = min(len(groups), wanted)
        if found < wanted and not self._was_short and self._trainer.accelerator.is_main_process:
            prompts = sum(len(verdict.chosen) for verdict in attempts)
            logger.warning(SHORT, found, wanted, len(attempts), prompts)
        self._was_short = found < wanted
        if args.dynamic_sampling_surplus == "keep":
            self._waiting = groups[wanted:]
        return groups[:wanted] + rejects, found, attempts

    def _attempt(self, write: Callable[[Rows], Any]) -> tuple[list[Completion], Judged]:
        """Write the groups of the next prompts; return this rank's completions and the verdict on all ranks'."""
        numbers = self._stream.draw(self._trainer.args.dynamic_sampling_factor)
        own = self._share([number for number in numbers for _ in range(self._trainer.num_generations)])
        inputs = self._stream.rows_of(own)

        def take(prompts: list[Any], generate: Generate, score: Score) -> tuple[Any, ...]:
            generated = generate(prompts)
            verdict = judged(self._trainer, inputs, prompts, generated, score)
            raise _Written(taken(self._trainer, own, generated, self._share(verdict.rewards)), verdict)

        self._answer = take
        try:
            write(inputs)
        except _Written as written:
            completions, verdict = written.args
        else:
            raise AssertionError("TRL has made a rollout without writing it")
        finally:
            self._answer = None
        return completions, verdict

    def _share(self, of_all_ranks: Any) -> Any:
        """This rank's part."""
        count = len(of_all_ranks) // self._trainer.accelerator.num_processes
        first = self._trainer.accelerator.process_index * count
        return of_all_ranks[first : first + count]

    def _verdict(self, completions: list[Completion], found: int) -> Judged:
        """What is known of the chosen completions, the first `found` groups of which are informative."""
        device = self._trainer.accelerator.device
        rewards = torch.tensor([completion["rewards"] for completion in completions], device=device)
        lengths = torch.tensor([written_tokens(completion) for completion in completions], device=device)
        groups = torch.arange(len(completions) // self._trainer.num_generations, device=device)
        return Judged(rewards, rewards[:, correctness_column(self._trainer)], lengths, groups < found)

    # A training, and its checkpoints.

    @property
    def _made_with(self) -> dict[str, Any]:
        """What decides whether a group that waits can be trained on in a resumed run."""
        trainer, reward = self._trainer, self._trainer.args.dynamic_sampling_reward
        names = {"reward_funcs": trainer.reward_func_names, "dynamic_sampling_reward": reward}
        return names | {"num_generations": trainer.num_generations, "use_vllm": trainer.use_vllm}

    def read(self, sampler: Any) -> None:
        self._stream, self._waiting = PromptStream(sampler), []

    def save(self, folder: Path) -> None:
        if self._trainer.args.should_save:
            state = {"prompts": self._stream.state_dict(), "waiting": self._waiting, "made_with": self._made_with}
            write_whole(folder / SAMPLING_FILE, lambda path: torch.save(state, path))

    def load(self, folder: Path) -> None:
        path = folder / SAMPLING_FILE
        if path.exists():
            state = read_tensors(path)
            self._stream.load_state_dict(state["prompts"])
            self._waiting = state["waiting"] if state["made_with"] == self._made_with else []
            if lost := len(state["waiting"]) - len(self._waiting):
                text = "The %d groups that waited for this rollout are dropped: made with %s, now %s."
                logger.warning(text, lost, state["made_with"], self._made_with)
            return
        rollouts = -(-micro_batches_done(self._trainer) // steps_per_rollout(self._trainer))
        self._stream.draw(rollouts)
        text = "%s does not exist: the first %d rollouts of prompts are assumed to have been used, as without it."
        logger.warning(text, path, rollouts)


def make_sampling(trainer: GRPOTrainer, args: SteerGRPOConfig) -> DynamicSampling:
    """What `dynamic_sampling` says; `trainer` need not be finished."""
    return Resampling(trainer) if args.dynamic_sampling == "resample" else DynamicSampling(trainer)
