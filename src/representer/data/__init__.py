"""Reading and preparing data: text, signals, graphs."""

from representer.data import text

__all__ = ["text"]
