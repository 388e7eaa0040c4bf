"""Forward passes of the policy and of the reference model: TRL's padded pass, or one row without padding.

run.py         runs every pass, and adds exact entropy sensitivities if they are needed
decision.py    decides whether padding is removed, and how
check.py       compares a training's first pass with TRL's
packed.py      runs the model on one row that has no padding
layout.py      where each token of that row comes from
attention.py   which tokens of that row attend to which
varlen.py      the same for flash attention, which nobody has run yet
cost.py        the cost of a pass, by which a prompt is computed once or once for each completion
joined.py      rows moved to the left, for attention that cannot compute one row
ordering.py    decides whether a step's rows are ordered: a prompt's completions together, equal work for ranks
arrangement.py finds that order
exchange.py    sends rows to the ranks that compute them
head_pass.py   the head's second pass, for exact entropy sensitivities
passes.py      reads every pass where TRL calls it
"""

from steer_trl.trainer.forward.run import Forward

__all__ = ["Forward"]
