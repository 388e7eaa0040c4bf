"""What is checked before a training, and once at its first step: arguments, prompts, rewards, compiled models."""
