"""Wraps TRL's private names in functions for the rest of this package.

`GRPOTrainer` is TRL's class at run time. For a type checker, it is a subclass with more exact annotations. Only this
module uses TRL's private names, except that `trainer.py` overrides some of TRL's private methods. The tests in
`tests/trainer/test_contract.py` mirror this file. Read them when TRL changes.
"""

import inspect
import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial, wraps
from types import CodeType
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from datasets import Dataset, DatasetDict, IterableDataset, IterableDatasetDict
from torch import Tensor
from transformers import PreTrainedModel, PreTrainedTokenizerBase
from trl.trainer import grpo_trainer
from trl.trainer.utils import use_adapter

from steer_trl.options.trl import LOSSES
from steer_trl.support.validation import check_choice

RewardFunc = str | PreTrainedModel | Callable[..., Sequence[float | None]]
EvalDataset: TypeAlias = (
    Dataset | IterableDataset | DatasetDict | IterableDatasetDict | dict[str, Dataset | IterableDataset] | None
)

if TYPE_CHECKING:
    from collections.abc import Mapping

    import trl

    from steer_trl.config import SteerGRPOConfig

    class GRPOTrainer(trl.GRPOTrainer):
        """TRL's trainer, annotated with the types that its attributes have after construction."""

        args: SteerGRPOConfig
        model: PreTrainedModel
        num_generations: int
        pad_to_multiple_of: int | None
        _logs: dict[str, Any]
        _buffered_inputs: list[dict[str, Any]]  # type: ignore[assignment]  # TRL declares the None it begins with
else:
    from trl import GRPOTrainer

TAGS: tuple[str, ...] = tuple(GRPOTrainer._tag_names)
"""The tags that TRL gives to models on the Hub."""

FORWARD_ARGUMENTS = list(inspect.signature(GRPOTrainer._get_per_token_logps_and_entropies).parameters)[2:]
"""The names of the forward pass's arguments after `model`. A rollout stores images and token types under these names.
"""

MEANS = {
    *("entropy", "kl", "cispo_clip_ratio", "vespo/phi_seq_mean", "aux_loss", "policy_loss"),
    *("clip_ratio/low_mean", "clip_ratio/high_mean", "clip_ratio/region_mean", "clip_ratio/low_min"),
    "clip_ratio/high_max",
}
"""The log's keys to which each micro-batch adds a value."""


# The class of the trainer.


def is_overridden(trainer: GRPOTrainer, name: str) -> bool:
    """Return whether a subclass, or the trainer itself, replaces the method `name` of TRL's trainer or of ours."""
    return bool(_overrides(trainer, name))


def is_replaced(trainer: GRPOTrainer, name: str) -> bool:
    """Return whether a subclass overrides the method `name` without calling the method of its parent.

    This is judged by the names in the code of each override, because no override is called here.
    """
    return not all(_calls_parent(function, name) for function in _overrides(trainer, name))


def class_of_override(trainer: GRPOTrainer, *names: str) -> str | None:
    """Return the first of the methods `names` that is overridden, with the name of its class; `None` if none is."""
    for name in names:
        if is_overridden(trainer, name):
            owners = (
                parent.__name__ for parent in type(trainer).__mro__ if name in vars(parent) and _is_users(parent)
            )
            return f"{next(owners, 'the trainer')}.{name}"
    return None


def _overrides(trainer: GRPOTrainer, name: str) -> list[Callable[..., Any]]:
    """Return the functions with which a subclass or the trainer itself overrides the method `name`."""
    of_trainer: Any = vars(trainer).get(name)
    is_of_trainer = of_trainer is not None and not isinstance(of_trainer, _Interceptor)
    of_classes = [vars(parent)[name] for parent in type(trainer).__mro__ if name in vars(parent) and _is_users(parent)]
    return [of_trainer, *of_classes] if is_of_trainer else of_classes


def _is_users(parent: type) -> bool:
    """Return whether a class of the trainer is neither TRL's, with its parents, nor ours."""
    return parent not in GRPOTrainer.__mro__ and parent.__module__.partition(".")[0] != "steer_trl"


def _calls_parent(function: Callable[..., Any], name: str) -> bool:
    code = getattr(inspect.unwrap(function), "__code__", None)
    return code is None or not {"super", "__class__", name}.isdisjoint(_names_in(code))


def _names_in(code: CodeType) -> set[str]:
    """Return the names that a function's code reads, with those of the functions inside it."""
    inner = (constant for constant in code.co_consts if isinstance(constant, CodeType))
    return {*code.co_names, *code.co_freevars}.union(*map(_names_in, inner))


def loss_complaints(args: Any) -> list[str]:
    """Return a complaint if the installed TRL has no loss with the name `args.loss_type`."""
    return [] if has_loss(str(args.loss_type)) else check_choice("loss_type", args.loss_type, LOSSES)


def has_loss(name: str) -> bool:
    """Return whether the installed TRL has a loss of this name.

    The names of the losses are strings in the code of TRL's loss. If the usual ones are not there, a later version of
    TRL chooses its losses in another way, and every name is accepted.
    """
    strings = _strings_in(inspect.unwrap(GRPOTrainer._compute_loss).__code__.co_consts)
    return name in strings or not LOSSES.keys() <= strings


def _strings_in(constants: tuple[Any, ...]) -> set[str]:
    """Return the strings among a function's constants, with those inside tuples."""
    inner = (one for one in constants if isinstance(one, tuple))
    return {one for one in constants if isinstance(one, str)}.union(*map(_strings_in, inner))


class _Interceptor:
    """A method of a trainer, called through the function of [`intercept`].

    Calls that the method makes of itself while it runs are not intercepted.
    """

    def __init__(self, function: Callable[..., Any], complete: Callable[..., Any]) -> None:
        self._function = function
        self._complete = complete
        self._is_running = False

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if self._is_running:
            return self._complete(*args, **kwargs)
        self._is_running = True
        try:
            return self._function(self._complete, *args, **kwargs)
        finally:
            self._is_running = False


@contextmanager
def intercept(trainer: GRPOTrainer, **functions: Callable[..., Any]) -> Iterator[None]:
    """Inside the `with` block, call `function(complete, ...)` wherever TRL calls the trainer's method of that name.

    `complete` is the method with everything that subclasses make of it. So a function of ours reads, or replaces, what
    TRL itself would get.
    """
    of_trainer = {name: vars(trainer)[name] for name in functions if name in vars(trainer)}
    for name, function in functions.items():
        vars(trainer)[name] = _Interceptor(function, getattr(trainer, name))
    try:
        yield
    finally:
        for name in functions:
            vars(trainer).pop(name, None)
        vars(trainer).update(of_trainer)


@contextmanager
def intercept_trl(trainer: GRPOTrainer, **functions: Callable[..., Any]) -> Iterator[None]:
    """Inside the `with` block, call `function(complete, ...)` wherever TRL's own method of that name is called.

    `complete` is TRL's method alone. What subclasses add to it stays outside, also if they stand between this package
    and TRL among the trainer's parents, where `super()` reaches TRL without us. Other trainers call TRL's method.
    """
    # A patched or a later TRL may have a method in a parent of its class.
    owners = {name: next(kind for kind in GRPOTrainer.__mro__ if name in vars(kind)) for name in functions}
    methods = {name: vars(owner)[name] for name, owner in owners.items()}
    for name, function in functions.items():
        setattr(owners[name], name, _replace_for(trainer, methods[name], function))
    try:
        yield
    finally:
        for name, method in methods.items():
            setattr(owners[name], name, method)


def late(parents: Any, name: str) -> Callable[..., Any]:
    """Return a function that calls the method `name` of `super()`, given as `parents`.

    The method is looked up when the function is called, so that it may be inside [`intercept_trl`] by then.
    """
    return lambda *args, **kwargs: getattr(parents, name)(*args, **kwargs)


def _replace_for(trainer: GRPOTrainer, method: Callable[..., Any], function: Callable[..., Any]) -> Callable[..., Any]:
    """Return TRL's `method`, which calls `function` if it is called for `trainer`."""

    @wraps(method)
    def replaced(called: GRPOTrainer, *args: Any, **kwargs: Any) -> Any:
        if called is not trainer:
            return method(called, *args, **kwargs)
        return function(partial(method, called), *args, **kwargs)

    return replaced


# The position of a training run.


def steps_per_rollout(trainer: GRPOTrainer) -> int:
    """Return the number of micro-batches that are trained on per rollout, over all iterations."""
    return trainer.args.steps_per_generation * trainer.num_iterations


class Position(NamedTuple):
    """The place of the current micro-batch in its rollout and in its optimizer step.

    Attributes:
        of_run (`int`): the number of micro-batches of the run before it.
        per_step (`int`): the number of micro-batches of the same rollout in one optimizer step.
        per_iteration (`int`): the number of micro-batches into which a rollout is split.
        per_rollout (`int`): the number of micro-batches that are trained on per rollout, over all iterations.
        per_update (`int`): the number of micro-batches in one optimizer step, of whatever rollouts.
    """

    of_run: int
    per_step: int
    per_iteration: int
    per_rollout: int
    per_update: int

    @property
    def of_rollout(self) -> int:
        """The number of micro-batches of the rollout before it, over all iterations."""
        return self.of_run % self.per_rollout

    @property
    def of_iteration(self) -> int:
        """The number of the micro-batch, counted from 0, among those into which the rollout is split."""
        return self.of_run % self.per_iteration

    @property
    def is_first_of_rollout(self) -> bool:
        """Whether no micro-batch of the rollout was trained on before."""
        return self.of_rollout == 0

    @property
    def is_in_first_step(self) -> bool:
        """Whether the policy was not updated since the rollout."""
        start = self.of_run - self.of_rollout
        return self.of_run // self.per_update == start // self.per_update

    @property
    def is_in_first_iteration(self) -> bool:
        """Whether the micro-batch is trained on for the first time."""
        return self.of_rollout < self.per_iteration

    @property
    def has_rollout_in_step(self) -> bool:
        """Whether the whole rollout is trained on in one optimizer step, and only once."""
        return self.per_rollout == self.per_step


def find_position(trainer: GRPOTrainer) -> Position:
    """Return where the next micro-batch stands, or the one whose loss is being computed."""
    per_iteration = trainer.args.steps_per_generation
    per_update = trainer.args.gradient_accumulation_steps
    per_step = min(per_update, per_iteration)
    return Position(micro_batches_done(trainer), per_step, per_iteration, steps_per_rollout(trainer), per_update)


def rest_of_step(trainer: GRPOTrainer) -> list[dict[str, Any]]:
    """Return the micro-batches of the same rollout that follow the current one, the first of an optimizer step."""
    position = find_position(trainer)
    first = position.of_iteration
    return micro_batches_of_rollout(trainer)[first + 1 : first + position.per_step]


def micro_batches_of_this_step(trainer: GRPOTrainer) -> int:
    """Return the number of micro-batches in the current optimizer step; the last one of an epoch may have fewer."""
    return trainer.current_gradient_accumulation_steps


def micro_batches_done(trainer: GRPOTrainer) -> int:
    """Return the number of micro-batches trained on so far, including those before a resume."""
    return trainer._step


def micro_batches_of_rollout(trainer: GRPOTrainer) -> list[dict[str, Any]]:
    """Return the micro-batches of the current rollout, as TRL shuffled and split it."""
    return trainer._buffered_inputs


def current_micro_batch(trainer: GRPOTrainer) -> dict[str, Any] | None:
    """Return the micro-batch whose loss is being computed, as TRL has split the rollout.

    It is `None` if a subclass hands out micro-batches of its own.
    """
    of_rollout = micro_batches_of_rollout(trainer)
    place = find_position(trainer).of_iteration
    return of_rollout[place] if place < len(of_rollout) else None


def continue_rollout(trainer: GRPOTrainer, micro_batches: int, of_rollout: list[dict[str, Any]] | None = None) -> None:
    """Let TRL continue after `micro_batches` micro-batches of the run.

    If `of_rollout` is given, its micro-batches replace those of TRL's current rollout.
    """
    trainer._step = micro_batches
    if of_rollout is not None:
        trainer._buffered_inputs = of_rollout


def forget_rollout(trainer: GRPOTrainer) -> None:
    """Discard an interrupted rollout and its pending metrics, so that training starts with a new one.

    vLLM gets the weights again, which the interrupted run may have changed.
    """
    continue_rollout(trainer, 0, [])
    trainer._last_loaded_step = -1
    trainer._entropy_window_stats = None
    trainer._current_train_step_time = 0.0
    for rest in (trainer._metrics["train"], trainer._pending_metrics, trainer._pending_extra_logs):
        rest.clear()


# Generation.


def count_written(generated: tuple[Any, ...]) -> list[int]:
    """Return the number of tokens that the policy wrote in each completion that TRL's `_generate` returned."""
    _, completion_ids, tool_masks, *_ = generated
    return list(map(len, completion_ids) if tool_masks is None else map(sum, tool_masks))


def find_images(trainer: GRPOTrainer, prompts: list[Any]) -> list[list[Any] | None] | None:
    """Return the images in the messages of each of the `prompts`; `None` if no message has any."""
    return trainer._tokenize_prompts(prompts)[1]


# The loss.


def set_entropy_bonus(trainer: GRPOTrainer, coefficient: float) -> None:
    """Set TRL's entropy-bonus coefficient for the current loss; 0 disables it."""
    trainer.entropy_coef = coefficient
    trainer._entropy_bonus_enabled = coefficient != 0


@contextmanager
def use_beta(trainer: GRPOTrainer, beta: float) -> Iterator[None]:
    """Give TRL's KL penalty the coefficient `beta` in a loss that is computed inside; 0 disables it."""
    before = trainer.beta
    trainer.beta = beta
    try:
        yield
    finally:
        trainer.beta = before


@contextmanager
def build_reference(trainer: GRPOTrainer, args: "SteerGRPOConfig") -> Iterator[None]:
    """Let TRL's constructor, called inside, make the reference model although `beta` is 0."""
    beta = args.beta
    args.beta = 1.0
    try:
        yield
    finally:
        args.beta = beta
        trainer.beta = beta


@contextmanager
def intercept_sharding(function: Callable[..., Any]) -> Iterator[None]:
    """Let TRL's constructor, called inside, call `function(shard, model, accelerator)` to shard a reference with FSDP.

    `shard` is TRL's function.
    """
    shard = grpo_trainer.prepare_fsdp
    grpo_trainer.prepare_fsdp = partial(function, shard)
    try:
        yield
    finally:
        grpo_trainer.prepare_fsdp = shard


@contextmanager
def reference_of(trainer: GRPOTrainer) -> Iterator[Any]:
    """Yield the model whose pass is that of the reference, as in TRL.

    With an adapter, it is the policy without it, or with the adapter that the run began with.
    """
    if trainer.ref_model is not None:
        yield trainer.ref_model
        return
    policy: Any = trainer.accelerator.unwrap_model(trainer.model)
    with use_adapter(policy, adapter_name="ref" if "ref" in policy.peft_config else None):
        yield trainer.model


# The log, whose entries TRL averages.


def append_to_log(trainer: GRPOTrainer, metrics: "Mapping[str, float]") -> None:
    """Append each of the `metrics` to the training log, or to the evaluation log during an evaluation.

    A value that is not finite is left out. TRL would log `None` for it, and scripts that format numbers would fail.
    """
    mode = "train" if trainer.model.training else "eval"
    for key, value in metrics.items():
        if math.isfinite(value):
            trainer._metrics[mode][key].append(value)


def log_total(trainer: GRPOTrainer, totals: "Mapping[str, float]") -> None:
    """Log running totals; each replaces its previous value instead of being averaged."""
    for key, value in totals.items():
        trainer._metrics["train"][key] = [value]


def replace_last(trainer: GRPOTrainer, metrics: "Mapping[str, float]") -> None:
    """Replace the last values that TRL logged under the keys of `metrics`. Raises `KeyError` for a key without any."""
    # TRL's log adds missing keys by itself. In a plain dictionary, a missing key raises an error.
    log = dict(trainer._metrics["train"])
    for key, value in metrics.items():
        log[key][-1] = value


def replace_column(trainer: GRPOTrainer, column: str, values: Sequence[float]) -> None:
    """Replace the last `values` that TRL appended to a column of its table of completions (`log_completions`)."""
    table = trainer._logs[column]
    for _ in values:
        table.pop()
    table.extend(values)


def remove_last(trainer: GRPOTrainer, keys: Iterable[str]) -> None:
    """Remove the last value that TRL logged under each of the `keys`. Raises `KeyError` for a key without any."""
    log = trainer._metrics["train"]
    for key in keys:
        dict(log)[key].pop()
        # TRL logs `None` for a key without values.
        if not log[key]:
            del log[key]


def average_new_means(trainer: GRPOTrainer, done: dict[str, int]) -> None:
    """Replace the means that the micro-batches of an optimizer step have logged by one mean for each key.

    `done` maps each key to the number of logged values of earlier steps, and is updated.
    """
    log = trainer._metrics["train"]
    for key in MEANS & log.keys():
        first = done.get(key, 0)
        # As in TRL, NaN stands for no value.
        new = [value for value in log[key][first:] if value == value]
        if new:
            log[key][first:] = [sum(new) / len(new)]
        done[key] = len(log[key])


def extra_columns(trainer: GRPOTrainer) -> dict[str, list[Any]]:
    """Return TRL's dictionary of values that reward functions passed to `log_extra` for this rollout."""
    return trainer._pending_extra_logs


def logged_column(trainer: GRPOTrainer, column: str) -> list[Any]:
    """Return a column that a reward function gave to TRL's table of completions (`log_extra`); empty if none did."""
    return list(trainer._logs["extra"].get(column, []))


# The model.


def tokenizer_of(trainer: GRPOTrainer) -> PreTrainedTokenizerBase:
    """Return the trainer's tokenizer, which may be part of a processor."""
    return trainer._tokenizer


def forward(trainer: GRPOTrainer, *args: Any, **inputs: Any) -> tuple[Tensor, Tensor, Any]:
    """Run the trainer's own forward pass, with everything that subclasses make of it.

    Return log-probabilities and entropies `[B, T]`, and the auxiliary loss.
    """
    return trainer._get_per_token_logps_and_entropies(*args, **inputs)


def calculate_rewards(trainer: GRPOTrainer, *args: Any) -> Tensor:
    """Return the rewards `[N, functions]` of the N completions of all ranks. Collective."""
    return trainer._calculate_rewards(*args)


def draw(trainer: GRPOTrainer, prompts: Sequence[Any]) -> list[list[int]]:
    """Generate one completion for each prompt with the trainer's own engine.

    Return the completions' token ids.
    """
    prompt_ids, images, fields = trainer._tokenize_prompts(list(prompts))
    return [list(ids) for ids in trainer._generate_single_turn(prompt_ids, images, fields, num_generations=1)[0]]
