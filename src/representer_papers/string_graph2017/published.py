"""The rows of the tables, and the figures that L17 and others print."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple

from representer.tasks.recipe import Reported

# L17 Table 2. The paper's two rows, with frozen word vectors, come first; "tuned" fine-tunes them,
# "learned" uses none.
SENTIMENT_CELLS = (
    "gated", "constant", "gated-tuned", "constant-tuned", "gated-learned", "constant-learned",
)  # fmt: skip
TABLE_2 = "L17 Table 2"
_CODE = "README of the authors' code"
SENTIMENT = {
    (cell, column): Reported(value, "% accuracy", source)
    for cell, column, value, source in (
        ("gated", "fine, best of 5", 53.2, TABLE_2),
        ("gated", "binary, best of 5", 89.9, TABLE_2),
        ("constant", "fine, best of 5", 51.2, TABLE_2),
        ("constant", "binary, best of 5", 88.6, TABLE_2),
        ("gated", "fine, mean", 52.4, _CODE),
        ("gated", "binary, mean", 89.6, _CODE),
        ("gated", "fine, validation", 53.7, _CODE),
        ("gated", "binary, validation", 90.1, _CODE),
    )
}

# Networks of others in the same tables, each with its millions of parameters and test perplexity on
# the Penn Treebank, or with its accuracies on five classes and on two.
OTHERS_1 = {
    "LSTM (large), Zaremba et al., 2014": (66, 78.4),
    "Character CNN, Kim et al., 2015": (19, 78.9),
    "Variational LSTM, Gal & Ghahramani, 20m": (20, 78.6),
    "Variational LSTM, Gal & Ghahramani, 66m": (66, 73.4),
    "Pointer Sentinel-LSTM, Merity et al.": (21, 70.9),
    "Variational RHN, Zilly et al., 2016": (23, 65.4),
    "Neural Net Search, Zoph & Le, 2016": (25, 64.0),
}
OTHERS_2 = {
    "RNN, Socher et al., 2011": (43.2, 82.4),
    "RNTN, Socher et al., 2013": (45.7, 85.4),
    "DRNN, Irsoy & Cardie, 2014": (49.8, 86.8),
    "RLSTM, Tai et al., 2015": (51.0, 88.0),
    "DCNN, Kalchbrenner et al., 2014": (48.5, 86.9),
    "CNN-MC, Kim, 2014": (47.4, 88.1),
    "Bi-LSTM, Tai et al., 2015": (49.1, 87.5),
    "LSTMN, Cheng et al., 2016": (47.9, 87.0),
    "PVEC, Le & Mikolov, 2014": (48.7, 87.8),
    "DAN, Iyyer et al., 2015": (48.2, 86.8),
    "DMN, Kumar et al., 2016": (52.1, 88.6),
}
REPORTED_OTHERS = {
    (name, "ptb"): Reported(perplexity, "test perplexity", "L17 Table 1")
    for name, (_, perplexity) in OTHERS_1.items()
} | {
    (name, f"{task}, best of 5"): Reported(accuracies[k], "% accuracy", TABLE_2)
    for name, accuracies in OTHERS_2.items()
    for k, task in enumerate(("fine", "binary"))
}


def others_in(column: str) -> list[str]:
    """Return a sentence with the figures of other networks in a column of L17 Table 1 or 2."""
    rows = {name: r.value for (name, of), r in REPORTED_OTHERS.items() if of.startswith(column)}
    shown = "; ".join(f"{name} {value:g}" for name, value in rows.items())
    return ["", f"Other networks in the same table of L17: {shown}."] if shown else []


class MoleculeRow(NamedTuple):
    """A row of L17 Table 3."""

    title: str
    units: int  # for 0.26 million parameters, as in the paper
    rmse: float | None  # the paper's


MOLECULE_NETWORKS = {
    "wl-gated": MoleculeRow("Weisfeiler-Lehman kernel NN, gated λ", 175, 0.1043),
    "neural-fingerprint": MoleculeRow("neural fingerprint", 145, 0.1409),
    "wl": MoleculeRow("Weisfeiler-Lehman kernel NN", 200, 0.1058),
    "loopy-bp": MoleculeRow("embedded loopy BP", 265, 0.1065),
    "gine": MoleculeRow("GINE", 164, None),
    "wl-gated-sum": MoleculeRow("the gated network, summed over its levels", 175, None),
    "wl-gated-levels": MoleculeRow("the same with references of each level", 110, None),
}
# Rows that run if they are named: the paper's formula, where its figures are those of the code.
BY_NAME = ("wl-gated-sum", "wl-gated-levels")
# One in so many molecules of the training part; the sets after the first run if they are named.
WHOLE = "cep"
MOLECULE_SETS = {WHOLE: 1, "cep-quarter": 4, "cep-sixteenth": 16}
# Best first, as in section 6.3.
ORDER = ("wl-gated", "wl", "loopy-bp", "neural-fingerprint")
# Rows without a network: parameters and RMSE in the paper, which takes the kernels from Dai et al.
MEAN = "mean of the training part"
WITHOUT_NETWORK = {
    MEAN: ("1", 2.4062),
    "Weisfeiler-Lehman kernel, degree 3": ("1.6m", 0.2040),
    "Weisfeiler-Lehman kernel, degree 6": ("1378m", 0.1367),
    "embedded mean field, Dai et al.": ("0.1m", 0.1250),
    "embedded loopy BP, Dai et al.": ("0.1m", 0.1174),
}
MOLECULES = {
    (name, "rmse"): Reported(rmse, "RMSE of the PCE", "L17 Table 3")
    for name, rmse in (
        *((name, network.rmse) for name, network in MOLECULE_NETWORKS.items()),
        *((name, rmse) for name, (_, rmse) in WITHOUT_NETWORK.items()),
    )
    if rmse is not None
}


@dataclass(frozen=True)
class GraphSet:
    """A TU data set and its published accuracies in %."""

    name: str  # on the command line
    folder: str  # also the stem of its file
    graphs: int  # in the full set
    order: int  # nodes of the longest walks
    published: Mapping[str, float] = field(default_factory=dict)  # by a key of PUBLISHED


# The rows of the table of graph classification, plain kernels first.
FAMILIES = {
    "walk": "walks of n nodes",
    "walk-inverse": "1/(2 − K) over walks",
    "walk-rbf": "RBF over walks",
    "levels": "walks of 1 … n nodes, summed",
    "levels-inverse": "1/(2 − K) over summed levels",
    "levels-rbf": "RBF over summed levels",
    "wl": "Weisfeiler-Lehman subtree",
    "wl-inverse": "1/(2 − K) over Weisfeiler-Lehman",
    "wl-rbf": "RBF over Weisfeiler-Lehman",
}
GRAPH_NETWORKS = {
    "walk-network": "network of walks of 3 nodes",
    "wl-network": "Weisfeiler-Lehman network, 4 levels",
}
# By row: where the figures are printed, and with what protocol.
PUBLISHED = {
    "WL subtree": "README of the code of Random Walk Graph Neural Networks, NeurIPS 2020",
    "GIN": "the same README",
    "walk kernels": "nested; Kriege, Weisfeiler and Leman Go Walking, 2022",
    "GIN-0": "Xu et al., How Powerful are Graph Neural Networks?, ICLR 2019: at the epoch that is "
    "best on the test folds, so higher than with nested selection",
}
GRAPH_SETS = {
    s.name: s
    for s in (
        GraphSet("mutag", "MUTAG", 188, 6,
                 {"WL subtree": 84.6, "GIN": 84.7, "walk kernels": 87.1, "GIN-0": 89.4}),
        GraphSet("proteins", "PROTEINS", 1_113, 5,
                 {"WL subtree": 73.8, "GIN": 73.3, "walk kernels": 74.8, "GIN-0": 76.2}),
        GraphSet("nci1", "NCI1", 4_110, 6,
                 {"WL subtree": 84.8, "GIN": 80.0, "walk kernels": 85.5, "GIN-0": 82.7}),
        GraphSet("imdb-b", "IMDB-BINARY", 1_000, 3, {"GIN-0": 75.1}),
    )
}  # fmt: skip
GRAPHS = {
    (row, dataset.name): Reported(value, "% accuracy", PUBLISHED[row])
    for dataset in GRAPH_SETS.values()
    for row, value in dataset.published.items()
}
