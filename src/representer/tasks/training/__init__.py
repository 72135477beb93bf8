"""The training loop and what it needs to go on where it was."""
