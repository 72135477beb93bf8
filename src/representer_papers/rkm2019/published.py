"""The figures that L19 prints in Tables 2 and 4, by our names of the cells."""

from __future__ import annotations

from collections.abc import Mapping

from representer.tasks.recipe import Reported

# Table 2: the names of the rows, and test accuracies in % with 1-gram and 3-gram filters. Columns:
# AG News, DBpedia, Yahoo! Answers, Yelp Full.
ROWS = {
    "LSTM": "lstm",
    "RKM-LSTM": "rkm-lstm",
    "RKM-CIFG": "rkm-cifg",
    "Linear Kernel w/ o_t": "linear-kernel-gated",
    "Linear Kernel": "linear-kernel",
    "Gated CNN": "gated-cnn",
    "CNN": "cnn",
}
COLUMNS = ("ag_news", "dbpedia", "yahoo", "yelp")
_TABLE_2 = {
    "lstm": ((91.82, 92.46), (98.98, 98.97), (77.74, 77.72), (66.27, 66.37)),
    "rkm-lstm": ((91.76, 92.28), (98.97, 99.00), (77.70, 77.72), (65.92, 66.43)),
    "rkm-cifg": ((92.29, 92.39), (98.99, 99.05), (77.71, 77.91), (65.93, 65.92)),
    "linear-kernel-gated": ((92.07, 91.49), (98.96, 98.94), (77.41, 77.53), (65.35, 65.94)),
    "linear-kernel": ((91.62, 91.50), (98.65, 98.77), (76.93, 76.53), (61.18, 62.11)),
    "gated-cnn": ((91.54, 91.78), (98.37, 98.77), (72.92, 76.66), (60.25, 64.30)),
    "cnn": ((91.20, 91.53), (98.17, 98.52), (72.51, 75.97), (59.77, 62.08)),
}


def column_name(dataset: str, filter_length: int) -> str:
    """Return the name of a column of Table 2."""
    return f"{dataset} {filter_length}-gram"


DOCUMENTS = {
    (row, column_name(dataset, n)): Reported(accuracies[k], "% accuracy", "L19 Table 2")
    for row, cell in ROWS.items()
    for dataset, accuracies in zip(COLUMNS, _TABLE_2[cell], strict=True)
    for k, n in enumerate((1, 3))
}

# Table 3: the cells, and our names of their settings beside those of the paper.
LANGUAGE_CELLS = ("lstm", "rkm-lstm", "rkm-cifg", "linear-kernel-gated")
LANGUAGE_KINDS = ("", "-norm", "-small", "-small-norm", "-small-20", "-small-adam")
LANGUAGE_ROWS = tuple(f"{cell}{suffix}" for suffix in LANGUAGE_KINDS for cell in LANGUAGE_CELLS)

# Table 4: the names of the rows, and accuracies in % on the recordings of 29 mice, best first.
CELLS: Mapping[str, tuple[str, float]] = {
    "lstm": ("n-gram LSTM", 80.24),
    "rkm-lstm": ("RKM-LSTM", 79.02),
    "rkm-cifg": ("RKM-CIFG", 77.58),
    "linear-kernel-gated": ("Linear Kernel w/ o_t", 76.11),
    "gated-cnn": ("Gated CNN", 76.02),
    "syncnet": ("CNN (SyncNet)", 73.40),
    "linear-kernel": ("Linear Kernel", 73.13),
}
AVERAGED = "cnn"  # the CNN of Table 1, averaged over time: it has no power and no phases
BASELINE = "band-power"
LFP = {
    (cell, "mice"): Reported(accuracy, "% accuracy", "L19 Table 4")
    for cell, (_, accuracy) in CELLS.items()
}
