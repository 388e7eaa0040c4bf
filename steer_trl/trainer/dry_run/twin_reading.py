"""The measurements of a twin's first rollout and step: completions, rewards, speeds, and the numbers of the log.

Completions and rewards are read where TRL calls `_generate` and `_calculate_rewards`. With dynamic sampling, these are
the completions of all attempts. All other numbers are those that the trainer logs.
"""

import math
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import torch
from accelerate.utils import gather_object
from torch import Tensor
from transformers import ProcessorMixin

from steer_trl.entropy.start import count_first_rollouts
from steer_trl.monitoring import key_names
from steer_trl.monitoring.learning_rules import IS_TRUNCATED, find_flagged
from steer_trl.monitoring.sampling_log import FirstStep
from steer_trl.monitoring.sampling_warnings import truncation
from steer_trl.monitoring.watch import AlarmWatch
from steer_trl.rewards.answers import after_thought, text_of
from steer_trl.shaping.informative import TOLERANCE, is_informative
from steer_trl.support.validation import is_number
from steer_trl.trainer.correctness import deciding_function, deciding_reward, find_judges, is_decided, total_reward
from steer_trl.trainer.dry_run.number_names import (
    DECIDES,
    EMPTY,
    GROUP_SIZE,
    HOLD_ROLLOUTS,
    LEARNING,
    LEFT,
    LENGTH,
    MAY_DECIDE,
    MEMORY,
    OWN_TEMPERATURE,
    PAID,
    TEMPLATE,
    UNFINISHED,
    UNPAID_JUDGE,
    WITHOUT_ANY_JUDGE,
    WITHOUT_JUDGE,
)
from steer_trl.trainer.dry_run.shares import Shares
from steer_trl.trainer.dry_run.step_size import measure_step
from steer_trl.trainer.dry_run.template import measure_template
from steer_trl.trainer.forward.cost import Cost
from steer_trl.trainer.forward.decision import Padding
from steer_trl.trainer.forward.layout import find_parts, has_holes
from steer_trl.trainer.hold_callback import scheduled_rates
from steer_trl.trainer.trl import (
    find_position,
    logged_column,
    micro_batches_of_rollout,
    steps_per_rollout,
    tokenizer_of,
)

EXAMPLES = 3
"""The number of completions that are shown."""
PROMPT_END = 80
"""The number of characters of a prompt's end that are shown."""


class TwinReading:
    """Reads what a `twin` does up to its first update."""

    def __init__(self, twin: Any) -> None:
        self._twin = twin
        self.prompt_lengths: list[int] = []
        self.completion_lengths: list[int] = []
        self.examples: list[str] = []
        self.prompt_end = ""
        self.rewards = torch.empty(0)
        self.correct: Tensor | None = None
        self.numbers: dict[str, float] = {}
        self.seconds = {"generation": 0.0, "rewards": 0.0, "step": 0.0}
        self.positions: dict[str, float] = {}
        self.grad_norm: float | None = None
        self.memory = 0
        self.tokens_of_step = 0
        self.unjudged: set[str] = set()
        self._began = time.perf_counter()
        # Another class of trainer does not measure itself whether the sampling policy is the scored one.
        self._passes: FirstStep | None = None
        self._shares = Shares(twin.parts.shapers if "parts" in vars(twin) else {})
        self._texts: list[str] = []
        self._thoughts: list[bool] = []
        self._is_cut: list[bool] = []

    # While the twin trains.

    def begin(self) -> None:
        """Start the clock of the step."""
        device = self._twin.accelerator.device
        if device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(device)
        if "parts" not in vars(self._twin):
            self._passes = FirstStep(self._twin.model, self._twin.args)
        self._began = time.perf_counter()
        clip = self._twin.accelerator.clip_grad_norm_

        def keep_norm(*args: Any, **kwargs: Any) -> Any:
            norm = clip(*args, **kwargs)
            self.grad_norm = None if norm is None else float(norm)
            return norm

        self._twin.accelerator.clip_grad_norm_ = keep_norm

    def read_completions(self, generate: Callable[..., Any], prompts: list[Any], *args: Any, **kwargs: Any) -> Any:
        """Call TRL's complete `_generate` on the `prompts`, and read the completions."""
        generated = self._time("generation", generate, prompts, *args, **kwargs)
        prompt_ids, ids, _, completions, *_ = generated
        if not self.prompt_lengths and not isinstance(self._twin.processing_class, ProcessorMixin):
            surprisal = measure_template(self._twin, prompts[0], prompt_ids[0])
            self.numbers |= {} if surprisal is None else {TEMPLATE: surprisal}
        tokenizer = tokenizer_of(self._twin)
        if not self.prompt_lengths and prompt_ids:
            self.prompt_end = str(tokenizer.decode(prompt_ids[0], skip_special_tokens=False))[-PROMPT_END:]
        ends = (*self._twin.eos_token_ids, tokenizer.pad_token_id)
        self.prompt_lengths += map(len, prompt_ids)
        self.completion_lengths += map(len, ids)
        self._is_cut += [not row or row[-1] not in ends for row in ids]
        self._texts += map(text_of, completions)
        for prompt, row in zip(prompt_ids, ids, strict=True):
            # A chat template may open the thought at the end of the prompt.
            text = str(tokenizer.decode([*prompt[-8:], *row], skip_special_tokens=False))
            self._thoughts.append(bool(text) and not after_thought(text))
        return generated

    def read_rewards(self, calculate: Callable[..., Tensor], *args: Any, **kwargs: Any) -> Tensor:
        """Call TRL's complete `_calculate_rewards`, and read the rewards `[N, functions]` of all ranks."""
        rewards = self._time("rewards", calculate, *args, **kwargs)
        self.rewards = torch.cat([self.rewards, rewards.cpu()]) if len(self.rewards) else rewards.cpu()
        return rewards

    def _time(self, name: str, act: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        start = time.perf_counter()
        outcome = act(*args, **kwargs)
        self.seconds[name] += time.perf_counter() - start
        return outcome

    def end(self) -> None:
        """Stop to read the model's passes."""
        if self._passes is not None:
            self._passes.end()

    # Right before the update.

    def finish(self) -> None:
        """Read the numbers of the log, and measure the rest. Collective."""
        twin = self._twin
        device = twin.accelerator.device
        if device.type == "cuda":
            torch.cuda.synchronize(device)
            self.memory = torch.cuda.max_memory_allocated(device)
            self.numbers[MEMORY] = self.memory / torch.cuda.get_device_properties(device).total_memory
        spent = self.seconds["generation"] + self.seconds["rewards"]
        self.seconds["step"] = time.perf_counter() - self._began - spent
        self._measure_positions()
        answers = logged_column(twin, "answer")
        self._gather()
        self._read_log()
        self.correct = self._find_correct()
        self.numbers |= (
            self._measure_completions() | self._measure_run() | self._measure_judge() | self._measure_paid()
        )
        self.examples = self._choose_examples(answers)

    def _gather(self) -> None:
        """Gather what each rank has read of its own completions."""
        if self._twin.accelerator.num_processes > 1:
            for name in ("prompt_lengths", "completion_lengths", "_texts", "_thoughts", "_is_cut"):
                vars(self)[name] = gather_object(getattr(self, name))

    def _read_log(self) -> None:
        """Read TRL's log entry of the step, and the facts that alarms read."""
        twin = self._twin
        twin.log({} if self.grad_norm is None else {key_names.GRAD_NORM: self.grad_norm})
        entry = dict(twin.state.log_history[-1])
        watch = AlarmWatch(rules=())
        entry |= {} if self._passes is None else self._passes.take(entry)
        watch.read_entry(1, {key_names.LOSS: math.nan} | entry)
        self.numbers |= watch.state_dict().get("numbers", {})
        if self.grad_norm is not None:
            self.numbers[key_names.GRAD_NORM] = self.grad_norm
        if "parts" in vars(twin):
            self.numbers |= twin.parts.facts
            shares = self._shares.take(twin.accelerator)
            self.numbers |= {f"{LEFT}{name}": share for name, share in shares.items()}
            # A method that acts on tokens that have moved since their rollout does nothing in the first step.
            if any(shaper.surrogate for shaper in twin.parts.shapers.values()):
                self.unjudged.add("idle")
        elif truncation(twin.args) is not None:
            self.numbers[IS_TRUNCATED] = 1.0

    def _find_correct(self) -> Tensor | None:
        """Return 1 for each correct completion, 0 for others, NaN for unscored ones; `None` if nothing decides."""
        if not is_decided(self._twin):
            return None
        rewards = deciding_reward(self._twin, self.rewards)
        return (rewards > self.threshold).float().masked_fill(rewards.isnan(), math.nan)

    @property
    def threshold(self) -> float:
        """The reward above which a completion counts as correct."""
        return float(getattr(self._twin.args, "correct_threshold", 0.0))

    def _measure_completions(self) -> dict[str, float]:
        count = max(len(self._texts), 1)
        positions = getattr(self._twin.model.config.get_text_config(), "max_position_embeddings", None)
        longest = max(self.prompt_lengths, default=0) + self._twin.args.max_completion_length
        numbers = {
            EMPTY: sum(not text.strip() for text in self._texts) / count,
            UNFINISHED: sum(self._thoughts) / count,
        }
        return numbers | ({LENGTH: longest / positions} if is_number(positions) else {})

    def _measure_run(self) -> dict[str, float]:
        """Return the largest share of the learning rate that is reached, and the run's length in initial rollouts."""
        twin = self._twin
        numbers = {GROUP_SIZE: float(twin.num_generations)}
        own = (getattr(twin.args, "generation_kwargs", None) or {}).get("temperature")
        if is_number(own) and own != twin.args.temperature:
            numbers[OWN_TEMPERATURE] = own
        steps = twin.state.max_steps
        rates = scheduled_rates(twin.lr_scheduler, steps)
        if rates and not getattr(twin.args, "max_generated_tokens", None):
            scheduler = getattr(twin.lr_scheduler, "scheduler", twin.lr_scheduler)
            full = math.fsum(scheduler.base_lrs)
            numbers[LEARNING] = max(rates) / full if full > 0 else 0.0
        numbers |= measure_step(twin, numbers.get(LEARNING, 1.0))
        hold = getattr(getattr(twin, "parts", None), "hold", None)
        if hold is not None and hold.args.hold_entropy_unit == "initial":
            numbers[HOLD_ROLLOUTS] = hold.count_rollouts_at_level(self.rollouts) / count_first_rollouts(twin.args)
        return numbers

    @property
    def judged(self) -> dict[str, float]:
        """The numbers that rules judge: those of the log, with the groups that dynamic sampling would keep."""
        kept = self.numbers.get(key_names.INFORMATIVE)
        return self.numbers | ({} if kept is None else {key_names.FRAC_REWARD_ZERO_STD: 1 - kept})

    @property
    def evaluates(self) -> bool:
        """Whether the run has evaluations, whose time is not known."""
        return bool(self._twin.args.eval_strategy != "no")

    @property
    def used(self) -> float:
        """The share of what was generated that the first rollout uses. Groups that wait are for later ones."""
        waiting = self.numbers.get(key_names.WAITING, 0.0)
        groups = self._twin.args.groups_per_rollout if waiting else 1
        return groups / (groups + waiting)

    @property
    def tokens_per_rollout(self) -> float:
        """The number of tokens to generate for a rollout."""
        return sum(self.completion_lengths) * self.used

    @property
    def tokens(self) -> int:
        """The number of tokens that the run generates, at least those of the first rollout."""
        return max(round(self.rollouts * self.tokens_per_rollout), sum(self.completion_lengths))

    @property
    def rollouts(self) -> float:
        """The number of rollouts of the run. A budget of tokens ends it when the rollouts are as long as this one."""
        twin = self._twin
        micro_batches = twin.state.max_steps * twin.args.gradient_accumulation_steps
        rollouts = math.ceil(micro_batches / steps_per_rollout(twin))
        budget = getattr(twin.args, "max_generated_tokens", None)
        if not budget:
            return rollouts
        return min(rollouts, math.ceil(budget / max(self.tokens_per_rollout, 1)))

    @property
    def steps(self) -> int:
        """The number of optimizer steps of the run. A budget of tokens may end it before `max_steps`."""
        twin = self._twin
        per_rollout = steps_per_rollout(twin) / twin.args.gradient_accumulation_steps
        return min(twin.state.max_steps, math.ceil(self.rollouts * per_rollout))

    def _measure_judge(self) -> dict[str, float]:
        """Return what is known about the functions that judge correctness, if there are several functions.

        These are the share of the groups with a signal in which no such function varies, and which pay nothing.
        """
        names = self._twin.reward_func_names
        judges = self._find_judges()
        if len(names) == 1:
            return {}
        if not judges:
            return {WITHOUT_ANY_JUDGE: 1.0}
        prefix = DECIDES if is_decided(self._twin) else MAY_DECIDE
        numbers = {f"{prefix}{name}": 1.0 for name in judges}
        numbers |= {f"{UNPAID_JUDGE}{name}": 1.0 for name in self._find_unpaid() if name in judges}
        # Dynamic sampling replaces the groups in which the function that decides does not vary.
        if is_decided(self._twin) and key_names.ATTEMPTS in self.numbers:
            return numbers
        size = self._twin.num_generations
        has_signal = is_informative(total_reward(self._twin, self.rewards), size)
        varies = torch.stack([is_informative(self.rewards[:, names.index(name)], size) for name in judges]).any(0)
        if has_signal.any():
            numbers[WITHOUT_JUDGE] = (~varies[has_signal]).float().mean().item()
        return numbers

    def _find_judges(self) -> list[str]:
        decides = deciding_function(self._twin)
        return [decides] if decides else find_judges(self._twin.reward_func_names)

    def _find_unpaid(self) -> list[str]:
        """Return the reward functions that have scored completions, and have paid the same to all: nothing."""
        names = []
        for name, column in zip(self._twin.reward_func_names, self.rewards.unbind(1), strict=True):
            scores = column[~column.isnan()]
            if len(scores) and scores.max() <= 0 and scores.max() - scores.min() <= TOLERANCE:
                names.append(name)
        return names

    def _measure_paid(self) -> dict[str, float]:
        """Return the share of the reward functions with scores that pay anything."""
        scoring = int((~self.rewards.isnan()).any(0).sum())
        return {PAID: 1 - len(self._find_unpaid()) / scoring} if scoring else {}

    def _measure_positions(self) -> None:
        """Count the positions that a pass computes for each token of the loss, with TRL's pass and with ours."""
        twin = self._twin
        cost = Cost(twin.model.config.get_text_config().hidden_size)
        counts = dict.fromkeys(("tokens", "trl", "ours", "rows", "shared"), 0)
        for inputs in micro_batches_of_rollout(twin):
            ids = torch.cat([inputs["prompt_ids"], inputs["completion_ids"]], dim=1).cpu().numpy()
            masks = torch.cat([inputs["prompt_mask"], inputs["completion_mask"]], dim=1).cpu().numpy()
            width = inputs["prompt_ids"].size(1)
            counts["trl"] += ids.size
            counts["tokens"] += int(masks[:, width:].sum())
            counts["rows"] += len(ids)
            if has_holes(masks, width):
                counts["ours"] += ids.size
                continue
            parts = find_parts(ids, masks, width, cost)
            counts["ours"] += sum(part.length for part in parts)
            counts["shared"] += sum(part.prompt is not None for part in parts)
        ours = getattr(twin, "parts", None)
        # TRL's own trainer has no such part, and is told what ours would do.
        is_packed = Padding(twin, True, twin.args.torch_compile).could_pack if ours is None else ours.padding.is_packed
        share = min(find_position(twin).per_step / len(micro_batches_of_rollout(twin)), 1.0)
        self.tokens_of_step = round(counts["tokens"] * share * twin.accelerator.num_processes)
        if counts["tokens"]:
            self.positions = {name: counts[name] / counts["tokens"] for name in ("trl", "ours")}
            self.positions |= {"shared": counts["shared"] / counts["rows"]}
            if not is_packed:
                del self.positions["ours"], self.positions["shared"]

    def _choose_examples(self, answers: list[Any]) -> list[str]:
        """Return completions that a reward cannot read or that do not end, of as many kinds as possible."""
        texts = self._texts
        # Under dynamic sampling, the column has only the completions that are trained on.
        is_unread = [answer is None for answer in answers] if len(answers) == len(texts) else [False] * len(texts)
        unscored = self.rewards.isnan().all(1).tolist() if len(self.rewards) == len(texts) else [False] * len(texts)
        kinds = {
            "empty": [not text.strip() for text in texts],
            "unscored": unscored,
            "unfinished": self._thoughts,
            "cut": self._is_cut,
            "no answer": is_unread,
        }
        kinds = self._find_equal_rewards(np.any(list(kinds.values()), axis=0)) | kinds
        places = {kind: np.flatnonzero(flags).tolist() for kind, flags in kinds.items()}
        chosen: dict[int, str] = {}
        # The first completion of each kind, then the second of each kind.
        for turn in range(EXAMPLES):
            for kind, of_kind in places.items():
                if turn < len(of_kind):
                    chosen.setdefault(of_kind[turn], kind)
        return [f"{kind}: {_shorten(texts[place])}" for place, kind in list(chosen.items())[:EXAMPLES]]

    def _find_equal_rewards(self, is_chosen: Any) -> dict[str, list[bool]]:
        """Return the other completions as a kind, if all rewards are equal or the reward for correctness pays nothing.

        The kind has the reward as its name.
        """
        total = total_reward(self._twin, self.rewards)
        if len(total) != len(self._texts):
            return {}
        others = [not chosen for chosen in is_chosen]
        if not total.isnan().any() and total.max() <= total.min():
            return {f"reward {total[0].item():.4g}": others}
        unpaid = find_flagged(self.numbers, UNPAID_JUDGE)
        return {f"{unpaid[0]} 0": others} if unpaid else {}


def _shorten(text: str) -> str:
    """Return the end of a text on one line."""
    line = " ".join(text.split())
    return repr(line if len(line) <= 56 else f"... {line[-52:]}")
