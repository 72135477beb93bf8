"""Activations that are learned: kernel expansions, and models that take them in."""
