"""`SteerGRPOTrainer`: every hook of TRL's that this package overrides, in the order in which TRL calls them.

    1  a rollout is written          sampling/       other prompts' groups for those that teach nothing
                                     rollout.py      its score, and the methods that compare completions of a prompt
                                     padding.py      its completions by length, and passes without padding
    2  a micro-batch is trained on   inputs.py       TRL's dictionary as a `TokenBatch`
                                     step.py         what tokens are compared with, the shaped advantages, the log
                                     tokens/         now and then, what became of single tokens
    3  a checkpoint                  checkpoint.py
    4  an evaluation                 benchmarks.py
    5  the Hub                       ../hub/

The idea is in 2. TRL's loss runs the model's forward pass first and reads `inputs["advantages"]` afterwards, and takes
them per token. So the loss is given a copy of its inputs, and the moment the forward pass has returned
log-probabilities and entropies, the shaped advantages are written into that copy. No second forward pass, no copied
line of TRL's loss. A copy, because TRL hands the same dictionary out again when a rollout is used more than once.
"""

import inspect
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from datasets import Dataset, IterableDataset
from torch import Tensor, nn
from torch.optim import Optimizer
from torch.optim.lr_scheduler import LambdaLR
from tqdm.contrib.logging import logging_redirect_tqdm
from transformers import PreTrainedTokenizerBase, ProcessorMixin, TrainerCallback
from transformers.trainer_utils import PREFIX_CHECKPOINT_DIR, EvalLoopOutput
from trl.trainer.grpo_trainer import EnvironmentFactory, RolloutFunc
from trl.trainer.utils import get_config_model_id

from steer_trl.callbacks.alarms import Alarms
from steer_trl.callbacks.remarks import remark_other_policies
from steer_trl.callbacks.run_log import RunLog, is_at_its_end
from steer_trl.config import SteerGRPOConfig
from steer_trl.diagnostics.watch import Watch
from steer_trl.evaluation import BenchmarkEvaluation
from steer_trl.hub.push import pushing
from steer_trl.shaping import make_loops, make_shapers, short_name
from steer_trl.trainer.benchmarks import BenchmarkRuns, benchmarks_complaints
from steer_trl.trainer.callbacks.cards import ModelCards
from steer_trl.trainer.callbacks.terminal import show_lines
from steer_trl.trainer.checkpoint import Stateful, load_state, naming_full_disk, save_state
from steer_trl.trainer.checks.compiled import check_compiled
from steer_trl.trainer.checks.preflight import check_chat_template, check_trainer_arguments
from steer_trl.trainer.generated import GeneratedTokens
from steer_trl.trainer.head_pass import scored_pass
from steer_trl.trainer.log.start_entropy import StartEntropy
from steer_trl.trainer.padding import Padding
from steer_trl.trainer.resume import starting_point
from steer_trl.trainer.rollout import RolloutShaping
from steer_trl.trainer.sampling.resample import make_sampling
from steer_trl.trainer.step import OptimizerStep
from steer_trl.trainer.tokens.samples import TokenLog
from steer_trl.trainer.trl import TAGS, EvalDataset, GRPOTrainer, RewardFunc, forget_rollout
from steer_trl.trainer.vllm_server import naming_server
from steer_trl.validation import refuse

if TYPE_CHECKING:
    from peft import PeftConfig, PeftModel
    from transformers import BitsAndBytesConfig, PreTrainedModel

OF_TRL = tuple(inspect.signature(GRPOTrainer).parameters)
"""The arguments of TRL's trainer, which ours are written out from, so that an editor knows them."""


class SteerGRPOTrainer(GRPOTrainer):
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
        model, reward_funcs, train_dataset, ..., environment_factory: as in [`~trl.GRPOTrainer`].
        args ([`SteerGRPOConfig`], *optional*): configuration; the defaults of [`SteerGRPOConfig`] if `None`.
        benchmarks ([`~steer_trl.evaluation.BenchmarkEvaluation`], *optional*): evaluate on these as well, whenever the
            trainer evaluates; without an `eval_dataset`, on these only.

    Raises:
        `TypeError`: `args` is a plain `GRPOConfig`.
        `ValueError`: a data set that fills no rollout, or whose answers cannot be scored; conversations for a
            tokenizer without a chat template.
    """

    def __init__(
        self,
        model: "str | PreTrainedModel | PeftModel",
        reward_funcs: RewardFunc | list[RewardFunc] | None = None,
        args: SteerGRPOConfig | None = None,
        train_dataset: Dataset | IterableDataset | None = None,
        eval_dataset: EvalDataset = None,
        processing_class: PreTrainedTokenizerBase | ProcessorMixin | None = None,
        reward_processing_classes: PreTrainedTokenizerBase | list[PreTrainedTokenizerBase] | None = None,
        callbacks: list[TrainerCallback] | None = None,
        optimizers: tuple[Optimizer | None, LambdaLR | None] = (None, None),
        quantization_config: "BitsAndBytesConfig | None" = None,
        peft_config: "PeftConfig | None" = None,
        tools: list[Callable] | None = None,
        rollout_func: RolloutFunc | None = None,
        environment_factory: EnvironmentFactory | dict[str, EnvironmentFactory] | None = None,
        *,
        benchmarks: BenchmarkEvaluation | None = None,
    ) -> None:
        given = {name: value for name, value in locals().items() if name in OF_TRL}
        check_trainer_arguments(given)
        refuse(benchmarks_complaints(benchmarks), "SteerGRPOTrainer")
        self.benchmarks, self.benchmark_runs = benchmarks, BenchmarkRuns(benchmarks, given)
        if args is None:
            name = model if isinstance(model, str) else get_config_model_id(model.config)
            given["args"] = args = SteerGRPOConfig(f"{name.split('/')[-1]}-SteerGRPO")
        self.was_finished = self._is_spent = False
        self.shapers = make_shapers(args)
        self.loops = make_loops(args, self.shapers)
        self.is_compiled = check_compiled(args, self.shapers, model)
        self.tags = self._tag_names = [*TAGS, *map(short_name, self.shapers)]
        self.alarms, self.sampling = Alarms(Watch()), make_sampling(self, args)
        self.generated, self.padding = GeneratedTokens(self), Padding(self, args.skips_padding)
        self.stateful: dict[str, Stateful] = {**self.shapers, **{loop.name: loop for loop in self.loops}}
        self.stateful |= {"alarms": self.alarms.watch, "generated": self.generated}
        start = self.stateful["start_entropy"] = StartEntropy(args)
        self.rollouts = RolloutShaping(self, self.shapers, self.loops, self.generated, start)
        self.tokens = self.stateful["tokens"] = TokenLog(self, self.rollouts)
        self.step = OptimizerStep(self, self.shapers, self.loops, self.rollouts, self.tokens)
        self.cards = ModelCards(self, self.shapers, benchmarks)
        self._train_sampler: Any = None  # a streamed data set has none
        super().__init__(**given)
        check_chat_template(self)
        if self.is_world_process_zero():
            remark_other_policies(args, self.model)
        self.add_callback(self.step)
        self.add_callback(self.generated)
        if args.terminal_log == "lines":
            show_lines(self)
        if args.run_log:
            self.add_callback(RunLog(self.cards.description))
        if args.alarms:
            self.add_callback(self.alarms)
        args.seal()

    # 1  A rollout is written.

    def _generate(self, prompts: list[Any]) -> tuple[Any, ...]:
        generate = self.generated.counted(naming_server(self)(super()._generate))
        generated = self.sampling.generated(prompts, generate, super()._calculate_rewards)
        self.rollouts.keep_written(generated)
        return generated

    def _calculate_rewards(self, *args: Any, **kwargs: Any) -> Tensor:
        score = partial(super()._calculate_rewards, *args, **kwargs)
        self.rollouts.rewards_per_function = self.sampling.rewards(score)
        return self.rollouts.rewards_per_function

    def _generate_and_score_completions(self, inputs: list[dict[str, Any]]) -> dict[str, Any]:
        write = super()._generate_and_score_completions
        if not self.model.training:  # evaluation never moves a method's state
            return self.tokens.mark(write(inputs))
        with self.sampling.choosing(inputs, write) as chosen, self.rollouts.recording(chosen):
            rollout = write(chosen)
        rollout = self.rollouts.finish(rollout, completions_before=self.step.completions_so_far)
        return self.tokens.mark(rollout)

    def _prepare_inputs(self, generation_batch: Any) -> Any:
        return self.padding.ordered(super()._prepare_inputs(generation_batch))

    # 2  A micro-batch is trained on.

    def compute_loss(
        self, model: nn.Module, inputs: dict[str, Any], return_outputs: bool = False, num_items_in_batch: Any = None
    ) -> Tensor:
        """Compute TRL's loss on shaped advantages; `inputs` is left as it is."""
        with self.step.loss_of(inputs) as copy:
            loss = super().compute_loss(model, copy, return_outputs, num_items_in_batch)
        self.padding.loss_logged()
        self.sampling.loss_logged(inputs)
        return loss

    def _get_per_token_logps_and_entropies(
        self, model: nn.Module, *args: Any, **kwargs: Any
    ) -> tuple[Tensor, Tensor | None, Any]:
        is_recorded = self.rollouts.is_recording and model is self.model
        if is_recorded:
            kwargs["compute_entropy"] = True  # the policy's head computes them anyway; a reference model's cannot
        part = self.rollouts if is_recorded else self.step
        forward_pass = super()._get_per_token_logps_and_entropies
        outputs, score = scored_pass(self, forward_pass, part.wants_sensitivities, model, *args, **kwargs)
        part.see(score)
        return outputs

    # 3  A checkpoint.

    def train(self, resume_from_checkpoint: str | bool | None = None, *args: Any, **kwargs: Any) -> Any:
        """Train as TRL does. A finished run is loaded, trained no further, and none of its files changes.

        Args:
            resume_from_checkpoint (`str` or `bool`, *optional*): the folder of a checkpoint; `True` for the last
                complete one in `output_dir`; `"auto"` for the same if there is one, and step 0 otherwise.

        Raises:
            `ValueError`: there is no complete checkpoint, or it is of another run than the one in `output_dir`.
        """
        checkpoint = starting_point(resume_from_checkpoint, self.args.output_dir)
        if self.shapers or self.args.dynamic_sampling != "none":  # else as TRL does
            forget_rollout(self)
        self.step.begin_training()
        self._is_spent = self.generated.begin(checkpoint)
        with logging_redirect_tqdm():  # an alarm stands on a line of its own, above the progress bar
            return super().train(checkpoint, *args, **kwargs)

    def _init_training_state(self, *args: Any, **kwargs: Any) -> tuple[int, int]:
        self.sampling.read(self._train_sampler)  # here, once: a callback may make another data loader at any time
        first_epoch, first_batch = super()._init_training_state(*args, **kwargs)
        if self._is_spent:
            self.state.max_steps = self.state.global_step
        self.was_finished = is_at_its_end(self.state)
        return (self.state.num_train_epochs, 0) if self.was_finished else (first_epoch, first_batch)

    def _save_checkpoint(self, model: nn.Module, trial: Any) -> None:
        folder = Path(self._get_output_dir(trial=trial), f"{PREFIX_CHECKPOINT_DIR}-{self.state.global_step}")
        with naming_full_disk(folder):
            if not self.args.save_only_model:
                save_state(self, self.stateful, folder)
                self.sampling.save(folder)
            super()._save_checkpoint(model, trial)

    def _get_train_sampler(self, dataset: Any = None) -> Any:
        self._train_sampler = super()._get_train_sampler(dataset)
        return self._train_sampler

    def _load_optimizer_and_scheduler(self, checkpoint: str | None) -> None:
        super()._load_optimizer_and_scheduler(checkpoint)
        if checkpoint is not None:
            load_state(self, self.stateful, self._train_sampler, Path(checkpoint))
            self.sampling.load(Path(checkpoint))

    # 4  An evaluation.

    def evaluate(
        self, eval_dataset: Any = None, ignore_keys: list[str] | None = None, metric_key_prefix: str = "eval"
    ) -> dict[str, float]:
        """Evaluate as TRL does on the `eval_dataset`, if there is one, and on the benchmarks.

        The benchmarks are not for a data set that is given here. With several named ones they come with the first.
        """
        with self.benchmark_runs.of_evaluation(self, eval_dataset, metric_key_prefix):
            return super().evaluate(eval_dataset, ignore_keys, metric_key_prefix)

    def evaluation_loop(self, *args: Any, **kwargs: Any) -> EvalLoopOutput:
        """Run TRL's loop, or the benchmarks, or both; see [`evaluate`]."""
        if not self.benchmark_runs.are_due:
            return super().evaluation_loop(*args, **kwargs)
        output = super().evaluation_loop(*args, **kwargs) if self.benchmark_runs.beside_rewards else None
        return self.benchmark_runs.add_metrics(self, output)

    # 5  The Hub.

    def create_model_card(  # type: ignore[override]  # TRL's signature, which is not Transformers'
        self,
        model_name: str | None = None,
        dataset_name: str | list[str] | None = None,
        tags: str | list[str] | None = None,
    ) -> None:
        """Write the model card to `output_dir`. What is given here stays in the cards of later checkpoints.

        Args:
            model_name (`str`, *optional*): name of the model; by default that of its repository or folder.
            dataset_name (`str` or `list[str]`, *optional*): name on the Hub of what it was trained on; by default what
                [`~steer_trl.data.load_math_dataset`] has loaded from there.
            tags (`str` or `list[str]`, *optional*): more tags.
        """
        self.cards.keep(model_name=model_name, dataset_name=dataset_name, tags=tags)
        self.cards.write(Path(self.args.output_dir))

    def save_model(self, output_dir: str | None = None, _internal_call: bool = False) -> None:
        """Save the model and its card; push them as well if `push_to_hub` is set, as TRL does."""
        super().save_model(output_dir, _internal_call)
        folder = output_dir or self.args.output_dir
        if _internal_call or not self.args.push_to_hub or folder != self.args.output_dir:  # else the push wrote it
            self.cards.write(Path(folder))

    def push_to_hub(self, *args: Any, **kwargs: Any) -> Any:
        """Save the model and its card to `output_dir` and upload it; arguments as in [`~transformers.Trainer`].

        Raises:
            `PushError`: it did not arrive. Everything is in `output_dir`, and the text has the command that pushes it.
        """
        with pushing(self):
            return super().push_to_hub(*args, **kwargs)
