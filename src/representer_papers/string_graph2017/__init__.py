"""Lei et al., Deriving Neural Architectures from Sequence and Graph Kernels, ICML 2017 ("L17")."""

from representer_papers.string_graph2017.graph_kernels import GRAPH_KERNELS
from representer_papers.string_graph2017.graph_molecules import GRAPH_MOLECULES
from representer_papers.string_graph2017.language import LANGUAGE
from representer_papers.string_graph2017.sentiment import SENTIMENT

RECIPES = {recipe.name: recipe for recipe in (SENTIMENT, LANGUAGE, GRAPH_KERNELS, GRAPH_MOLECULES)}

__all__ = ["RECIPES"]
