"""Countdown: a verifiable task small enough for a laptop, on which entropy collapse can be watched.

Reach a target from three numbers, showing every step. Every problem has at least four correct solutions, so a
policy that collapses on one of them loses something that can be counted.

    task.py         problems, the verifier, the reward
    model.py        a Qwen2 made from scratch, and its supervised start; a command
    training.py     one training run from that start, by one process or several; a command
    evaluation.py   sampling on held-out problems: accuracy, pass@k, distinct solutions
    experiment.py   the same start trained with several methods, side by side
    report.py       the table and the picture
"""
