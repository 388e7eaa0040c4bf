"""A twin of a trainer, whose training stops right before its first update.

The twin is an object of the trainer's class with the same model, data, rewards and engine, and with its own copies of
all that a training run writes to: the attributes of the trainer, TRL's logs, Accelerate's state, the configuration and
the parts of this package. So nothing of the trainer has to be restored, except the state that it shares with the twin:

    the random states, the gradients, the modes of the model's modules, and what Accelerate writes into the model

The twin runs the real training loop. Callbacks of the user are left out, because they may write files or begin a run
of a tracker. `output_dir` is a temporary folder.
"""

import copy
import gc
import tempfile
from collections import defaultdict, deque
from collections.abc import Iterator
from contextlib import contextmanager
from types import MethodType
from typing import Any, NoReturn

from accelerate.state import GradientState
from torch import nn
from transformers import DefaultFlowCallback, TrainerCallback, TrainerControl, TrainerState
from transformers.trainer_callback import CallbackHandler

from steer_trl.support.exceptions import CannotContinueError
from steer_trl.support.randomness import keep_every_random_state
from steer_trl.trainer.dry_run.twin_reading import TwinReading
from steer_trl.trainer.parts import Parts
from steer_trl.trainer.trl import intercept

SILENT = {"report_to": [], "push_to_hub": False, "eval_on_start": False, "alarms": False, "run_log": False}
SILENT |= {"log_tokens": 0}
"""The settings of a twin with which it writes and reports nothing."""


class UpdateReached(Exception):
    """Raised to leave the training loop right before the first update of the model."""


class StopBeforeUpdate(TrainerCallback):
    """Tells a [`TwinReading`] of the `twin` when the step begins and ends, and leaves the training loop at its end."""

    def __init__(self, twin: Any, reading: TwinReading) -> None:
        self._twin = twin
        self._reading = reading

    def on_train_begin(self, args: Any, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Begin to read. Replace the step of DeepSpeed's engine, which Accelerate calls in the last backward pass."""
        wrapped = getattr(self._twin.accelerator, "deepspeed_engine_wrapped", None)
        if wrapped is not None:
            wrapped.engine.step = self._stop
        self._reading.begin()

    def on_pre_optimizer_step(self, args: Any, state: TrainerState, control: TrainerControl, **_: Any) -> None:
        """Leave the training loop. The gradients are complete, and clipped."""
        self._stop()

    def _stop(self, *_: Any, **__: Any) -> NoReturn:
        self._reading.finish()
        raise UpdateReached


@contextmanager
def lend_twin(trainer: Any) -> Iterator[Any]:
    """Yield a twin of `trainer`, and put back afterwards what it shares with the trainer."""
    gradient_state = GradientState()
    shared = dict(vars(gradient_state))
    references = list(gradient_state.dataloader_references)
    with (
        tempfile.TemporaryDirectory(prefix="steer_trl_dry_run_") as folder,
        keep_every_random_state(trainer.accelerator.device),
        keep_model(trainer.model),
        keep_optimizer(trainer.optimizer),
    ):
        twin = make_twin(trainer, folder)
        try:
            yield twin
        finally:
            twin.accelerator.free_memory()
            vars(gradient_state).update(shared)
            gradient_state.dataloader_references[:] = references
            # DistributedDataParallel removes its hooks from the parameters when it is deleted.
            vars(twin).clear()
            del twin
            gc.collect()


def make_twin(trainer: Any, folder: str) -> Any:
    """Return a twin of `trainer` that writes to `folder` if at all."""
    twin = object.__new__(type(trainer))
    vars(twin).update({name: copy_containers(value) for name, value in vars(trainer).items()})
    for name, value in vars(trainer).items():
        if isinstance(value, MethodType) and value.__self__ is trainer:
            vars(twin)[name] = MethodType(value.__func__, twin)
    twin.accelerator = copy_accelerator(trainer.accelerator)
    twin.args = copy.copy(trainer.args)
    settings = {name: value for name, value in SILENT.items() if hasattr(twin.args, name)}
    vars(twin.args).update(settings | {"output_dir": folder})
    twin.log_completions = False
    twin.control = TrainerControl()
    twin.callback_handler = CallbackHandler([DefaultFlowCallback()], twin.model, twin.processing_class, None, None)
    if "parts" in vars(trainer):
        twin.parts = Parts(twin, twin.args, twin.model, None, None)
        for callback in twin.parts.callbacks_of_training():
            twin.callback_handler.add_callback(callback)
    return twin


def copy_accelerator(accelerator: Any) -> Any:
    """Return an accelerator of the same engine with its own lists of prepared objects and its own gradient scaler."""
    copied = copy.copy(accelerator)
    vars(copied).update({name: copy_containers(value) for name, value in vars(accelerator).items()})
    copied.scaler = copy.deepcopy(accelerator.scaler)
    return copied


def copy_containers(value: Any) -> Any:
    """Return `value` with copies of the lists, dictionaries, sets and queues in it. Their other members are shared."""
    if type(value) in (list, deque):
        copied = copy.copy(value)
        for place, member in enumerate(value):
            copied[place] = copy_containers(member)
        return copied
    if type(value) in (dict, defaultdict):
        copied = copy.copy(value)
        copied.update({key: copy_containers(member) for key, member in value.items()})
        return copied
    return copy.copy(value) if type(value) is set else value


HOOKS = (
    *("_forward_hooks", "_forward_hooks_with_kwargs", "_forward_hooks_always_called"),
    *("_forward_pre_hooks", "_forward_pre_hooks_with_kwargs"),
)
"""The attributes in which a module keeps the hooks of its forward pass."""


@contextmanager
def keep_model(model: nn.Module) -> Iterator[None]:
    """Restore the modes, hooks and attributes of `model`, and remove its gradients, at the end of the `with` block."""
    modes = {module: module.training for module in model.modules()}
    hooks = [(vars(module)[name], dict(vars(module)[name])) for module in modes for name in HOOKS]
    attributes = dict(vars(model))
    try:
        yield
    finally:
        for parameter in model.parameters():
            parameter.grad = None
        # Accelerate wraps `forward` of a model in mixed precision, and would wrap it once more.
        vars(model).clear()
        vars(model).update(attributes)
        for module, mode in modes.items():
            module.training = mode
        # Transformers removes the hook of NEFTune only at the end of a training.
        for present, before in hooks:
            present.clear()
            present.update(before)


@contextmanager
def keep_optimizer(optimizer: Any) -> Iterator[None]:
    """Restore the settings of the groups of an `optimizer` that the user has made, at the end of the `with` block."""
    groups = [] if optimizer is None else optimizer.param_groups
    settings = [dict(group) for group in groups]
    try:
        yield
    finally:
        for group, before in zip(groups, settings, strict=True):
            group.clear()
            group.update(before)


def read_first_step(twin: Any) -> TwinReading:
    """Train the `twin` up to its first update. Raises `CannotContinueError` if its run ends before that."""
    reading = TwinReading(twin)
    twin.callback_handler.add_callback(StopBeforeUpdate(twin, reading))
    hooks: dict[str, Any] = {"_generate": reading.read_completions, "_calculate_rewards": reading.read_rewards}
    try:
        with intercept(twin, **hooks):
            twin.train()
    except UpdateReached:
        return reading
    finally:
        reading.end()
    raise CannotContinueError(
        "The run ends before its first update, so there is nothing to try. Give train_dataset more rows, or raise "
        "max_steps or num_train_epochs."
    )
