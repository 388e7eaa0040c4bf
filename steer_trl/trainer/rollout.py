"""Applies the methods that compare completions of a prompt, before a rollout is shuffled and split.

These methods may need the rollout's score: the log-probability and entropy of each token under the policy that
generated it, and the entropy's sensitivity if a method reads it. If TRL needs old log-probabilities, its first pass
over the rollout computes the score, and the score is stored. Otherwise the score is computed here in two cases: a
method needs it to compare completions, which is possible only while groups are whole (`whole_groups.py`), or a
controller needs the rollout's entropy. All other methods use the forward pass of the loss (`step.py`).

Completions, rewards and passes are recorded while the rollout method below `SteerGRPOTrainer` runs (`record_rollout`).
A subclass may run the policy there as well, so the score is that of the pass whose log-probabilities the rollout
stores. The methods act on what the outermost `_generate_and_score_completions` returns (`finish`), so they get the
advantages and the masks that a subclass sets after calling TRL's.
"""

import logging
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor
from trl.models.utils import disable_gradient_checkpointing
from trl.trainer.utils import pad

from steer_trl.entropy.hold import HoldEntropy
from steer_trl.entropy.start import StartEntropy
from steer_trl.shaping import Reads, Shaper, TokenBatch, find_kl_coef, find_rollout_methods, shape_rollout
from steer_trl.support.randomness import keep_random_state
from steer_trl.support.validation import is_within, read_from_state
from steer_trl.trainer.checks.rounding import RoundedRewards
from steer_trl.trainer.checks.tripwire import Tripwire
from steer_trl.trainer.correctness import CorrectnessRemarks, deciding_reward, total_reward
from steer_trl.trainer.forward.passes import Passes, ask_entropies
from steer_trl.trainer.generated import GeneratedTokens
from steer_trl.trainer.inputs import REF_LOGPS, ROWS, STORED_ENTROPIES, STORED_LOGPS, Score, loss_mask, store_score
from steer_trl.trainer.log.sums import masked_mean_over_ranks
from steer_trl.trainer.trl import (
    FORWARD_ARGUMENTS,
    GRPOTrainer,
    append_to_log,
    class_of_override,
    find_position,
    forward,
    intercept,
    intercept_trl,
    reference_of,
    replace_column,
)
from steer_trl.trainer.whole_groups import own_rows, whole_groups

logger = logging.getLogger(__name__)


class RolloutShaping:
    """Applies the methods that compare a prompt's completions, and computes the token values that they need.

    Attributes:
        rewards_per_function (`torch.Tensor`): rewards `[N, functions]` of the N completions of all ranks; NaN if a
            function could not score a completion.
    """

    def __init__(
        self,
        trainer: GRPOTrainer,
        shapers: Mapping[str, Shaper],
        reads: Reads,
        hold: HoldEntropy | None,
        generated: GeneratedTokens,
        start: StartEntropy,
        passes: Passes,
        tripwire: Tripwire,
    ) -> None:
        self.start = start
        self.rewards_per_function = torch.empty(0)
        self._progress = 0.0
        self._trainer = trainer
        self._shapers = shapers
        self._reads = reads
        self._hold = hold
        self._generated = generated
        self.correctness = CorrectnessRemarks(trainer, shapers)
        self._rounded = RoundedRewards(trainer)
        self._passes = passes
        self._tripwire = tripwire
        self._passes_of_policy: list[tuple[Tensor, Score]] = []
        self._advantages_of_trl: Tensor | None = None
        self._written: dict[str, list[list[int]]] = {}
        self._has_reported = False
        self._is_generating = False
        self._is_recorded = False

    @property
    def wants_sensitivities(self) -> bool:
        """Whether the pass over the whole rollout must also compute exact entropy sensitivities.

        This is necessary if a method that reads them compares tokens across micro-batches.
        """
        return self._reads.sensitivities and self._trainer.args.shaping_scope != "micro_batch"

    # The checkpoint.

    def state_dict(self) -> dict[str, float]:
        """Return the share of the run that was done when the current rollout was generated; empty at the start."""
        return {"progress": self._progress} if self._progress else {}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restore a [`state_dict`]. Raises `ValueError` if its value is invalid."""
        is_share = partial(is_within, interval="[0, 1]")
        self._set_progress(read_from_state({"progress": 0.0} | state, "progress", is_share, "a number in [0, 1]"))

    # While TRL generates a rollout.

    def begin_rollout(self) -> None:
        """Discard the records of the last rollout."""
        self.rewards_per_function = torch.empty(0)
        self._passes_of_policy = []
        self._is_recorded = False
        self._advantages_of_trl = None
        self._written = {}

    def record_rollout(self, build: Callable[..., dict[str, Any]], inputs: list[dict[str, Any]]) -> dict[str, Any]:
        """Let TRL `build` a training rollout. Record its completions, rewards and advantages, and its passes."""
        self._is_recorded = True
        hooks: dict[str, Callable[..., Any]] = {"_generate": self._record_completions}
        hooks["_calculate_rewards"] = self._record_rewards
        if self._shapers:
            hooks["_get_per_token_logps_and_entropies"] = self._record_pass
        with (
            intercept(self._trainer, **hooks),
            intercept_trl(self._trainer, _generate_and_score_completions=self._record_advantages),
        ):
            return build(inputs)

    def _record_advantages(self, build: Callable[..., dict[str, Any]], *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Record the advantages that TRL's own rollout method computes."""
        rollout = build(*args, **kwargs)
        self._advantages_of_trl = rollout["advantages"].clone()
        return rollout

    def _record_completions(self, generate: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Record which tokens the policy wrote, before `mask_truncated_completions` hides some of them."""
        # A pass that is made while completions are generated is not one over the rollout.
        self._is_generating = True
        try:
            generated = generate(*args, **kwargs)
        finally:
            self._is_generating = False
        _, completions, tool_masks, *_ = generated
        self._written = {"completion_mask": [[1] * len(ids) for ids in completions]}
        self._written |= {"tool_mask": tool_masks} if tool_masks is not None else {}
        return generated

    def _record_rewards(self, calculate: Callable[..., Tensor], *args: Any, **kwargs: Any) -> Tensor:
        self.rewards_per_function = calculate(*args, **kwargs)
        return self.rewards_per_function

    def _record_pass(self, forward_pass: Callable[..., Any], *args: Any, **kwargs: Any) -> Any:
        """Record a pass of the policy. If TRL needs old log-probabilities, it stores those of one of them."""
        model = args[0] if args else kwargs["model"]
        # A head for a reference model does not compute entropies.
        if self._is_generating or model is not self._trainer.model:
            return forward_pass(*args, **kwargs)
        args, kwargs = ask_entropies(args, kwargs)
        outputs, score = self._passes.read(forward_pass, self.wants_sensitivities, *args, **kwargs)
        self._tripwire.check_score(score)
        sensitivities = None if score.sensitivities is None else score.sensitivities.detach()
        detached = Score(score.logps.detach(), score.entropies.detach(), sensitivities)
        self._passes_of_policy.append((outputs[0], detached))
        return outputs

    # After TRL has generated a rollout.

    def finish(self, rollout: dict[str, Any]) -> dict[str, Any]:
        """Shape the advantages of `rollout`, which a complete rollout method has returned.

        The log-probabilities and entropies are added to `rollout` if TRL computed them or if they are needed.
        """
        self._check_origin()
        self._rounded.read(self.rewards_per_function)
        if self._shapers:
            # Which methods act is decided before the controllers set their strengths for this rollout.
            acting = find_rollout_methods(self._shapers)
            reads = Reads.of(acting, self._trainer.args.shaping_scope)
            with_truncated = self._restore_truncated(rollout)
            self._set_progress(self._generated.progress())
            self._find_score(rollout, with_truncated, reads)
            self._tell_controllers(rollout)
            self._add_reference(rollout)
            if self._reads.draws:
                rollout[ROWS] = own_rows(self._trainer, rollout)
            if self._reads.rewards:
                self._check_rewards(rollout)
            self.correctness.read(self.rewards_per_function)
            if acting:
                self._apply_methods(acting, reads, rollout, with_truncated)
        self._tripwire.on_rollout(rollout)
        return rollout

    def _set_progress(self, progress: float) -> None:
        """Let the methods know the share of the run that is done, in [0, 1]."""
        self._progress = progress
        for shaper in self._shapers.values():
            shaper.progress = progress

    def _find_score(self, rollout: dict[str, Any], with_truncated: dict[str, Any], reads: Reads) -> None:
        """Store the score of `rollout` in both dictionaries, if TRL computed it or if it is needed.

        `reads` are those of the methods that act on the rollout.
        """
        # Other passes are those of subclasses, or that of a reference which is the policy without its adapter.
        stored = rollout.get("old_per_token_logps")
        score = next((score for logps, score in self._passes_of_policy if logps is stored), None)
        self._passes_of_policy = []
        # TRL's own pass masks truncated completions that the loss leaves out.
        hides_truncated = reads.scores and with_truncated is not rollout
        is_missing = score is None and (reads.scores or self._reads.mean_entropy)
        if hides_truncated or is_missing:
            complete = self.score(with_truncated)
            store_score(with_truncated, complete)
            score = score or complete
        if score is not None:
            store_score(rollout, score)

    def _tell_controllers(self, rollout: dict[str, Any]) -> None:
        """Pass the mean entropy of `rollout`, if its score is known, to the methods and then to `hold_entropy`."""
        if STORED_ENTROPIES not in rollout:
            return
        entropy = self._log_entropy(rollout[STORED_ENTROPIES], loss_mask(rollout))
        for shaper in self._shapers.values():
            shaper.on_rollout(entropy)
        if self._hold is not None:
            self._hold.on_rollout(entropy, self._progress)

    def _apply_methods(
        self, acting: Sequence[Shaper], reads: Reads, rollout: dict[str, Any], with_truncated: dict[str, Any]
    ) -> None:
        """Let the methods in `acting`, which read `reads`, change the advantages of `rollout`."""
        self._report_replaced(rollout)
        if reads.rewards:
            total = total_reward(self._trainer, self.rewards_per_function)
            deciding = deciding_reward(self._trainer, self.rewards_per_function)
            for shaper in acting:
                shaper.check_rewards(total, deciding)
        groups, rank_rows = whole_groups(self._trainer, reads, rollout, with_truncated, self.rewards_per_function)
        before = rollout["advantages"]
        width = rollout["completion_ids"].size(1)
        shaped = shape_rollout(acting, groups)[rank_rows][:, :width]
        # The shape must be the same on every rank. On one of them, all completions may have a single token.
        is_flat = before.dim() == 1 and not any(shaper.distinguishes_tokens for shaper in acting)
        rollout["advantages"] = shaped.squeeze(1) if is_flat else shaped
        self._log_change(before, rollout["advantages"], loss_mask(rollout))
        self._show(rollout["advantages"], loss_mask(with_truncated))

    def _check_origin(self) -> None:
        """Raise if a subclass has made the rollout without `record_rollout`, although a setting needs that."""
        args = self._trainer.args
        is_needed = args.dynamic_sampling == "resample" or args.max_generated_tokens is not None
        if is_needed and not self._is_recorded:
            self._tripwire.refuse_rollout("it did not use SteerGRPOTrainer._generate_and_score_completions")

    def _check_rewards(self, rollout: dict[str, Any]) -> None:
        """Raise if the recorded rewards are not those of the completions of `rollout`."""
        completions = len(rollout["advantages"]) * self._trainer.accelerator.num_processes
        rewards = len(self.rewards_per_function)
        if rewards != completions:
            self._tripwire.refuse_rollout(f"it has {completions} completions, and {rewards} rewards were calculated")

    def _report_replaced(self, rollout: dict[str, Any]) -> None:
        """Warn once if a method replaces advantages that a subclass has set. Collective."""
        replacing = [name for name, s in self._shapers.items() if s.active and s.overrides("advantages")]
        name = class_of_override(self._trainer, "_generate_and_score_completions")
        before = self._advantages_of_trl
        if self._has_reported or not replacing or name is None:
            return
        now = rollout["advantages"]
        is_of_trl = before is not None and now.shape == before.shape and torch.equal(now, before)
        differs = torch.tensor(float(not is_of_trl), device=now.device)
        accelerator = self._trainer.accelerator
        if accelerator.reduce(differs).item():
            self._has_reported = True
            if accelerator.is_main_process:
                text = "%s replaces the advantages that %s sets: they have no effect. Leave one of them out."
                logger.warning(text, ", ".join(replacing), name)

    def log_entropy_of_step(self, inputs: dict[str, Any], step: TokenBatch) -> None:
        """Log the entropy of a rollout that has no score, from the tokens of its only step. Collective.

        `inputs` is the first micro-batch of the step. The policy has not been updated with any of its tokens.
        """
        if STORED_LOGPS not in inputs and find_position(self._trainer).has_rollout_in_step:
            self._log_entropy(step.entropies, step.mask)

    def _log_entropy(self, entropies: Tensor, mask: Tensor) -> float:
        """Log and return the mean entropy of a new rollout over all ranks, in nats. Collective."""
        entropy = masked_mean_over_ranks(self._trainer.accelerator, entropies, mask)
        self.start.add(entropy, is_late=self._trainer.state.global_step > 0)
        start = None if self.start.is_late else self.start.value
        start_metrics = {} if start is None else {"rollout_entropy/start": start}
        append_to_log(self._trainer, {"rollout_entropy": entropy} | start_metrics)
        return entropy

    def _add_reference(self, rollout: dict[str, Any]) -> None:
        """Add the log-probabilities under the reference model to `rollout`, if the loss has a method's KL penalty."""
        if not find_kl_coef(self._shapers):
            return
        with reference_of(self._trainer) as model:
            rollout[REF_LOGPS], *_ = self._run_pass(forward, model, rollout)

    def score(self, rollout: dict[str, Any]) -> Score:
        """Compute the [`Score`] of `rollout` under the current policy."""
        read = partial(self._passes.read, forward, self.wants_sensitivities)
        _, score = self._run_pass(read, self._trainer.model, rollout, compute_entropy=True)
        self._tripwire.check_score(score)
        return score

    @torch.no_grad()
    def _run_pass(self, run: Callable[..., Any], model: Any, rollout: dict[str, Any], **kwargs: Any) -> Any:
        """Call `run` as TRL calls its forward pass of `model` over `rollout`. The random state is restored."""
        trainer = self._trainer
        args = trainer.args
        # A rollout stores images and token types under the names of the forward pass's arguments.
        kwargs |= {name: value for name, value in rollout.items() if name in FORWARD_ARGUMENTS}
        kwargs["batch_size"] = args.per_device_train_batch_size
        input_ids = torch.cat([rollout["prompt_ids"], rollout["completion_ids"]], dim=1)
        attention_mask = torch.cat([rollout["prompt_mask"], rollout["completion_mask"]], dim=1)
        inputs = (trainer, model, input_ids, attention_mask, rollout["completion_ids"].size(1))
        with (
            keep_random_state(trainer.accelerator.device),
            disable_gradient_checkpointing(trainer.model, args.gradient_checkpointing_kwargs),
        ):
            return run(*inputs, **kwargs)

    def _restore_truncated(self, rollout: dict[str, Any]) -> dict[str, Any]:
        """Return `rollout` with masks that include truncated completions.

        Only the loss may leave these out.
        """
        if not self._trainer.mask_truncated_completions:
            return rollout
        device = rollout["completion_ids"].device
        multiple = self._trainer.pad_to_multiple_of
        rows = {name: [torch.tensor(row, device=device) for row in mask] for name, mask in self._written.items()}
        return rollout | {name: pad(mask, pad_to_multiple_of=multiple) for name, mask in rows.items()}

    def _log_change(self, before: Tensor, after: Tensor, mask: Tensor) -> None:
        """Log how much the methods changed the advantages `[B]` or `[B, T]`, and how many are not 0, over `mask`."""
        accelerator = self._trainer.accelerator
        count = len(before)
        rows = after.view(count, -1)
        change = (rows - before.view(count, -1)).abs()
        metrics = {
            "rollout_advantage_change": masked_mean_over_ranks(accelerator, change.expand_as(mask), mask),
            "rollout_advantage_left": masked_mean_over_ranks(accelerator, (rows != 0).expand_as(mask), mask),
        }
        append_to_log(self._trainer, metrics)

    def _show(self, advantages: Tensor, written: Tensor) -> None:
        """Put the advantages `[B]` or `[B, T]` into TRL's table of completions (`log_completions`). Collective.

        A completion's advantages are shown as their mean over the tokens in `written`. Weights that the loss applies
        later are not in the table.
        """
        of_tokens = advantages.view(len(advantages), -1).expand_as(written)
        means = (of_tokens * written).sum(dim=1) / written.sum(dim=1).clamp(min=1)
        shown = means if advantages.dim() == 2 else advantages
        replace_column(self._trainer, "advantages", self._trainer.accelerator.gather(shown).tolist())
