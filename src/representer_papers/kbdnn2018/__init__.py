"""Marra et al., Learning Neuron Non-Linearities with Kernel-Based Deep Neural Networks ("M18")."""

from representer_papers.kbdnn2018.charging import CHARGING
from representer_papers.kbdnn2018.long_term import LONG_TERM
from representer_papers.kbdnn2018.xor import XOR

RECIPES = {recipe.name: recipe for recipe in (XOR, CHARGING, LONG_TERM)}

__all__ = ["RECIPES"]
