"""Applies the methods that compare completions of a prompt, before a rollout is shuffled and split.

These methods may need the rollout's score: the log-probability and entropy of each token under the policy that
generated it, and the entropy's sensitivity if a method reads it. If TRL needs old log-probabilities, its own forward
pass computes the score, and the score is stored. Otherwise the score is computed here in two cases: a method needs it
to compare completions, which is possible only while groups are whole (`groups.py`), or a controller needs the
rollout's entropy. All other methods use the forward pass of the loss (`step.py`).
"""

from collections.abc import Mapping
from functools import partial
from typing import Any

import torch
from torch import Tensor
from trl.models.utils import disable_gradient_checkpointing
from trl.trainer.utils import pad

from steer_trl.entropy.hold import HoldEntropy
from steer_trl.entropy.start import StartEntropy
from steer_trl.randomness import keep_random_state
from steer_trl.shaping import Shaper, act_on_rollouts, reads_sensitivities, shape_rollout
from steer_trl.trainer.checks.tripwire import check_score
from steer_trl.trainer.correctness import CorrectnessRemarks
from steer_trl.trainer.forward import Forward
from steer_trl.trainer.generated import GeneratedTokens
from steer_trl.trainer.groups import own_rows, whole_groups
from steer_trl.trainer.inputs import ROWS, Score, keep_score, loss_mask
from steer_trl.trainer.log.sums import masked_mean_over_ranks
from steer_trl.trainer.trl import FORWARD_ARGUMENTS, GRPOTrainer, append_to_log, forward, replace_column


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
        hold: HoldEntropy | None,
        generated: GeneratedTokens,
        start: StartEntropy,
        forward: Forward,
    ) -> None:
        self.start = start
        self.rewards_per_function = torch.empty(0)
        self._trainer = trainer
        self._shapers = shapers
        self._hold = hold
        self._generated = generated
        self._forward = forward
        self.correctness = CorrectnessRemarks(trainer, shapers)
        self._passes: list[Score] = []
        self._written: dict[str, list[list[int]]] = {}

    @property
    def wants_entropy(self) -> bool:
        """Whether `hold_entropy` or a method needs the mean entropy of the rollout."""
        return self._hold is not None or any("mean_entropy" in shaper.reads for shaper in self._shapers.values())

    @property
    def wants_sensitivities(self) -> bool:
        """Whether the pass over the whole rollout must also compute exact entropy sensitivities.

        This is necessary if a method that reads them compares tokens across micro-batches.
        """
        return self._trainer.args.shaping_scope != "micro_batch" and reads_sensitivities(self._shapers)

    # While TRL generates a rollout.

    @property
    def wants_passes(self) -> bool:
        """Whether TRL's forward passes over a rollout are recorded.

        One of them may already give the log-probabilities and entropies that are needed here.
        """
        return self._trainer.model.training and bool(self._shapers)

    def on_forward(self, score: Score) -> None:
        """Record the log-probabilities and entropies in `score` from a forward pass over the rollout."""
        check_score(score.entropies)
        self._passes.append(score)

    def keep_written(self, generated: tuple[Any, ...]) -> None:
        """Record which tokens the policy wrote, before `mask_truncated_completions` hides some of them."""
        _, completions, tool_masks, *_ = generated
        self._written = {"completion_mask": [[1] * len(ids) for ids in completions]}
        self._written |= {"tool_mask": tool_masks} if tool_masks is not None else {}

    # After TRL has generated a rollout.

    def finish(self, rollout: dict[str, Any]) -> dict[str, Any]:
        """Shape the advantages of `rollout`.

        The log-probabilities and entropies are added to `rollout` if TRL computed them or if they are needed.
        """
        old_logps = rollout.get("old_per_token_logps")
        recorded = next((score for score in self._passes if score.logps is old_logps), None)
        self._passes = []
        if not self._shapers:
            return rollout
        acting = act_on_rollouts(self._shapers)
        compared = self._restore_truncated(rollout)
        score = recorded
        reads_tokens = any({"logps", "entropies"} & set(shaper.reads) for shaper in acting)
        # TRL's own pass masks truncated completions that the loss leaves out.
        hides_tokens = compared is not rollout
        if (reads_tokens and hides_tokens) or (recorded is None and (reads_tokens or self.wants_entropy)):
            scored = self.score(compared)
            keep_score(compared, scored)
            score = recorded or scored
        if score is not None:
            keep_score(rollout, score)
            self._update_controllers(self.log_entropy(score.entropies, loss_mask(rollout)))
        if any("draws" in shaper.reads for shaper in self._shapers.values()):
            rollout[ROWS] = own_rows(self._trainer, rollout)
        self.correctness.read(self.rewards_per_function)
        if acting:
            groups, own = whole_groups(self._trainer, acting, rollout, compared, self.rewards_per_function)
            before = rollout["advantages"]
            width = rollout["completion_ids"].size(1)
            shaped = shape_rollout(acting, groups)[own][:, :width]
            rollout["advantages"] = shaped.squeeze(1) if shaped.size(1) == 1 else shaped
            self._log_change(before, rollout["advantages"], loss_mask(rollout))
            self._show(rollout["advantages"], loss_mask(compared))
        return rollout

    def log_entropy(self, entropies: Tensor, mask: Tensor) -> float:
        """Log and return the mean entropy of a new rollout over all ranks, in nats. Collective."""
        entropy = masked_mean_over_ranks(self._trainer.accelerator, entropies, mask)
        self.start.add(entropy, is_late=self._trainer.state.global_step > 0)
        start = None if self.start.is_late else self.start.value
        known = {} if start is None else {"rollout_entropy/start": start}
        append_to_log(self._trainer, {"rollout_entropy": entropy} | known)
        return entropy

    def _update_controllers(self, entropy: float) -> None:
        """Pass a new rollout's mean entropy, in nats per token, to the methods and then to `hold_entropy`."""
        for shaper in self._shapers.values():
            shaper.on_rollout(entropy)
        if self._hold is not None:
            self._hold.on_rollout(entropy, self._generated.progress())

    @torch.no_grad()
    def score(self, rollout: dict[str, Any]) -> Score:
        """Compute the [`Score`] of `rollout` under the current policy.

        The random state is restored afterwards.
        """
        trainer = self._trainer
        args = trainer.args
        # A rollout stores images and token types under the names of the forward pass's arguments.
        inputs = {name: value for name, value in rollout.items() if name in FORWARD_ARGUMENTS}
        inputs |= {
            "input_ids": torch.cat([rollout["prompt_ids"], rollout["completion_ids"]], dim=1),
            "attention_mask": torch.cat([rollout["prompt_mask"], rollout["completion_mask"]], dim=1),
            "logits_to_keep": rollout["completion_ids"].size(1),
            "batch_size": args.per_device_train_batch_size,
            "compute_entropy": True,
        }
        with (
            keep_random_state(trainer.accelerator.device),
            disable_gradient_checkpointing(trainer.model, args.gradient_checkpointing_kwargs),
        ):
            _, score = self._forward.run(partial(forward, trainer), self.wants_sensitivities, trainer.model, inputs)
        check_score(score.entropies)
        return score

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
        rows = after.view(len(before), -1)
        change = (rows - before.unsqueeze(1)).abs()
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
