"""Defines `SteerGRPOConfig`, which adds the settings of this package to TRL's `GRPOConfig`.

Each method declares its settings in its own file.
"""

import json
import logging
import re
from copy import deepcopy
from dataclasses import dataclass, fields
from functools import wraps
from typing import Any

from trl import GRPOConfig

from steer_trl.entropy.checks import hold_conflicts
from steer_trl.options.base import add_help, settings_of, single_complaints
from steer_trl.options.former_names import former_complaints, take_former_values
from steer_trl.options.methods import MethodSettings
from steer_trl.options.run import RunSettings, SamplingSettings
from steer_trl.options.trl import TOKEN_WEIGHING_LOSSES, entropy_target_complaints, reward_weight_complaints
from steer_trl.shaping import SHAPERS, Reads, Shaper, find_shaper, options
from steer_trl.shaping.checks import combination_complaints, need_complaints, setting_complaints
from steer_trl.shaping.in_use import add_actuator, name_methods
from steer_trl.shaping.methods import is_import_path
from steer_trl.support.redact import allow_texts, select_public
from steer_trl.support.validation import as_tuple, did_you_mean, refuse

logger = logging.getLogger(__name__)

CONSTANT_SCHEDULES = ("constant", "constant_with_warmup")
"""Schedules whose learning rate does not depend on the length of the run."""

LICENSE = re.compile(r"[a-z0-9]+([.-][a-z0-9]+)*")


def refuse_former_names(config: type["SteerGRPOConfig"]) -> type["SteerGRPOConfig"]:
    """Let the constructor of a configuration name what replaced each former setting that it is given."""
    construct = config.__init__

    @wraps(construct)
    def construct_checked(self: "SteerGRPOConfig", *args: Any, **settings: Any) -> None:
        refuse(former_complaints(settings), "SteerGRPOConfig")
        construct(self, *args, **settings)

    config.__init__ = construct_checked  # type: ignore[method-assign]
    return config


@refuse_former_names
@add_help
@dataclass
class SteerGRPOConfig(RunSettings, SamplingSettings, MethodSettings):
    r"""
    Configuration of [`SteerGRPOTrainer`].

    It adds general settings and those of STEER, STARE and pass@k training to [`~trl.GRPOConfig`], whose fields keep
    their meaning and defaults. `docs/settings.md` lists the added fields with their ranges. The constants of other
    methods are options in `shaping_options`. By default, a method uses its authors' values where they are known.

    Before a model is loaded, one error reports all invalid values together. If there are none, one error reports all
    invalid combinations together. TRL's own checks run as well.

    Raises:
        `ValueError`: a setting is outside its range, or cannot be combined with another one.
    """

    _VALID_DICT_FIELDS = [*GRPOConfig._VALID_DICT_FIELDS, "shaping_options"]

    def __post_init__(self) -> None:
        notes = take_former_values(self)
        if self.advantage_shaping is None:
            self._set_methods(name_methods(None, self.hold_entropy))
        # TRL's checks come later because they look for devices. A misspelt method should be reported before that.
        complaints = self._name_complaints() + self._text_complaints()
        refuse(complaints + single_complaints(self), "SteerGRPOConfig")
        self._add_actuator()
        methods = {name: find_shaper(name) for name in self.shaping_names}
        refuse(options.option_complaints(methods, self), "SteerGRPOConfig")
        for method in methods.values():
            method.fill_unset(self)
        refuse(self._combination_complaints(methods), "SteerGRPOConfig")
        notes += self._switch_off_clipping(methods)
        super().__post_init__()
        refuse(self._schedule_complaints(methods), "SteerGRPOConfig")
        # Every process makes this configuration, and one of them reports about it.
        for note in (*notes, *self._remarks(methods)) if self.process_index == 0 else ():
            logger.warning(note)

    # Private settings must not reach trackers or the files that Transformers writes.

    def to_dict(self) -> dict[str, Any]:
        """Return the settings for trackers. Private values are replaced by names such as `<HUB_TOKEN>`."""
        settings = super().to_dict()
        public = select_public(settings)
        return {name: public.get(name, value and f"<{name.upper()}>") for name, value in settings.items()}

    def seal(self) -> None:
        """Leave private settings out of pickles from now on.

        Every push uploads such a pickle, `training_args.bin`.
        """
        vars(self)["_sealed"] = True

    def __getstate__(self) -> dict[str, Any]:
        state = vars(self)
        if "_sealed" not in state:
            return state
        return dict.fromkeys(field.name for field in fields(self)) | select_public(state) | {"_is_incomplete": True}

    def __copy__(self) -> "SteerGRPOConfig":
        """Copy every setting, even of a sealed configuration, because the copy stays on this machine."""
        copied = object.__new__(type(self))
        vars(copied).update(vars(self))
        return copied

    def __deepcopy__(self, memo: dict[int, Any]) -> "SteerGRPOConfig":
        copied = memo[id(self)] = object.__new__(type(self))
        vars(copied).update(deepcopy(vars(self), memo))
        return copied

    @property
    def is_incomplete(self) -> bool:
        """Whether this configuration was read from a pickle that lacks the private settings."""
        return "_is_incomplete" in vars(self)

    def _remarks(self, methods: dict[str, type[Shaper]]) -> list[str]:
        """Return warnings about settings with which a method does less than expected."""
        remarks = []
        if self.max_generated_tokens is not None and self.lr_scheduler_type not in CONSTANT_SCHEDULES:
            kind = getattr(self.lr_scheduler_type, "value", self.lr_scheduler_type)
            of_hold = ""
            if self.hold_entropy is not None:
                of_hold = ", and hold_entropy lets go after a share of the run, not of the learning"
            remarks.append(
                f"lr_scheduler_type={kind!r} follows the number of steps, and max_generated_tokens="
                f"{self.max_generated_tokens} ends the run by its tokens: the learning rate does not reach the end of "
                f"its schedule{of_hold}. Set lr_scheduler_type='constant', or end the run by max_steps."
            )
        for name, method in methods.items():
            remarks += [f"{name}: {remark}" for remark in method.remarks(self)]
            if method.surrogate and self.steps_per_rollout <= 1:
                remarks.append(
                    f"{name}: with one optimizer step per rollout no token has moved since its rollout, so nothing is "
                    "clipped or held. Set steps_per_generation or num_iterations for several."
                )
            is_shared = self.importance_sampling_level == "sequence" and self.loss_type not in TOKEN_WEIGHING_LOSSES
            if method.distinguishes_tokens and is_shared:
                remarks.append(
                    f"{name}: with importance_sampling_level='sequence' a completion's tokens share one gradient, so "
                    "only the mean of their weights acts."
                )
        return remarks

    def _add_actuator(self) -> None:
        """Add the method that `hold_entropy` moves, unless a method in use can be moved."""
        if self.hold_entropy is not None:
            self._set_methods(add_actuator(self.shaping_names, self.hold_entropy, self.hold_entropy_by))

    def _set_methods(self, names: tuple[str, ...]) -> None:
        self.advantage_shaping = list(names) if len(names) > 1 else next(iter(names), "none")

    # Invalid values.

    def _name_complaints(self) -> list[str]:
        shaping = self.advantage_shaping
        if not isinstance(shaping, (str, list, tuple)) or not shaping:
            return [f"advantage_shaping must be the name of a method or a list of names, got {shaping!r}."]
        names = as_tuple(shaping)
        if "none" in names and len(names) > 1:
            return [f"advantage_shaping={shaping!r}: 'none' cannot be combined with a method. Leave it out."]
        complaints = []
        for name in dict.fromkeys(self.shaping_names):
            try:
                find_shaper(name)
            except ValueError as error:
                complaints.append(str(error))
        return complaints + self._actuator_complaints()

    def _actuator_complaints(self) -> list[str]:
        """Return a complaint if `hold_entropy_by` names no method with a strength."""
        name = self.hold_entropy_by
        if name is None or name == "surprisal":
            return []
        use = (
            "Use 'surprisal', 'repo_r', 'entropy_change', 'entropy_bonus', 'kl', or a custom method with a `control`."
        )
        if not isinstance(name, str):
            return [f"hold_entropy_by={name!r} must be the name of one method. {use}"]
        if name not in SHAPERS and not is_import_path(name):
            movable = ["surprisal", *(other for other, method in SHAPERS.items() if method.control)]
            return [f"hold_entropy_by={name!r} is unknown.{did_you_mean(name, movable)} {use}"]
        try:
            method = find_shaper(name, "hold_entropy_by")
        except ValueError as error:
            return [str(error)]
        return [] if method.control else [f"hold_entropy_by={name!r} has no strength that could be moved. {use}"]

    def _text_complaints(self) -> list[str]:
        complaints = []
        raw = self.shaping_options
        license = self.model_license
        # A value from the command line is still a string here, because TRL parses it after these checks.
        if isinstance(raw, str):
            try:
                self.shaping_options = json.loads(raw)
            except json.JSONDecodeError as error:
                complaints.append(f"shaping_options must be JSON such as '{{\"last\": 0.5}}', got {raw!r}: {error}.")
        if license is not None and not (isinstance(license, str) and LICENSE.fullmatch(license)):
            complaints.append(
                "model_license must be an identifier of https://huggingface.co/docs/hub/repositories-licenses such as "
                f"'apache-2.0', or 'other', got {license!r}."
            )
        return complaints

    # Invalid combinations.

    def _combination_complaints(self, methods: dict[str, type[Shaper]]) -> list[str]:
        complaints = entropy_target_complaints(self) + reward_weight_complaints(self)
        for name, method in methods.items():
            complaints += [complaint for complaint in method.complaints(self) if complaint not in complaints]
            complaints += need_complaints(name, method, self)
        # The log's `rollout_pass@k` reads these in every run.
        judges = ("correct_reward", "correct_threshold")
        complaints += options.place_complaints(methods, self)
        complaints += setting_complaints(methods, self, read_elsewhere=judges) + combination_complaints(methods, self)
        return complaints + hold_conflicts(methods, self)

    def _schedule_complaints(self, methods: dict[str, type[Shaper]]) -> list[str]:
        accumulation = self.gradient_accumulation_steps
        per_rollout = self.steps_per_generation
        reads = Reads.of(methods.values(), self.shaping_scope)
        if not reads.step_statistics or per_rollout % accumulation == 0:
            return []
        return [
            f"steps_per_generation={per_rollout} cannot be combined with gradient_accumulation_steps={accumulation} "
            f"and shaping_scope={self.shaping_scope!r}: an optimizer step would span rollouts of which the last is "
            "not written when the first is trained on. Make it a multiple, or use shaping_scope='micro_batch'."
        ]

    def _switch_off_clipping(self, methods: dict[str, type[Shaper]]) -> list[str]:
        """Switch off TRL's clipping for a method that has its own loss. Return a note about each such method."""
        notes = []
        for name, method in methods.items():
            # A value that a user set to its default looks like an unset value, so every change is reported.
            changed = {field: value for field, value in method.surrogate.items() if getattr(self, field) != value}
            if changed:
                changes = [f"{field} from {getattr(self, field)!r} to {value!r}" for field, value in changed.items()]
                notes.append(
                    f"{name}: it brings a loss of its own, so TRL's settings were changed: {', '.join(changes)}. Set "
                    "these values yourself to keep them."
                )
            for field, value in changed.items():
                setattr(self, field, value)
        return notes


allow_texts(name for name, setting in settings_of(SteerGRPOConfig).items() if setting.choices)
