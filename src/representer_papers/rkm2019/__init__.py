"""Liang et al., Kernel-Based Approaches for Sequence Modeling, NeurIPS 2019 ("L19")."""

from representer_papers.rkm2019.documents import DOCUMENTS
from representer_papers.rkm2019.language import LANGUAGE
from representer_papers.rkm2019.lfp import LFP

RECIPES = {recipe.name: recipe for recipe in (DOCUMENTS, LANGUAGE, LFP)}

__all__ = ["RECIPES"]
