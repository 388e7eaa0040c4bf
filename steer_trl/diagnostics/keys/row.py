"""What the registry has of each key, and of the panel that draws it."""

from dataclasses import dataclass
from typing import Literal

from steer_trl.diagnostics.estimators import Estimator

Origin = Literal["training", "diagnostics", "benchmarks", "TRL"]
Section = Literal["What the run does", "How the method acts", "Optimisation"]

OUTCOME: Section = "What the run does"
METHOD: Section = "How the method acts"
OPTIMISATION: Section = "Optimisation"
"""The sections of the report page."""

SHARE = (0.0, 1.0)
FROM_ZERO = (0.0, None)


@dataclass(frozen=True)
class Key:
    """A key of the log.

    Attributes:
        name (`str`): as it is logged; of a family of keys the regular expression that they match.
        unit (`str`): of its number; empty for a pure one.
        about (`str`): what it is and how it is estimated, for `docs/metrics.md`.
        label (`str`): what its panel calls it; empty for a family, whose members keep their names.
        origin (`str`): who logs it: a training of this package, its diagnostics, its benchmarks, or TRL.
        estimator (*optional*): of what is summed over the tokens of an optimizer step.
        alarms (`tuple[str, ...]`): the alarms that read it.
        picture (`str`): title of the panel of [`steer_trl.curves`] that has it.
        family (`str`): what a page calls the members of a family.
        is_target (`bool`): whether its panel draws it as a dashed line beside the first.
        instead_of (`str`): of several runs in one panel, the key that it stands for in a run that has not that.
    """

    name: str
    unit: str
    about: str
    label: str = ""
    origin: Origin = "training"
    estimator: Estimator | None = None
    alarms: tuple[str, ...] = ()
    picture: str = ""
    family: str = ""
    is_target: bool = False
    instead_of: str = ""


@dataclass(frozen=True)
class Panel:
    """Keys that the report draws together; a panel of which the runs have no key is left out.

    Of several runs it shows one key at a time, first the one that most of them have.

    Attributes:
        unit (`str`): of the vertical axis.
        keys (`tuple[Key, ...]`): in the order of the legend.
        sees (`str`), healthy (`str`): a sentence each for who has not read the papers.
        within (`tuple`): ends of the vertical axis that it has at the least; `None` where the data decide.
        is_stacked (`bool`): whether the lines are parts of a whole, drawn on top of each other, one run at a time.
        has_start (`bool`): whether the first value is drawn through as a dotted line.
        must_move (`bool`): whether it is left out where nothing changes.
    """

    title: str
    unit: str
    section: Section
    keys: tuple[Key, ...]
    sees: str
    healthy: str
    within: tuple[float | None, float | None] = (None, None)
    is_stacked: bool = False
    has_start: bool = False
    must_move: bool = False
