"""Replaces groups without a learning signal by other prompts' groups (`dynamic_sampling="resample"`).

An attempt generates groups for the next prompts: it runs TRL's rollout method on them, and leaves the method as soon
as the trainer's complete `_generate` has returned completions, and its complete `_calculate_rewards` their rewards.
Once enough groups are informative, they are divided evenly over the ranks. Then TRL's method runs again, this time to
its end, with the stored completions and rewards in place of new ones. So no method of a subclass runs twice on the
same completions. Groups left over wait for the next rollout. In every checkpoint, `dynamic_sampling.pt` holds these
groups and the position in the data set.
"""

import logging
import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import torch

from steer_trl.options.former_names import find_present_name
from steer_trl.support.system import write_whole
from steer_trl.trainer.checkpoints.saved import SAMPLING_FILE, read_tensors
from steer_trl.trainer.correctness import deciding_reward, is_decided
from steer_trl.trainer.log.groups import log_groups
from steer_trl.trainer.ranks import raise_together, read_on_main
from steer_trl.trainer.sampling.completions import (
    PromptGroup,
    StoredCompletion,
    count_tokens,
    exchange_groups,
    store_completions,
    to_generated,
)
from steer_trl.trainer.sampling.judged_groups import JudgedGroups, Rows, judge_groups, share_without_judge
from steer_trl.trainer.sampling.log import log_sampling
from steer_trl.trainer.sampling.prompts import open_stream
from steer_trl.trainer.trl import GRPOTrainer, append_to_log, class_of_override, intercept

logger = logging.getLogger(__name__)

BuildRollout = Callable[[Rows], dict[str, Any]]
"""TRL's rollout method: it generates and scores completions for rows of the data set, and returns the rollout."""

SHORT = (
    "dynamic_sampling='resample' found %d of the %d groups of a rollout in %d attempts (%d prompts). The rest carry "
    "no learning signal, because their completions have equal rewards, or none. Give prompts of fitting difficulty, "
    "or raise num_generations or dynamic_sampling_max_attempts. This is not repeated until a rollout is full."
)

UNJUDGED = (
    "dynamic_sampling='resample' keeps the groups whose weighted sum of rewards varies, because there are several "
    "reward functions and correct_reward is unset. In %.0f %% of the groups that it kept for the first "
    "rollout, no function called accuracy, correct or right varies: their completions are equally correct, and differ "
    "in format or length. "
    "Set correct_reward to the name of the function that decides whether a completion is correct, one of %s."
)
MOST_WITHOUT_JUDGE = 0.5
"""The largest share of a rollout's groups without a difference in correctness that is not warned about."""

OTHER_ROWS = (
    "dynamic_sampling='resample' reads the rows of the data set itself, and they are not those that TRL would train "
    "on: %s changes them. What it changes has no effect. Change the data set, or leave dynamic_sampling unset."
)
HANDLES_ROWS = (
    *("_generate_and_score_completions", "_prepare_inputs", "training_step", "get_train_dataloader"),
    "_get_train_sampler",
)
"""The methods that handle the rows of a rollout, the last first."""


MARGIN = 1.28
"""Safety margin for the size of an attempt, in standard deviations. With it, nine of ten attempts fill the rollout."""
MOST_ROLLOUTS = 3
"""The largest number of prompts in an attempt, as a multiple of the number of prompts in a rollout."""
MEMORY = 0.8
"""The weight of earlier attempts in the running mean of the share of informative groups."""


class GenerationDone(Exception):
    """Raised to leave TRL's rollout method once an attempt's completions exist.

    The exception carries this rank's completions, and the judged groups of all ranks.
    """

    def __init__(self, completions: list[StoredCompletion], judged: JudgedGroups) -> None:
        super().__init__()
        self.completions = completions
        self.judged = judged


@dataclass(frozen=True)
class Collected:
    """The groups that a rollout is built from.

    Each rank stores its own completions and the judged groups of all ranks.
    """

    completions: list[StoredCompletion]
    judged: JudgedGroups
    has_tool_masks: bool


class Resampling:
    """Generates groups until a rollout has enough informative ones, then lets TRL build the rollout from them."""

    def __init__(self, trainer: GRPOTrainer) -> None:
        self._trainer = trainer
        self._waiting: list[PromptGroup] = []
        self._was_short = False
        self._was_judged = False
        # This is the running mean of the share of informative groups in an attempt; `None` before the first attempt.
        self._share: float | None = None
        # The rows of the current attempt and their numbers in the data set, one for each of this rank's completions.
        self._inputs: Rows = []
        self._numbers: list[int] = []

    # One rollout.

    def build_rollout(self, build: BuildRollout, inputs: Rows) -> dict[str, Any]:
        """Collect groups for a rollout, have TRL `build` it from them, and log how they were chosen.

        `inputs` are the rows from which TRL would build it. They are only compared with the rows of the prompt stream.

        Collective.
        """
        self._compare_rows(inputs)
        groups, num_informative, attempts = self._collect_groups(build)
        completions = [completion for group in groups for completion in group]
        has_tool_masks = any(completion["tool_mask"] for completion in completions)
        collected = Collected(
            self._own_part(completions), self._judge_rollout(completions, num_informative), has_tool_masks
        )
        rows = self._stream.rows_of([completion["number"] for completion in collected.completions])

        def give_completions(_generate: Callable[..., Any], prompts: list[Any]) -> tuple[Any, ...]:
            return to_generated(self._trainer, prompts, collected.completions, collected.has_tool_masks)

        def give_rewards(_calculate: Callable[..., Any], *_: Any) -> torch.Tensor:
            return collected.judged.rewards

        with intercept(self._trainer, _generate=give_completions, _calculate_rewards=give_rewards):
            rollout = build(rows)
        self._warn_if_unjudged(collected.judged)
        generated = JudgedGroups.merge(attempts) if attempts else None
        log_sampling(self._trainer, generated, collected.judged)
        if generated is not None:
            log_groups(self._trainer, generated.rewards)
        counts = {
            "dynamic_sampling/attempts": float(len(attempts)),
            "dynamic_sampling/waiting": float(len(self._waiting)),
            "dynamic_sampling/epochs": self._stream.epochs,
        }
        append_to_log(self._trainer, counts)
        return rollout

    def _compare_rows(self, inputs: Rows) -> None:
        """Warn if the first rows that TRL gives are not those that dynamic sampling reads. Collective."""
        trainer = self._trainer
        numbers = self._stream.first(trainer.args.groups_per_rollout)
        if numbers is None:
            return
        numbers = self._own_part([number for number in numbers for _ in range(trainer.num_generations)])
        read = self._stream.rows_of(numbers)
        ours, trls = ([(*row, row.get("prompt")) for row in rows] for rows in (read, inputs))
        differs = torch.tensor(float(ours != trls), device=trainer.accelerator.device)
        if trainer.accelerator.reduce(differs).item() and trainer.accelerator.is_main_process:
            logger.warning(OTHER_ROWS, class_of_override(trainer, *HANDLES_ROWS) or "the data loader")

    def _end_attempt(self, generate: Callable[..., Any], prompts: list[Any]) -> NoReturn:
        """Generate and judge completions of `prompts`, and raise [`GenerationDone`] with them."""
        generated = generate(prompts)
        judged = judge_groups(self._trainer, self._inputs, prompts, generated)
        own_rewards = self._own_part(judged.rewards)
        with raise_together(self._trainer.accelerator):
            completions = store_completions(self._trainer, self._numbers, generated, own_rewards)
        raise GenerationDone(completions, judged)

    def _collect_groups(self, build: BuildRollout) -> tuple[list[PromptGroup], int, list[JudgedGroups]]:
        """Return the groups of a rollout, the number of informative groups, and the judged groups of each attempt.

        The informative groups come first.
        """
        args = self._trainer.args
        size = self._trainer.num_generations
        num_groups = args.groups_per_rollout
        groups = self._waiting
        self._waiting = []
        attempts: list[JudgedGroups] = []
        rejects: list[PromptGroup] = []
        while len(groups) < num_groups and len(attempts) < args.dynamic_sampling_max_attempts:
            attempt = self._attempt(build, self._count_prompts(missing=num_groups - len(groups)))
            judged = attempt.judged
            attempts.append(judged)
            informative = judged.chosen.nonzero().flatten().tolist()
            share = (len(informative) + 1) / (len(judged.chosen) + 1)
            self._share = share if self._share is None else MEMORY * self._share + (1 - MEMORY) * share
            fillers: list[int] = []
            # After the last attempt, groups that are not informative fill the rollout.
            if len(attempts) == args.dynamic_sampling_max_attempts:
                missing = max(num_groups - len(groups) - len(informative), 0)
                fillers = (~judged.chosen).nonzero().flatten().tolist()[:missing]
            first_row = self._trainer.accelerator.process_index * len(attempt.completions)
            exchanged = exchange_groups(attempt.completions, first_row, [*informative, *fillers], size)
            groups = groups + exchanged[: len(informative)]
            rejects = exchanged[len(informative) :]
        num_informative = min(len(groups), num_groups)
        self._warn_if_short(num_informative, num_groups, attempts)
        if args.dynamic_sampling_surplus == "keep":
            self._waiting = groups[num_groups:]
        return groups[:num_groups] + rejects, num_informative, attempts

    def _warn_if_short(self, num_informative: int, num_groups: int, attempts: list[JudgedGroups]) -> None:
        is_short = num_informative < num_groups
        if is_short and not self._was_short and self._trainer.accelerator.is_main_process:
            num_prompts = sum(len(judged.chosen) for judged in attempts)
            logger.warning(SHORT, num_informative, num_groups, len(attempts), num_prompts)
        self._was_short = is_short

    def _warn_if_unjudged(self, judged: JudgedGroups) -> None:
        """Warn at the first rollout if its groups were kept for other differences than of correctness."""
        trainer = self._trainer
        if self._was_judged or is_decided(trainer):
            return
        self._was_judged = True
        share = share_without_judge(trainer, judged).item()
        if share > MOST_WITHOUT_JUDGE and trainer.accelerator.is_main_process:
            logger.warning(UNJUDGED, 100 * share, trainer.reward_func_names)

    def _count_prompts(self, missing: int) -> int:
        """Return the number of prompts in the next attempt.

        A number that is estimated from earlier attempts is rounded up to a multiple of the number of ranks.
        """
        factor = self._trainer.args.dynamic_sampling_factor
        num_groups = self._trainer.args.groups_per_rollout
        if factor:
            return factor * num_groups
        if self._share is None:
            return num_groups
        # With this count, `missing` is MARGIN standard deviations below the expected number of informative groups.
        spread = MARGIN * math.sqrt(self._share * (1 - self._share))
        root = (spread + math.sqrt(spread**2 + 4 * self._share * missing)) / (2 * self._share)
        count = min(math.ceil(root**2), MOST_ROLLOUTS * num_groups)
        ranks = self._trainer.accelerator.num_processes
        return -(-count // ranks) * ranks

    def _attempt(self, build: BuildRollout, count: int) -> GenerationDone:
        """Generate groups for the next `count` prompts.

        Return this rank's completions, and the judged groups of all ranks.
        """
        numbers = self._stream.draw(count)
        self._numbers = self._own_part([number for number in numbers for _ in range(self._trainer.num_generations)])
        self._inputs = self._stream.rows_of(self._numbers)
        try:
            with intercept(self._trainer, _generate=self._end_attempt):
                build(self._inputs)
        except GenerationDone as done:
            return done
        raise AssertionError("TRL built a rollout without calling _generate")

    def _own_part(self, of_all_ranks: Any) -> Any:
        """Return this rank's part of a sequence that is divided evenly over the ranks."""
        count = len(of_all_ranks) // self._trainer.accelerator.num_processes
        first = self._trainer.accelerator.process_index * count
        return of_all_ranks[first : first + count]

    def _judge_rollout(self, completions: list[StoredCompletion], num_informative: int) -> JudgedGroups:
        """Return the groups of a rollout's completions, which were judged before.

        The first `num_informative` groups are informative.
        """
        device = self._trainer.accelerator.device
        rewards = torch.tensor([completion["rewards"] for completion in completions], device=device)
        lengths = torch.tensor([count_tokens(completion) for completion in completions], device=device)
        groups = torch.arange(len(completions) // self._trainer.num_generations, device=device)
        return JudgedGroups(rewards, deciding_reward(self._trainer, rewards), lengths, groups < num_informative)

    # A training run, and its checkpoints.

    @property
    def _made_with(self) -> dict[str, Any]:
        """The settings that the waiting groups depend on.

        If a resumed run has different settings, the waiting groups are dropped.
        """
        trainer = self._trainer
        return {
            "reward_funcs": trainer.reward_func_names,
            "correct_reward": trainer.args.correct_reward,
            "num_generations": trainer.num_generations,
            "use_vllm": trainer.use_vllm,
        }

    def begin_training(self, dataloader: Any) -> None:
        """Start a training run at the first prompt of the trainer's `dataloader`, without waiting groups."""
        self._stream = open_stream(self._trainer, dataloader)
        self._waiting = []
        self._share = None

    def save(self, folder: Path) -> None:
        """Save the position in the data set and the waiting groups to a checkpoint."""
        if self._trainer.args.should_save:
            state = {
                "prompts": self._stream.state_dict(),
                "waiting": self._waiting,
                "made_with": self._made_with,
                "share": self._share,
            }
            write_whole(folder / SAMPLING_FILE, lambda path: torch.save(state, path))

    def load(self, folder: Path) -> None:
        """Restore the state that [`save`] wrote. Without it, go on after the prompts that the run has used so far."""
        path = folder / SAMPLING_FILE
        state = read_on_main(self._trainer.accelerator, lambda: read_tensors(path) if path.exists() else None)
        if state is None:
            self._skip_used_prompts(path)
            return
        self._stream.load_state_dict(state["prompts"])
        # Checkpoints of an earlier version have no share.
        self._share = state.get("share")
        made_with = {find_present_name(name): value for name, value in state["made_with"].items()}
        if made_with == self._made_with:
            self._waiting = state["waiting"]
        elif state["waiting"]:
            text = "The groups that waited for this rollout are dropped: made with %s, now %s."
            logger.warning(text, made_with, self._made_with)

    def _skip_used_prompts(self, path: Path) -> None:
        """Skip the prompts of the rollouts up to now, because the run was saved without dynamic sampling.

        If the file was removed, the prompts of replaced groups are not known, and may come again.
        """
        args = self._trainer.args
        rollouts = math.ceil(self._trainer.state.global_step / args.steps_per_rollout)
        self._stream.draw(rollouts * args.groups_per_rollout)
        text = "%s does not exist: the prompts of %d rollouts count as used, as many as without dynamic sampling."
        logger.warning(text, path, rollouts)
