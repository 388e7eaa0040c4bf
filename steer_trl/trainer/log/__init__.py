"""What the log says of a training: sums over the ranks, the change an update made, single tokens."""
