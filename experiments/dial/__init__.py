"""Protocol 3 (experiments/results/protocol3.md): the gains and costs of holding the entropy at different levels.

These levels are called the dial.

plan.yaml   regimes, arms and blocks, in the order of the runs
plan.py     the plan as a list of jobs
runs.py     runs a job: start model, training, checkpoints, evaluation, published file
"""
