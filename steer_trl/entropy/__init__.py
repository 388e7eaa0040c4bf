"""`hold_entropy`: keeps the policy's entropy at a level while the model learns, and lowers it at the end.

    H_k           the entropy of rollout k: the mean over its tokens, nats, before any update on them
    H*_k          the target: the level (nats, or a multiple of the initial entropy), lowered at the end of the run
    R_k <= H*_k   the setpoint: the target or, if the run began below it, a path that rises to the target
    e = ln(R_k / H_k), as far as it is beyond 2 %
    I <- I + 0.3 e,   then   u = gain (3 e + I),   0 <= u <= max_strength

u is the strength of one method that can raise the entropy: of the surprisal weights, for example, which multiply the
advantages of surprising tokens by 1 + u in correct answers and divide them by it in incorrect ones. Until the entropy
first falls below the setpoint, u is 0 and the run is without that method. Later u can stay positive while the entropy
is a little above the setpoint, until the sum I is used up. Nothing pushes the entropy down.

Read the files in this order:

    target.py      H*_k, the target, and the part of the run in which it falls
    approach.py    R_k, the setpoint
    pi_law.py      u, the strength, with the bounds of its sum I
    regulator.py   these three together: entropy in, strength out

and then what a run needs besides:

    recent.py      H_k for rollouts with few prompts: the mean of several rollouts
    start.py       the initial entropy: the mean of the first rollouts
    actuator.py    the method that is moved: its strength, and the bound of it
    learning.py    the share of the run after which a share of the learning is done
    hold.py        the regulator in a run: its method, its settings, its log
    resume.py      the path of a resumed run
    checks.py      settings with which it cannot work

The trainer calls `HoldEntropy.on_rollout` with each rollout's entropy and the share of the run that is done.
"""
