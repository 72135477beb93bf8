"""A small run of texts, exported once."""

from __future__ import annotations

from typing import NamedTuple

import pytest

from both_halves import with_both
from representer.estimators import TextClassifier
from representer.export import ExportedRun, export_run

TEXTS = ["a good film", "a bad film", "very good", "very bad indeed, isn't it?"] * 5
LABELS = ["+", "-"] * 10


class Exported(NamedTuple):
    """An estimator with both parts, and what was written of it."""

    estimator: TextClassifier
    run: ExportedRun


@pytest.fixture(scope="session")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Exported:
    """Return a classifier of texts as ONNX, in float32 and in 8 bits."""
    estimator = TextClassifier(
        cell="rkm-lstm", hidden_size=12, embedding_size=128, epochs=1, random_state=0, verbose=0,
        pooling="mean", filter_length=2, min_count=1, max_length=5,
    )  # fmt: skip
    estimator = with_both(estimator.fit(TEXTS, LABELS))
    return Exported(
        estimator, export_run(estimator, tmp_path_factory.mktemp("exported"), int8=True)
    )
