"""Liang et al., Kernel-Based Approaches for Sequence Modeling, NeurIPS 2019 ("L19")."""

from representer.options.text import PRESETS
from representer.tasks.recipe import Recipe, imported
from representer_papers.rkm2019 import published
from representer_papers.rkm2019.language import LANGUAGE

_VALID = "5 % of the training part for validation; the paper does not say how it was chosen"

RECIPES = {
    recipe.name: recipe
    for recipe in (
        Recipe(
            name="rkm-documents",
            title="Document classification: seven cells, 1-gram and 3-gram, four data sets",
            source="L19 Table 2",
            reproduce=imported("representer_papers.rkm2019.documents:reproduce_documents"),
            cells=tuple(published.ROWS.values()),
            datasets=published.COLUMNS,
            presets=tuple(PRESETS),
            differences={
                "paper": (_VALID,),
                "authors_code": (_VALID, "windows that look ahead, and a bias on the candidate"),
            },
            options=("filter_lengths", "vectors"),
            reported=published.DOCUMENTS,
        ),
        LANGUAGE,
        Recipe(
            name="rkm-divergence",
            title="Language models: which cells stay finite with the settings of AWD-LSTM",
            source="L19 Table 3",
            reproduce=imported("representer_papers.rkm2019.divergence:reproduce_divergence"),
            cells=published.LANGUAGE_ROWS,
            differences={"paper": ("the first two of 500 epochs, without averaged weights",)},
            datasets=("ptb",),
        ),
        Recipe(
            name="rkm-lfp",
            title="Neural signals: seven cells with wavelet filters, each subject left out in turn",
            source="L19 Table 4",
            reproduce=imported("representer_papers.rkm2019.lfp:reproduce_signals"),
            cells=(*published.CELLS, published.AVERAGED, published.BASELINE),
            differences={
                "paper": (
                    "synthetic recordings and public EEGs; the paper's mice are not public",
                    "stride, rate, dropout and augmentation of ours; the paper prints none",
                )
            },
            datasets=(
                "synthetic",
                "arithmetic",
                "alcoholism",
                "condition",
                "arithmetic-recentered",
                "condition-recentered",
            ),
            reported=published.LFP,
        ),
    )
}

__all__ = ["RECIPES"]
