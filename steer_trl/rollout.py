"""The rollout's own score: what the policy that wrote it says of its tokens, before anything is shuffled or split.

TRL makes that pass anyway where it needs old log-probabilities; it is kept then. Otherwise it is made for methods that
compare the completions of a prompt. They act here, where groups are still whole, and every rank goes on with its own
completions. Tokens are gathered from other ranks only where a group lies across ranks, or a method compares the whole
rollout. For methods that compare no completions the loss's forward pass comes early enough.
"""

import inspect
import json
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import torch
from accelerate.utils import gather_object
from torch import Tensor, nn
from trl import GRPOTrainer
from trl.models.utils import disable_gradient_checkpointing
from trl.trainer.utils import pad

from steer_trl.metrics import masked_mean_over_ranks
from steer_trl.randomness import kept_random_state
from steer_trl.shaping import Rollout, Shaper, act_on_rollouts, shape_rollout
from steer_trl.shaping.batch import mean_of_tokens

OLD_LOGPS = "scored_per_token_logps"
OLD_ENTROPIES = "scored_per_token_entropies"
ROWS = "rollout_rows"


class RolloutTrainer(GRPOTrainer):
    """TRL's trainer with a rollout that knows its own log-probabilities, entropies and rows."""

    shapers: dict[str, Shaper]
    _seen_of_step: int
    """Micro-batches of this optimizer step that were trained on."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._rollout_passes: list[tuple[Tensor, Tensor]] | None = None
        self._rewards_per_function: Tensor | None = None
        self._seen_of_step = 0
        self._written_masks: dict[str, Tensor] = {}
        super().__init__(*args, **kwargs)

    def _needs_score(self) -> bool:
        """Whether the rollout has to be scored while its groups are whole, if need be by a pass of its own."""
        reads = {name for shaper in act_on_rollouts(self.shapers) for name in shaper.reads}
        return bool(reads & {"logps", "entropies"})

    def _get_per_token_logps_and_entropies(
        self, model: nn.Module, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor | None, Any]:
        scores_rollout = self._rollout_passes is not None and model is self.model
        if scores_rollout:
            kwargs["compute_entropy"] = True  # the policy's head computes them anyway; a reference model's cannot
        outputs = super()._get_per_token_logps_and_entropies(model, *args, **kwargs)
        if scores_rollout:
            self._rollout_passes.append(outputs[:2])
        return outputs

    def _generate(self, *args: Any, **kwargs: Any) -> tuple[Any, ...]:
        generated = super()._generate(*args, **kwargs)
        if self.mask_truncated_completions:
            _, completions, tool_masks, *_ = generated
            rows = {"completion_mask": [[1] * len(ids) for ids in completions]}
            rows |= {"tool_mask": tool_masks} if tool_masks is not None else {}
            self._written_masks = {
                name: pad(
                    [torch.tensor(row, dtype=torch.uint8) for row in mask], pad_to_multiple_of=self.pad_to_multiple_of
                )
                for name, mask in rows.items()
            }
        return generated

    def _calculate_rewards(self, *args: Any, **kwargs: Any) -> Tensor:
        self._rewards_per_function = super()._calculate_rewards(*args, **kwargs)
        return self._rewards_per_function

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        if not self.model.training or not self.shapers:  # evaluation never moves a method's state
            return super()._generate_and_score_completions(inputs)
        shapers = act_on_rollouts(self.shapers)
        is_told_prompts = any("prompts" in shaper.reads for shaper in shapers)
        prompts = self._prompt_texts(inputs) if is_told_prompts else None
        with self._recording_passes() as passes:
            rollout = super()._generate_and_score_completions(inputs)
        compared = self._with_truncated(rollout)
        # The pass under the old policy, if TRL made one, is the one whose log-probabilities it kept. It hides their
        # own tokens from truncated completions that the loss leaves out.
        score = next((score for score in passes if score[0] is rollout.get("old_per_token_logps")), None)
        if self._needs_score() and (score is None or compared is not rollout):
            compared[OLD_LOGPS], compared[OLD_ENTROPIES] = group_score = self._score(compared)
            score = score or group_score
        if score is not None:
            rollout[OLD_LOGPS], rollout[OLD_ENTROPIES] = score
            self._on_rollout(score[1], loss_mask(rollout))
        if any(shaper.random for shaper in self.shapers.values()):
            before = self._seen_of_step * self.args.per_device_train_batch_size * self.accelerator.num_processes
            rollout[ROWS] = before + self._own_rows(rollout)  # several rollouts of one step draw apart
        if shapers:
            before = rollout["advantages"]
            rollout["advantages"] = self._shaped_by_group(shapers, rollout, compared, prompts)
            change = (rollout["advantages"].view(len(before), -1) - before.unsqueeze(1)).abs()
            mean = masked_mean_over_ranks(self.accelerator, *torch.broadcast_tensors(change, loss_mask(rollout)))
            self._metrics["train"]["rollout_advantage_change"].append(mean)
            self._log_advantages(rollout["advantages"], loss_mask(compared))
        return rollout

    def _with_truncated(self, rollout: dict[str, Any]) -> dict[str, Any]:
        """The rollout as completions are compared: `mask_truncated_completions` takes them out of the loss only."""
        if not self.mask_truncated_completions:
            return rollout
        return rollout | {name: mask.to(self.accelerator.device) for name, mask in self._written_masks.items()}

    def _on_rollout(self, entropies: Tensor, mask: Tensor) -> None:
        entropy = masked_mean_over_ranks(self.accelerator, entropies, mask)
        self._metrics["train"]["rollout_entropy"].append(entropy)
        for shaper in self.shapers.values():
            shaper.on_rollout(entropy)

    @contextmanager
    def _recording_passes(self) -> Iterator[list[tuple[Tensor, Tensor]]]:
        self._rollout_passes = []
        try:
            yield self._rollout_passes
        finally:
            self._rollout_passes = None

    @torch.no_grad()
    def _score(self, rollout: dict[str, Any]) -> tuple[Tensor, Tensor]:
        """Log-probabilities and entropies `[B, T]` of the present policy, by a pass that draws no random number."""
        # Whatever else the model eats (images, token types) is in the rollout under the forward pass's own names.
        wanted = inspect.signature(super()._get_per_token_logps_and_entropies).parameters
        others = {name: rollout[name] for name in wanted if name in rollout}
        with (
            kept_random_state(self.accelerator.device),
            disable_gradient_checkpointing(self.model, self.args.gradient_checkpointing_kwargs),
        ):
            logps, entropies, _ = super()._get_per_token_logps_and_entropies(
                self.model,
                input_ids=torch.cat([rollout["prompt_ids"], rollout["completion_ids"]], dim=1),
                attention_mask=torch.cat([rollout["prompt_mask"], rollout["completion_mask"]], dim=1),
                logits_to_keep=rollout["completion_ids"].size(1),
                batch_size=self.args.per_device_train_batch_size,
                compute_entropy=True,
                **others,
            )
        return logps, entropies

    # Whole groups.

    def _own_rows(self, rollout: dict[str, Any]) -> Tensor:
        """The places of this rank's completions in the whole rollout `[B]`."""
        count, device = len(rollout["completion_ids"]), rollout["completion_ids"].device
        return torch.arange(count, device=device) + self.accelerator.process_index * count

    def _prompt_texts(self, inputs: list[dict[str, Any]]) -> list[str]:
        """A text per row that is the same for equal prompts only."""
        refusal = ValueError(
            "dcpo_smooth=True, or another method that reads 'prompts', cannot be combined with images or with an "
            "environment: it tells prompts apart by the text of the column 'prompt' alone. Leave dcpo_smooth unset."
        )
        has_images = any(row.get("image") is not None or row.get("images") for row in inputs)
        if has_images or self.environment_factories is not None:
            raise refusal
        try:
            return [json.dumps(row["prompt"], sort_keys=True) for row in inputs]
        except TypeError as error:  # an image inside of a message
            raise refusal from error

    def _shaped_by_group(
        self,
        shapers: Sequence[Shaper],
        rollout: dict[str, Any],
        compared: dict[str, Any],
        prompts: list[str] | None,
    ) -> Tensor:
        """The advantages of this rank's completions, `[B]` or `[B, T]`, after `shapers` saw them beside the others."""
        reads = {name for shaper in shapers for name in shaper.reads}
        count, size = len(rollout["advantages"]), self.num_generations
        start = self.accelerator.process_index * count
        seen = own = slice(start, start + count)
        if not all(shaper.by_group for shaper in shapers):
            seen = slice(0, count * self.accelerator.num_processes)
        elif count % size:  # groups lie across ranks
            seen = slice(start // size * size, -(-own.stop // size) * size)

        def fetched(tensor: Tensor) -> Tensor:
            if seen == own:  # on every rank or on none
                return tensor
            of_all_ranks = self.accelerator.gather(self.accelerator.pad_across_processes(tensor, dim=1))
            return of_all_ranks[seen].clone()  # what others need is freed

        def fetched_mask(inputs: dict[str, Any]) -> Tensor:
            return fetched(loss_mask(inputs).to(torch.uint8)).bool()

        rollout_seen = Rollout(
            num_generations=size,
            mask=fetched_mask(rollout),
            advantages=fetched(rollout["advantages"].unsqueeze(1)),
            rewards=self._rewards()[seen] if "rewards" in reads else None,
            logps=fetched(compared[OLD_LOGPS]) if "logps" in reads else None,
            entropies=fetched(compared[OLD_ENTROPIES]) if "entropies" in reads else None,
            prompts=gather_object(prompts)[seen] if prompts is not None else None,
            response_mask=fetched_mask(compared) if compared is not rollout else None,
        )
        shaped = shape_rollout(shapers, rollout_seen)[start - seen.start :][:count]
        return shaped.squeeze(1) if shaped.size(1) == 1 else shaped[:, : rollout["completion_ids"].size(1)]

    def _log_advantages(self, advantages: Tensor, responses: Tensor) -> None:
        """Put this rollout's advantages, or their means over tokens, in the place of TRL's in its table."""
        own = advantages if advantages.dim() == 1 else mean_of_tokens(advantages, responses)
        of_all_ranks = self.accelerator.gather(own).tolist()
        logged = self._logs["advantages"]
        for _ in of_all_ranks:  # TRL has just appended as many
            logged.pop()
        logged.extend(of_all_ranks)

    def _rewards(self) -> Tensor:
        """The weighted sum of the reward functions `[N]`, as TRL takes it; NaN where none could score."""
        table = self._rewards_per_function
        total = (table * self.reward_weights.to(table.device)).nansum(dim=1)
        return torch.where(table.isnan().all(dim=1), torch.nan, total)


def loss_mask(inputs: dict[str, Any]) -> Tensor:
    """The `[B, T]` mask of the tokens that TRL trains on: completion tokens, less those a tool wrote."""
    mask = inputs["completion_mask"]
    return mask * inputs["tool_mask"] if "tool_mask" in inputs else mask
