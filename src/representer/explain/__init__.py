"""What a layer's output is made of."""

from representer.explain.influence import influence

__all__ = ["influence"]
