"""Countdown: a verifiable task small enough for a laptop, on which entropy collapse can be watched.

Reach a target from three numbers, showing every step. Every problem has at least four correct solutions, so a
policy that collapses on one of them loses something that can be counted.

    task.py       problems in three splits, the verifier, the reward
    model.py      a Qwen2 made from scratch, and its supervised start; a command
    __main__.py   the problems and the start in a folder, for the recipe `countdown`
"""
