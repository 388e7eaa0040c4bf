"""`hold_entropy`: keeps the policy's entropy at a level while the model learns, and lets it go at the end.

    H*_k          the target: the level, a multiple of the initial entropy, which falls at the end of the run
    R_k <= H*_k   the setpoint: the target or, if the run began below it, a path that rises to the target
    e = ln(R_k / H_k), and 0 within 2 % of the setpoint; H_k is the entropy of rollout k
    u = gain (3 e + I),   I <- I + 0.3 e,   0 <= u <= max_strength: the strength of the method that raises the entropy

Read the files in this order:

    start.py       H_0, the initial entropy: the mean of the first rollouts
    target.py      H*_k, the target, and the part of the run in which it falls
    learning.py    the share of the run after which a share of the learning is done
    recent.py      H_k, the entropy of the last 32 groups
    approach.py    R_k, the setpoint
    pi_law.py      u, the strength
    regulator.py   the three together: entropy in, strength out
    hold.py        the regulator in a run: its method, its settings, its log, its checkpoint
    checks.py      settings with which it cannot work

Only the trainer knows when a rollout was generated and how much of the run is done. It tells `hold.py`.
"""
