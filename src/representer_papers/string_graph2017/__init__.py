"""Lei et al., Deriving Neural Architectures from Sequence and Graph Kernels, ICML 2017 ("L17")."""

from representer.tasks.recipe import Recipe, imported
from representer_papers.string_graph2017 import published
from representer_papers.string_graph2017.language import LANGUAGE

_DECAY = "a constant decay of 0.5; the paper prints none"

RECIPES = {
    recipe.name: recipe
    for recipe in (
        Recipe(
            name="string-sentiment",
            title="Sentiment: three string-kernel layers, constant and gated decay, SST fine and "
            "binary",
            source=published.TABLE_2,
            reproduce=imported("representer_papers.string_graph2017.sentiment:reproduce_sentiment"),
            cells=published.SENTIMENT_CELLS,
            datasets=("fine", "binary", "fine-roots", "binary-roots"),
            presets=("paper", "authors_code"),
            options=("vectors",),
            differences={
                "paper": (_DECAY,),
                "authors_code": (_DECAY, "states c_1 + c_2 and dropout inside layers"),
            },
            seeds=(0, 1, 2, 3, 4),  # "the best results achieved across 5 independent runs"
            reported=published.SENTIMENT
            | {k: r for k, r in published.REPORTED_OTHERS.items() if r.source == published.TABLE_2},
        ),
        LANGUAGE,
        Recipe(
            name="graph-kernels",
            title="Graph classification: walks, WL and composed kernels with SVM, networks, four "
            "TU sets",
            source="L17 Sec. 3",
            reproduce=imported(
                "representer_papers.string_graph2017.graph_kernels:reproduce_graph_kernels"
            ),
            cells=(*published.FAMILIES, *published.GRAPH_NETWORKS),
            differences={"paper": ("the paper has no table of graph classification",)},
            datasets=tuple(published.GRAPH_SETS),
            reported=published.GRAPHS,
        ),
        Recipe(
            name="graph-molecules",
            title="Molecules: WL network with and without gates, fingerprint, loopy BP, GINE, CEP",
            source="L17 Table 3",
            reproduce=imported("representer_papers.string_graph2017.molecules:reproduce_molecules"),
            cells=tuple(published.MOLECULE_NETWORKS),
            differences={
                "paper": (
                    "30,000 molecules with another split; the paper has 1,900,000 for training",
                    "readout of the last round but in wl-gated-sum; the paper sums all rounds",
                    "a gate scaled by 10, as in the code; the paper prints no factor",
                )
            },
            datasets=tuple(published.MOLECULE_SETS),
            reported=published.MOLECULES,
        ),
    )
}

__all__ = ["RECIPES"]
