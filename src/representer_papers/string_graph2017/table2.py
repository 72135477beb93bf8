"""The figures of L17 for its networks on the Stanford Sentiment Treebank: accuracies in %."""

from __future__ import annotations

from representer.tasks.recipe import Reported

SOURCE = "L17 Table 2"
_CODE = "README of the authors' code"

# By our row names; the paper has no network that learns its word vectors.
REPORTED = {
    ("gated", "fine, best of 5"): Reported(53.2, "% accuracy", SOURCE),
    ("gated", "binary, best of 5"): Reported(89.9, "% accuracy", SOURCE),
    ("constant", "fine, best of 5"): Reported(51.2, "% accuracy", SOURCE),
    ("constant", "binary, best of 5"): Reported(88.6, "% accuracy", SOURCE),
    ("gated", "fine, mean"): Reported(52.4, "% accuracy", _CODE),
    ("gated", "binary, mean"): Reported(89.6, "% accuracy", _CODE),
    ("gated", "fine, validation"): Reported(53.7, "% accuracy", _CODE),
    ("gated", "binary, validation"): Reported(90.1, "% accuracy", _CODE),
}
