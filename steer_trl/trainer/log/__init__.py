"""What is logged of a training: sums over the ranks, the change an update made, single tokens."""
