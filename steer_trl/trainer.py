"""`SteerGRPOTrainer`: TRL's trainer with the papers' methods put on the advantages. Glue, no mathematics.

TRL's loss runs the model's forward pass first and reads `inputs["advantages"]` afterwards, and takes them per token.
So the loss is computed on a copy of the inputs, and the moment the forward pass has returned log-probabilities and
entropies, the shaped advantages are written into that copy. No second forward pass, no copied line of TRL's loss.
The copy matters: TRL hands the same dictionary out again when a rollout is used more than once.

Its other parts are `rollout.py` (the rollout's score, whole groups), `resume.py`, `benchmarked.py` and `published.py`.
"""

import inspect
from typing import Any

import torch
from torch import Tensor, nn
from trl import GRPOTrainer
from trl.trainer.utils import get_config_model_id

from steer_trl.benchmarked import BenchmarkedTrainer
from steer_trl.config import SteerGRPOConfig
from steer_trl.evaluation import BenchmarkEvaluation
from steer_trl.metrics import ShapingSummary, append_all
from steer_trl.preflight import check_trainer_arguments
from steer_trl.published import PublishedTrainer
from steer_trl.randomness import uniform
from steer_trl.resume import ResumableTrainer
from steer_trl.rollout import OLD_ENTROPIES, OLD_LOGPS, ROWS, RolloutTrainer, loss_mask
from steer_trl.shaping import TokenBatch, compares_tokens, make_shapers, measured, shaped
from steer_trl.shaping.batch import mean_of_tokens
from steer_trl.statistics import all_ranks, this_process
from steer_trl.validation import CLIPPED_LOSSES


class SteerGRPOTrainer(PublishedTrainer, ResumableTrainer, BenchmarkedTrainer, RolloutTrainer):
    """
    [`~trl.GRPOTrainer`] with the token weights of STEER (https://huggingface.co/papers/2510.10150), of STARE
    (https://huggingface.co/papers/2606.19236) and of the methods they compare themselves with.

    Example:

    ```python
    from datasets import load_dataset
    from trl.rewards import accuracy_reward

    from steer_trl import SteerGRPOConfig, SteerGRPOTrainer

    trainer = SteerGRPOTrainer(
        model="Qwen/Qwen2.5-Math-1.5B",
        reward_funcs=accuracy_reward,
        args=SteerGRPOConfig(output_dir="out", advantage_shaping="steer"),
        train_dataset=load_dataset("trl-lib/DeepMath-103K", split="train"),
    )
    trainer.train()
    ```

    Args:
        model, reward_funcs, train_dataset, *others, **named: as in [`~trl.GRPOTrainer`].
        args ([`SteerGRPOConfig`], *optional*): configuration; the defaults of [`SteerGRPOConfig`] if `None`.
        benchmarks ([`~steer_trl.evaluation.BenchmarkEvaluation`], *optional*): evaluate on these as well, whenever the
            trainer evaluates; without an `eval_dataset`, on these only.

    Raises:
        `TypeError`: `args` is a plain `GRPOConfig`.
        `ValueError`: an empty data set, or one without a column that the trainer or a reward function needs.
        `FileNotFoundError`: `model` is a path that does not exist.
    """

    def __init__(
        self,
        model: Any,
        reward_funcs: Any = None,
        args: SteerGRPOConfig | None = None,
        train_dataset: Any = None,
        *others: Any,
        benchmarks: BenchmarkEvaluation | None = None,
        **named: Any,
    ) -> None:
        arguments = inspect.signature(GRPOTrainer).bind(model, reward_funcs, args, train_dataset, *others, **named)
        check_trainer_arguments(arguments.arguments)
        self._take_benchmarks(benchmarks, arguments.arguments)
        if args is None:
            model_name = model if isinstance(model, str) else get_config_model_id(model.config)
            args = SteerGRPOConfig(f"{model_name.split('/')[-1]}-SteerGRPO")
        self.shapers = make_shapers(args)
        self._summaries = {"train": ShapingSummary(), "eval": ShapingSummary()}
        self._step_measures: dict[str, Tensor | None] | None = None
        self._loss_inputs: dict[str, Any] | None = None
        self._set_card_data()
        arguments.arguments["args"] = args
        super().__init__(*arguments.args, **arguments.kwargs)

    # The loss.

    def compute_loss(
        self, model: nn.Module, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Tensor:
        """Compute TRL's loss on shaped advantages; `inputs` is left as it is."""
        self._loss_inputs = copy = dict(inputs)
        try:
            return super().compute_loss(model, copy, return_outputs, num_items_in_batch)
        finally:
            self._loss_inputs = None

    def _get_per_token_logps_and_entropies(
        self, model: nn.Module, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor | None, Any]:
        outputs = super()._get_per_token_logps_and_entropies(model, *args, **kwargs)
        if self._loss_inputs is not None and self.shapers:
            inputs, self._loss_inputs = self._loss_inputs, None  # the loss's forward pass is the first one only
            logps, entropies, _ = outputs
            self._shape_advantages(inputs, logps.detach(), entropies.detach())
        return outputs

    @torch.no_grad()
    def _shape_advantages(self, inputs: dict[str, Any], logps: Tensor, entropies: Tensor) -> None:
        mode = "train" if self.model.training else "eval"
        batch = self._token_batch(inputs, logps, entropies)
        if mode == "train" and self._sees_something_new(inputs):
            self._step_measures = self._measure_step(inputs, batch)
        of_step = self._step_measures if mode == "train" else None
        measures = of_step or measured(self.shapers, batch, this_process)
        result = shaped(self.shapers, batch, measures)
        if result.advantages is not None:
            inputs["advantages"] = result.advantages
        self._summaries[mode].add(batch, result)
        if mode == "train":
            self._seen_of_step += 1
        if mode == "eval" or self.accelerator.sync_gradients:  # the last micro-batch of an optimizer step
            append_all(self._metrics[mode], self._summaries[mode].pop(self.accelerator))
            for shaper in self.shapers.values():
                append_all(self._metrics[mode], shaper.metrics())
        if mode == "train" and self.accelerator.sync_gradients:
            self._seen_of_step = 0

    def _sees_something_new(self, inputs: dict[str, Any]) -> bool:
        """Whether an optimizer step begins, or a rollout that has not been scored: several may make one step."""
        begins_rollout = self._step % self._steps_per_rollout() == 0
        return self._seen_of_step == 0 if OLD_LOGPS in inputs else begins_rollout

    def _token_batch(self, inputs: dict[str, Any], logps: Tensor, entropies: Tensor) -> TokenBatch:
        mask = loss_mask(inputs)
        old_logps, log_ratio = inputs.get("old_per_token_logps", logps), None
        if self.importance_sampling_level == "sequence":
            # As the loss takes it: the mean log-ratio of the sequence's tokens, of the finite ones.
            log_ratio = mean_of_tokens(logps - old_logps, mask).nan_to_num(0.0).unsqueeze(1)
        advantages = inputs["advantages"]
        clips = self.loss_type in CLIPPED_LOSSES
        return TokenBatch(
            logps=logps,
            old_logps=old_logps,
            entropies=entropies,
            old_entropies=inputs.get(OLD_ENTROPIES, entropies),
            advantages=advantages.unsqueeze(1) if advantages.dim() == 1 else advantages,
            mask=mask,
            epsilon_low=self.epsilon_low if clips else float("inf"),
            epsilon_high=self.epsilon_high if clips else float("inf"),
            draws=self._draws(inputs, logps),
            log_ratio=log_ratio,
        )

    def _draws(self, inputs: dict[str, Any], logps: Tensor) -> Tensor | None:
        if not any(shaper.random for shaper in self.shapers.values()):
            return None
        rows = inputs.get(ROWS, torch.arange(len(logps), device=logps.device))  # evaluation has no whole rollout
        return uniform(self.args.seed, self.state.global_step, rows, logps.size(1))

    # The optimizer step: what the tokens of several micro-batches are compared with must be known in the first.

    def _measure_step(self, inputs: dict[str, Any], first: TokenBatch) -> dict[str, Tensor | None] | None:
        """What the tokens of this optimizer step are compared with; `None` where each micro-batch is on its own.

        The loss's own forward pass has just scored the `first` micro-batch. The others are scored now, unless the
        rollout's score says what is asked.
        """
        args, is_scored = self.args, OLD_LOGPS in inputs
        whole_step = args.shaping_scope != "micro_batch"
        asks_for_entropy = not is_scored and any(shaper.needs_rollout_entropy for shaper in self.shapers.values())
        if not (asks_for_entropy or (whole_step and compares_tokens(self.shapers))):
            return None
        start = self._step % args.steps_per_generation
        count = min(args.gradient_accumulation_steps, args.steps_per_generation)
        others = self._buffered_inputs[start + 1 : start + count]
        is_on_policy = self._step % (args.steps_per_generation * self.num_iterations) == 0
        if is_scored and (is_on_policy or args.shaping_scope == "step"):
            batches = [self._token_batch(i, i[OLD_LOGPS], i[OLD_ENTROPIES]) for i in (inputs, *others)]
        else:
            batches = [first, *(self._token_batch(i, *self._score(i)) for i in others)]
        batch = TokenBatch.merged(batches)
        if not is_scored:  # the step is the whole rollout then, before any update with it
            self._on_rollout(batch.entropies, batch.mask)
        return measured(self.shapers, batch, all_ranks) if whole_step else None
