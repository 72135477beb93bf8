"""What a layer's output is made of."""

from representer.explain.best_ngrams import NgramShare
from representer.explain.influence import influence
from representer.explain.substitutions import substitutions
from representer.explain.token_slots import token_slots
from representer.explain.top_ngrams import top_ngrams

__all__ = ["NgramShare", "influence", "substitutions", "token_slots", "top_ngrams"]
