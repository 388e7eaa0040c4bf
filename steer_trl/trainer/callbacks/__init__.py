"""Callbacks of Transformers: alarms, the run's log, lines on the terminal; and the cards of saved folders."""
