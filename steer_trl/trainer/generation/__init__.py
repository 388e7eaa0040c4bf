"""Generation with Transformers: the loop that writes completions, and when it replaces that of `generate`."""
