"""Countdown: a verifiable task small enough for a laptop, on which entropy collapse can be watched.

The model combines three numbers to reach a target, and shows every step. Every problem has at least four correct
solutions. A policy that collapses to one of them loses diversity, which can be measured.
"""
