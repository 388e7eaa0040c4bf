"""The demonstration: one small model trained twice from the same weights, with plain GRPO and with `hold_entropy`.

`runs.py` starts both training runs in parallel (recipes `demo_grpo` and `demo_held`), `work.py` is what each
process does, `result.py` compares the two trained models, and `picture.py` draws the comparison. `start/` holds
the model that both runs start from. `pairs.jsonl` holds the results of the same command with other seeds.
"""
