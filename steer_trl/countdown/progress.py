"""One progress bar per run, side by side: tqdm's in a terminal, Transformers' in a notebook.

tqdm stacks its bars by moving the cursor, which notebooks do not follow; Transformers' bars need no widgets.
"""

from typing import Protocol

from tqdm import tqdm
from transformers.utils.import_utils import is_in_notebook


class Bar(Protocol):
    """Shows how far a run is."""

    def show(self, steps: int, comment: str) -> None:
        """Show that `steps` are done; the first one starts the clock."""

    def close(self) -> None:
        """Leave the bar as it is."""


class TerminalBar:
    """A line of the terminal; the `row`-th below the cursor."""

    def __init__(self, name: str, total: int, row: int) -> None:
        self._bar = tqdm(total=total, desc=name, unit="step", position=row)

    def show(self, steps: int, comment: str) -> None:
        """Show that `steps` are done."""
        if steps == 1:
            self._bar.reset()  # it has waited for a process until now
        self._bar.n = steps
        self._bar.set_postfix_str(comment)

    def close(self) -> None:
        """Leave the line."""
        self._bar.close()


class NotebookBar:
    """A bar in the output of a cell."""

    def __init__(self, name: str, total: int) -> None:
        from transformers.utils.notebook import NotebookProgressBar  # imports IPython

        self._bar = NotebookProgressBar(total, prefix=name)

    def show(self, steps: int, comment: str) -> None:
        """Show that `steps` are done."""
        self._bar.update(steps, comment=comment)

    def close(self) -> None:
        """Nothing to end."""


def make_bars(totals: dict[str, int]) -> dict[str, Bar]:
    """Make a bar for each run; `totals` are their steps by name."""
    if is_in_notebook():
        return {name: NotebookBar(name, total) for name, total in totals.items()}
    return {name: TerminalBar(name, total, row) for row, (name, total) in enumerate(totals.items())}
