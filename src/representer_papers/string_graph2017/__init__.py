"""Lei et al., Deriving Neural Architectures from Sequence and Graph Kernels, ICML 2017 ("L17")."""

from representer.tasks.recipe import Recipe, imported
from representer_papers.string_graph2017 import published
from representer_papers.string_graph2017.language import LANGUAGE

RECIPES = {
    recipe.name: recipe
    for recipe in (
        Recipe(
            name="string-sentiment",
            title="Sentiment: three string-kernel layers, constant and gated decay, SST fine and "
            "binary",
            source=published.TABLE_2,
            reproduce=imported("representer_papers.string_graph2017.sentiment:reproduce"),
            cells=published.SENTIMENT_CELLS,
            datasets=("fine", "binary", "fine-roots", "binary-roots"),
            presets=("paper", "authors_code"),
            options=("vectors",),
            seeds=(0, 1, 2, 3, 4),  # "the best results achieved across 5 independent runs"
            reported=published.SENTIMENT,
        ),
        LANGUAGE,
        Recipe(
            name="graph-kernels",
            title="Graph classification: walks, WL and composed kernels with SVM, networks, four "
            "TU sets",
            source="L17 Sec. 3",
            reproduce=imported("representer_papers.string_graph2017.graph_kernels:reproduce"),
            cells=(*published.FAMILIES, *published.GRAPH_NETWORKS),
            datasets=tuple(published.GRAPH_SETS),
            reported=published.GRAPHS,
        ),
        Recipe(
            name="graph-molecules",
            title="Molecules: WL network with and without gates, fingerprint, loopy BP, GINE, CEP",
            source="L17 Table 3",
            reproduce=imported("representer_papers.string_graph2017.molecules:reproduce"),
            cells=tuple(published.MOLECULE_NETWORKS),
            datasets=tuple(published.MOLECULE_SETS),
            reported=published.MOLECULES,
        ),
    )
}

__all__ = ["RECIPES"]
