"""The tutorial's script as it is printed, and with each change that the text makes to it; the sizes are smaller."""

import re

from support import ROOT
from support.processes import run

from steer_trl.monitoring import run_files

PAGE = (ROOT / "docs/tutorial.md").read_text()
SMALLER = {"max_steps=400": "max_steps=4", "per_device_train_batch_size=128": "per_device_train_batch_size=8"}
BLOCKS = re.findall(r"```(?:python|diff)\n(.*?)```", PAGE, re.DOTALL)


def changed(text, *changes):
    for old, new in changes:
        assert text.count(old) >= 1
        text = text.replace(old, new)
    return text


def patched(text, diff):
    """The script with the lines of a diff taken out and put in."""
    for out, into in re.findall(r"((?:^-.*\n)+)((?:^\+.*\n)+)", diff, re.MULTILINE):
        text = changed(text, (re.sub("^-", "", out, flags=re.M), re.sub(r"^\+", "", into, flags=re.M)))
    return text


def test_every_step_of_the_tutorial(tmp_path):
    script, names, method = BLOCKS
    none = patched(script, names)
    small = [*SMALLER.items(), ("logging_steps=40", "logging_steps=1")]
    scripts = {"none": none, "held": patched(none, method), "grpo": script}
    scripts = {name: changed(text, *small) for name, text in scripts.items()}
    assert "hold_entropy=0.65" in scripts["held"] and scripts["held"].count("runs/") == 2
    start, report = (line.split()[1:] for line in commands())
    run(*start, "--steps", "2", folder=tmp_path)
    for name, text in scripts.items():
        (tmp_path / f"{name}.py").write_text(text)
    # One process for the three: an import of TRL is longer than a run.
    lines = ["import runpy", *(f"runpy.run_path('{name}.py')" for name in scripts)]
    (tmp_path / "all.py").write_text("\n".join(lines))
    said = run("all.py", folder=tmp_path).stdout
    assert "step 1/4  reward" in said and "'frac_reward_zero_std':" in said
    log = run_files.lines(tmp_path / "runs/none/_logs/metrics.jsonl")
    rewards = [entry["reward"] for entry in log if "reward" in entry]
    printed = [float(text) for text in re.findall(r"'reward': '([\d.]+)'", said)]
    # "the same, to the last digit": the run without a method is printed first, and TRL's own last.
    assert [round(reward, 4) for reward in rewards] == printed[: len(rewards)] == printed[-len(rewards) :]
    run("-m", "steer_trl.cli", *report, folder=tmp_path)
    assert (tmp_path / "report.html").stat().st_size > 1e4


def commands():
    lines = [line for block in re.findall(r"```bash\n(.*?)```", PAGE, re.DOTALL) for line in block.splitlines()]
    return [next(line for line in lines if line.startswith(word)) for word in ("python -m", "steer-trl report")]
