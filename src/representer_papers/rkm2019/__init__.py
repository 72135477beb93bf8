"""Liang et al., Kernel-Based Approaches for Sequence Modeling, NeurIPS 2019 ("L19")."""

from representer_papers.rkm2019.documents import DOCUMENTS
from representer_papers.rkm2019.language import LANGUAGE

RECIPES = {recipe.name: recipe for recipe in (DOCUMENTS, LANGUAGE)}

__all__ = ["RECIPES"]
