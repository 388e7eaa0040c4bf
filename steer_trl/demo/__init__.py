"""The demonstration: a small model trained with plain GRPO and, from the same weights, with the recommended setting.

Its task is Countdown (`puzzle.py`): the model combines three numbers to reach a target, and shows every step. Every
problem has at least four correct solutions. A policy that collapses to one of them loses diversity, which can be
measured on a laptop.

`start_model.py` teaches the rules to a small model. `runs.py` starts both training runs in parallel, with the recipes
`demo_grpo` and `demo_held`. `child.py` runs the commands of one of them. `result.py` compares the two trained models,
and `picture.py` draws the comparison. `start/` holds the model that both runs start from if the seed is 0.
`pairs.jsonl` holds the results of other seeds. `tiny.py` makes a model without any training, for tests and smoke runs.
"""
