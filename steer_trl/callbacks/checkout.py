"""Which code a run was started with: the commit of the git checkout around the current folder, and what differs.

`run.json` has the commit. `_logs/code-00000000.diff` has what differs in the files that git knows; the number is the
optimizer step at which the run began or was resumed. Transformers leaves `_logs` out of every push, and lines that
look as if they held a secret are withheld all the same. Outside of a checkout, and without git, nothing is written.
"""

import subprocess
from pathlib import Path
from typing import Any

from steer_trl import runlog
from steer_trl.redact import without_secrets

LARGEST = 1 << 20  # characters of a diff
PATIENCE = 10  # seconds for git


def checkout() -> tuple[dict[str, Any], str]:
    """Return the field `code` of `run.json`, and the diff; both empty outside of a checkout."""
    commit = _git("rev-parse", "HEAD").strip()
    diff = _git("diff", "HEAD", "--no-ext-diff", "--no-textconv", "--no-color") if commit else ""
    return {"code": {"commit": commit, "is_changed": diff != ""}} if commit else {}, without_secrets(diff)


def write_diff(output_dir: str, step: int, diff: str) -> None:
    """Write the diff to the run's log, if there is any."""
    path = Path(output_dir, runlog.LOGS, f"code-{step:08d}.diff")
    path.unlink(missing_ok=True)
    if diff:
        path.write_text(diff, encoding="utf-8")


def _git(*arguments: str) -> str:
    """Return what git prints, at most [`LARGEST`] characters of it; nothing if it fails or takes too long."""
    command = ["git", "--no-optional-locks", "-c", "core.fsmonitor=false", *arguments]
    try:
        done = subprocess.run(command, capture_output=True, timeout=PATIENCE, check=True)
    except (OSError, subprocess.SubprocessError):
        return ""
    text = done.stdout.decode(errors="replace")
    left_out = len(text) - LARGEST
    return f"{text[:LARGEST]}\n[{left_out} more characters are left out.]\n" if left_out > 0 else text
