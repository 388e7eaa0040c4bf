"""Protocol 4 (experiments/results/protocol4.md): hold the entropy while the model learns, and let go at the end.

plan.yaml     arms, forms, blocks, and what the pilot chose
plan.py       the plan as a list of jobs
rule.py       the rule by which the pilot names each arm's rate and the form
starts.py     start models as files
runs.py       runs a job: start model, training, evaluation, published record
published.py  the published files
analysis.py   the numbers of a block
page.py       the page of results
"""
