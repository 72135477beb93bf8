"""The figures of L19 Table 2: test accuracies in % with 1-gram and 3-gram filters."""

from __future__ import annotations

from representer.tasks.recipe import Reported

SOURCE = "L19 Table 2"

# The paper's names of the rows, and ours. Columns: AG News, DBpedia, Yahoo! Answers, Yelp Full.
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

_PRINTED = {
    "lstm": ((91.82, 92.46), (98.98, 98.97), (77.74, 77.72), (66.27, 66.37)),
    "rkm-lstm": ((91.76, 92.28), (98.97, 99.00), (77.70, 77.72), (65.92, 66.43)),
    "rkm-cifg": ((92.29, 92.39), (98.99, 99.05), (77.71, 77.91), (65.93, 65.92)),
    "linear-kernel-gated": ((92.07, 91.49), (98.96, 98.94), (77.41, 77.53), (65.35, 65.94)),
    "linear-kernel": ((91.62, 91.50), (98.65, 98.77), (76.93, 76.53), (61.18, 62.11)),
    "gated-cnn": ((91.54, 91.78), (98.37, 98.77), (72.92, 76.66), (60.25, 64.30)),
    "cnn": ((91.20, 91.53), (98.17, 98.52), (72.51, 75.97), (59.77, 62.08)),
}


def column_name(dataset: str, filter_length: int) -> str:
    """Return the name of a column of the table."""
    return f"{dataset} {filter_length}-gram"


REPORTED = {
    (row, column_name(dataset, n)): Reported(_PRINTED[slug][at][which], "% accuracy", SOURCE)
    for row, slug in ROWS.items()
    for at, dataset in enumerate(COLUMNS)
    for which, n in enumerate((1, 3))
}
