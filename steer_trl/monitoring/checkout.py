"""Finds the git commit of the code that a run was started with. `run.json` records the commit."""

import subprocess
from typing import Any

PATIENCE = 10
"""Number of seconds after which a git command is stopped."""


def find_commit() -> dict[str, Any]:
    """Return the entry `code` of `run.json`.

    The result is empty outside of a git checkout, or if git is not installed.
    """
    commit = _run_git("rev-parse", "HEAD")
    if commit is None:
        return {}
    changes = _run_git("status", "--porcelain", "--untracked-files=no")
    return {"code": {"commit": commit.strip(), "is_changed": bool(changes)}}


def _run_git(*arguments: str) -> str | None:
    """Return the output of a git command, or `None` if the command fails or takes too long."""
    command = ["git", "--no-optional-locks", "-c", "core.fsmonitor=false", *arguments]
    try:
        process = subprocess.run(command, capture_output=True, timeout=PATIENCE, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return process.stdout.decode(errors="replace")
