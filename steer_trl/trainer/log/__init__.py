"""The log of an optimizer step: statistics of its tokens, summed over micro-batches and ranks."""
