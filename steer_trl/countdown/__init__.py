"""Countdown: a verifiable task small enough for a laptop, on which entropy collapse can be watched.

Reach a target from three numbers, showing every step. Every problem has at least four correct solutions, so a
policy that collapses on one of them loses something that can be counted.
"""
