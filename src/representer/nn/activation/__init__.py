"""Learned activations: kernel expansions, and their use in existing models."""
