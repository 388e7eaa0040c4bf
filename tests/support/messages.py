"""The messages that users read, in one file, so that a change of wording is reviewed as text: `make messages`.

Tests assert which setting an error names and what it must be. The sentences themselves stand in `tests/messages.txt`
only. A message is added by a line in one of the tables below (`mistakes.py`, `command_lines.py`) or by a section.
"""

import contextlib
import io
import logging
import os
import re
import sys
import tempfile
from pathlib import Path

from steer_trl.cli.errors import HINT, TRACEBACK
from steer_trl.cli.main import main
from steer_trl.monitoring import entropy_rules, key_names, watch
from steer_trl.trainer.dry_run.rules import DRY_RULES, OF_FIRST_ROLLOUT, OF_SMALL_GROUPS, WITH_RESAMPLING
from support import ROOT, command_lines, mistakes

FILE = ROOT / "tests/messages.txt"
LIBRARY = re.compile(r"(cannot be loaded[^:]*|is no valid YAML|or some of|: (?=No module|module '|'utf-8')).*")
"""Where the words of a library begin: they differ between its versions."""


def refusals():
    """Yield each wrong configuration with its complaints."""
    for settings in mistakes.REFUSED:
        try:
            mistakes.config(**settings)
        except ValueError as error:
            yield call(settings), str(error).splitlines()
        else:
            yield call(settings), ["(accepted)"]


def warnings():
    """Yield each configuration that causes warnings with these."""
    for settings in mistakes.WARNED:
        with recorded() as said:
            mistakes.config(gradient_accumulation_steps=1, **settings)
        yield call(settings), said


def alarms():
    """Yield each alarm, and each rule of a dry run, with the text that it is made of."""
    for rule in (*watch.RULES, *DRY_RULES):
        yield rule.name, [rule.title, rule.text]
    for texts in (OF_FIRST_ROLLOUT, OF_SMALL_GROUPS, WITH_RESAMPLING):
        for name, text in texts.items():
            yield f"{name} in a dry run", [text]
    for log in ({}, {key_names.STRENGTH: 0.5}):
        yield f"remedy of a collapse, {log}", [*entropy_rules.find_remedy(log).values()]


def wrong_command_lines():
    """Yield each wrong command line with what it prints on stderr."""
    with tempfile.TemporaryDirectory() as folder, contextlib.chdir(folder):
        command_lines.fill(Path(folder))
        for line in command_lines.LINES:
            yield command_lines.shown(line), [text.replace(f"{folder}/", "") for text in run(line)]


SECTIONS = {"Settings": refusals, "Warnings": warnings, "Alarms": alarms, "Command lines": wrong_command_lines}


def call(settings):
    """Return the settings as they are given to the configuration."""
    return ", ".join(f"{name}={value!r}" for name, value in settings.items())


@contextlib.contextmanager
def recorded():
    """Collect the warnings of the package."""
    said = []
    handler = logging.Handler(logging.WARNING)
    handler.emit = lambda record: said.append(record.getMessage())
    logger = logging.getLogger("steer_trl")
    logger.addHandler(handler)
    try:
        yield said
    finally:
        logger.removeHandler(handler)


def run(line):
    """Run a command line that must end in exit code 2. Return its errors; of a library's, only that it is one."""
    stderr, before = io.StringIO(), dict(os.environ)
    for name in (TRACEBACK, "RANK"):
        os.environ.pop(name, None)
    try:
        with contextlib.redirect_stderr(stderr), contextlib.redirect_stdout(io.StringIO()):
            main(line)
        code = 0
    except SystemExit as exit:
        code = exit.code
    finally:
        os.environ.clear()
        os.environ.update(before)
    lines = [text for text in stderr.getvalue().splitlines() if text.startswith("steer-trl")]
    return [f"(exit code {code})"] * (code != 2) + [without_libraries(text) for text in lines]


def without_libraries(text):
    """Leave out the words of a library, which differ between its versions."""
    program, error, message = text.partition(": error: ")
    return f"{program}{error}(a library's error)" if message.endswith(HINT) else LIBRARY.sub(r"\1 ...", text)


def section(title):
    """Return the text of a section."""
    blocks = [f"{given}\n" + "".join(f"    {line}\n" for line in said) for given, said in SECTIONS[title]()]
    text = f"# {title}\n\n" + "\n".join(blocks)
    return text.encode(errors="backslashreplace").decode()


def read():
    """Return the sections of the file by their titles."""
    parts = re.split(r"(?m)^(?=# )", FILE.read_text())
    return {part.splitlines()[0].removeprefix("# "): part.rstrip() + "\n" for part in parts if part}


if __name__ == "__main__":
    chosen = sys.argv[1:] or SECTIONS
    written = read() if FILE.exists() else {}
    written |= {title: section(title) for title in chosen}
    FILE.write_text("\n".join(written[title] for title in SECTIONS))
