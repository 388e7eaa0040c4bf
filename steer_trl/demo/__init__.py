"""The demonstration: one small model trained twice from the same weights, by plain GRPO and with its entropy held.

`runs.py` starts both training runs side by side (recipes `demo_grpo` and `demo_held`), `work.py` is the program of
each process, `result.py` compares the two models, and `picture.py` draws them. `start/` is the model that both begin
with; `pairs.jsonl` has the results of the same command with other seeds.
"""
