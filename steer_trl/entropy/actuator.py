"""A method whose strength `hold_entropy` can move."""

from dataclasses import dataclass
from typing import ClassVar, Protocol, runtime_checkable


@dataclass(frozen=True)
class Control:
    """The upper bound and the gain with which `hold_entropy` adjusts the strength of a method.

    Attributes:
        max_strength (`float`): the upper bound of the strength.
        gain (`float`): how much the strength changes per unit of the controller's output.
        option (`str`, *optional*): the option of the method that holds the initial strength.
    """

    max_strength: float
    gain: float = 1.0
    option: str | None = None


@runtime_checkable
class Actuator(Protocol):
    """A method, as the controller sees it.

    Attributes:
        control (`Control`, *optional*): how the strength may be moved; `None` if it cannot be.
        strength (`float`): the strength, which the method reads whenever it weights tokens.
    """

    control: ClassVar[Control | None]
    strength: float
