"""What is checked before a training, and once at its first step: arguments, compiled models, TRL's loss."""
