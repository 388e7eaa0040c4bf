"""What a user can set: options with their ranges, and what they must not be combined with."""
