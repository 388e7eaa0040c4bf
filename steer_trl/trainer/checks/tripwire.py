"""The weights must arrive: in the first step of a training, TRL's loss has to read the advantages the methods shaped.

A TRL that is newer, or that somebody has patched, could read them too early, or make its log-probabilities by another
function than the one that we override. It would train plain GRPO, and nobody would notice. So the first loss is given
inputs that note when their advantages are read. Later ones are a plain dictionary again. A subclass or a patch could
go around the hook in which all of this happens, so the first optimizer step must have passed it.
"""

from collections.abc import Iterator
from typing import Any, NoReturn

from steer_trl.exceptions import CannotContinueError
from steer_trl.system import installed
from steer_trl.trainer.contract import INSTALL

FUNCTION = "GRPOTrainer._get_per_token_logps_and_entropies"


class WatchedInputs(dict[str, Any]):
    """Inputs of a loss that note when their advantages are read; whoever copies them reads them all."""

    def __init__(self, inputs: dict[str, Any]) -> None:
        super().__init__(inputs)
        self._is_watching = self._is_read = False

    def __getitem__(self, name: str) -> Any:
        self._is_read = self._is_read or (name == "advantages" and self._is_watching)
        return super().__getitem__(name)

    def __iter__(self) -> Iterator[str]:  # else Python copies without asking
        return super().__iter__()

    def get(self, name: str, default: Any = None) -> Any:
        """Read as by `[name]`."""
        return self[name] if name in self.keys() else default

    def copy(self) -> dict[str, Any]:
        """Read everything."""
        return {name: self[name] for name in self}

    def watch(self) -> None:
        """Note reads from now on: the shaped advantages are written."""
        self._is_watching = True

    def check(self) -> None:
        """Refuse a loss, when it is made, that does not have the shaped advantages in it."""
        if not self._is_watching:
            _refuse(f"its loss did not call {FUNCTION}")
        if not self._is_read:
            _refuse("its loss did not read the advantages after its forward pass")


def check_score(entropies: Any) -> None:
    """Refuse what a forward pass has returned where methods read entropies and it has none."""
    if entropies is None:
        _refuse(f"{FUNCTION} returned no entropies")


def refuse_bypass(hook: str) -> NoReturn:
    """Refuse a trainer whose first optimizer step was made around `hook`, in which methods act."""
    _refuse(f"its first step did not use SteerGRPOTrainer.{hook} (a subclass that overrides it must return super's)")


def _refuse(what: str) -> NoReturn:
    versions = ", ".join(f"{name} {version}" for name, version in installed(("trl", "unsloth")).items())
    raise CannotContinueError(
        f"The token weights do not reach TRL's loss: {what}. This would have been a run of plain GRPO. Installed: "
        f"{versions}. Use a TRL that steer_trl was tested with, {INSTALL}, and nothing that patches GRPOTrainer "
        "(Unsloth does). AlarmsCallback works with a patched trainer, too."
    )
