"""Folders as runs leave them, written without training: for the report, which reads nothing else."""

import json
import math
import random

from steer_trl.monitoring import run_files

SCRIPT = "</script><script>window.ran = true</script><img src=x onerror='window.ran = true'>"


def write_run(folder, steps=60, seed=0, method="stare", token_steps=(1, 30, 60), **settings):
    """Write the folder of a run; return it."""
    dice = random.Random(f"{seed} {method}")
    settings = {"learning_rate": 1e-6, "seed": seed, "output_dir": str(folder)} | settings
    methods = [] if method == "none" else [method]
    run_files.begin(folder, 0, {"methods": methods, "model": "tiny", "max_steps": steps, "settings": settings})
    for step in range(1, steps + 1):
        entropy = 0.3 * math.exp(-step / 80) + dice.uniform(0, 0.02)
        entry = {"step": step, "epoch": step / 100, "entropy": entropy, "reward": step / steps, "loss": 0.0}
        entry |= {"frac_reward_zero_std": 0.2, "completions/mean_length": 14.0, "quadrants/positive_expected": 0.25}
        if methods:
            entry |= {"shaping/weight_mean": 0.99, "shaping/weight_max": 1.5, "stare/target_entropy": 0.25}
        run_files.append(folder, entry)
        if step % 20 == 0:
            run_files.append(folder, {"step": step, "eval_sums_avg@4": 0.4, "eval_sums_pass@4": 0.6})
    run_files.append(folder, {"step": steps, "train_runtime": 10.0})
    for step in token_steps:
        for place in range(8):
            run_files.append(folder, completion(step, place, dice), f"tokens/step-{step:08d}.jsonl")
    return folder


def write_held(folder, steps=60):
    """Write the folder of a run that holds half of its first entropy, and ends 2 % below; return it."""
    settings = {"hold_entropy": 0.5, "output_dir": str(folder)}
    run_files.begin(folder, 0, {"methods": ["repo_r"], "max_steps": steps, "settings": settings})
    for step in range(1, steps + 1):
        target = 0.15
        entropy = 0.3 if step == 1 else 0.98 * target + 0.153 * math.exp(-step / 20)
        entry = {"step": step, "rollout_entropy": entropy, "entropy": entropy + 0.01, "reward": step / steps}
        entry |= {"rollout_entropy/start": 0.3, "hold_entropy/target": target, "loss": -0.00536}
        entry |= {"hold_entropy/reference": target * 2 ** math.exp(-step / 20), "hold_entropy/strength": 0.4}
        entry |= {"hold_entropy/error": entropy / target - 1, "shaping/weight_mean": 1.026}
        entry |= {"weights/under_0.5": 0.1 + step / steps / 10, "weights/1": 0.6 - step / steps / 10}
        run_files.append(folder, entry | {"weights/over_2": 0.3})
    return folder


def completion(step, place, dice, texts=("2", "+", "3", "=", "5", "<eos>")):
    """A line of a token file, in groups of four."""
    count, (group, member) = len(texts), divmod(place, 4)
    numbers = {name: [dice.uniform(0, 2) for _ in range(count)] for name in ("surprisals", "entropy", "weights")}
    numbers |= dict.fromkeys(("advantages", "shaped_advantages"), [-0.5 if member else 1.5] * count)
    numbers["entropy_changes"] = [dice.gauss(0, 1) for _ in range(count)]
    line = {"step": step, "group": group, "completion": member, "prompt": f"prompt {group}"}
    line |= {"reward": float(member == 0), "num_tokens": count}
    return line | {"texts": list(texts), "token_ids": list(range(count))} | numbers


def alarm(folder, step=30, title="The entropy falls"):
    """Write an alarm into a run's folder."""
    line = {"step": step, "alarm": "collapse", "title": title, "text": "Lower it.", "level": "warning", "numbers": {}}
    run_files.append(folder, line, run_files.ALARMS)


def write_state(folder, steps, log_history=None):
    """Write what a plain `GRPOTrainer` leaves: a checkpoint's `trainer_state.json`."""
    history = [{"step": s, "epoch": s / 10, "entropy": 1 / s, "reward": 0.5} for s in range(1, steps + 1)]
    folder.mkdir(parents=True, exist_ok=True)
    state = {"log_history": history if log_history is None else log_history, "max_steps": 100, "global_step": steps}
    (folder / "trainer_state.json").write_text(json.dumps(state))


def write_hostile(folder):
    """A folder whose texts are a script, and whose files something has written to pieces."""
    dice = random.Random(0)
    write_run(folder, steps=20, token_steps=(), evil=SCRIPT, **{SCRIPT: "key", "deep": [[[SCRIPT]]]})
    with (folder / "_logs/metrics.jsonl").open("ab") as file:
        file.write(b'\xff\xfe\x00binary\n{"step": 21, "reward": NaN, "entropy": 1e999}\n' + b"[" * 100_000 + b"\n")
        file.write(b'{"step": ' + b"9" * 5000 + b"}\n")
        entry = {"step": 22, "reward": 0.5, SCRIPT: 1.0, "__proto__": 1.0, "text": "x"}
        file.write(json.dumps(entry).encode() + b'\n{"step": 24, "re')
    alarm(folder, title=SCRIPT)
    run_files.append(folder, {"step": "soon", "title": {"a": 1}, "text": None}, run_files.ALARMS)
    line = completion(10, 0, dice, texts=(SCRIPT, "\n\t", "", "\ud800")) | {"prompt": SCRIPT}
    odd = {"texts": "abc"}, {"token_ids": [1, 2], "group": "first"}, {"texts": [None, 3, {}], "weights": {"a": 1}}
    for one in (line, *odd):
        run_files.append(folder, one, "tokens/step-00000010.jsonl")
    (folder / "_logs/tokens/step-00000011.jsonl").write_bytes(bytes(range(256)) * 100)
    (folder / "trainer_state.json").write_text("[[[")
    return folder
