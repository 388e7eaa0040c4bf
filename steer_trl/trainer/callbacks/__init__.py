"""Callbacks of a trainer of ours alone: lines on the terminal, and the cards of saved folders."""
