"""The dial: what each level of entropy costs and buys (experiments/results/protocol3.md).

plan.yaml   regimes, arms and blocks, in the order of the runs
plan.py     the plan, as a list of jobs
runs.py     one job: start, training, checkpoints, evaluation, published file
"""
