"""Generation with Transformers by a decoding loop of this package, wherever it writes the completions of `generate`.

decoding.py   the loop: each prompt once, completions that have ended leave
cache.py      the cache that it grows in place
limits.py     what it does not serve
adapters.py   adapters of PEFT that depend on more than a token
faster.py     `generate` with this loop, or else with its own
"""
