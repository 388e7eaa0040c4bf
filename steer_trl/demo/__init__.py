"""The demonstration: a small model trained with plain GRPO and, from the same weights, with `hold_entropy`.

`runs.py` starts both training runs in parallel, with the recipes `demo_grpo` and `demo_held`. `work.py` is the
program that each process runs. `result.py` compares the two trained models, and `picture.py` draws the comparison.
`start/` holds the model that both runs start from if the seed is 0. `pairs.jsonl` holds the results of other seeds.
"""
