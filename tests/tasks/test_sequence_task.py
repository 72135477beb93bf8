"""The task ``sequence``: its demo and its baselines."""

from __future__ import annotations

import numpy as np
import pytest

from representer.estimators import SeriesClassifier
from representer.options.series import SeriesReading
from representer.options.task import Streaming
from representer.tasks.sequence import MOTIF, reads
from representer.tasks.series import FLOW, _distances, resampled, waves


def test_the_demo_has_the_motif_in_every_other_sequence():
    drawn = reads(20)
    assert drawn.labels.count("bound") == drawn.labels.count("free") == 10
    bound = zip(drawn.objects, drawn.labels, strict=True)
    assert all(MOTIF in "".join(one) for one, label in bound if label == "bound")


# The task ``series``: its baselines and its demo.


def test_warped_distances_are_those_of_the_definition():
    rng = np.random.default_rng(0)
    some, others = rng.normal(size=(2, 2, 7)), rng.normal(size=(3, 2, 7))
    for band in (1, 3, 7):
        pairs = [(one, other) for one in some for other in others]
        for (one, other), found in zip(pairs, _distances(some, others, band).flat, strict=True):
            table = np.full((8, 8), np.inf)
            table[0, 0] = 0
            for i in range(7):
                for j in range(7):
                    if abs(i - j) <= band:
                        best = min(table[i, j], table[i + 1, j], table[i, j + 1])
                        table[i + 1, j + 1] = ((one[:, i] - other[:, j]) ** 2).sum() + best
            assert np.isclose(found, table[-1, -1])
    expected = ((others - some[:, None]) ** 2).sum((2, 3))
    np.testing.assert_allclose(_distances(some, others, 0), expected)


def test_series_are_resampled_by_interpolation():
    series = [np.arange(n, dtype=np.float32)[None] for n in (1, 5, 9)]
    found = resampled(series, 5)
    assert found.shape == (3, 1, 5)
    np.testing.assert_allclose(found[2, 0], [0, 2, 4, 6, 8])


def test_the_demo_has_both_classes_in_equal_numbers():
    labels = waves(10).labels
    assert labels.count("bump") == labels.count("none") == 5


def test_a_run_reads_series_step_by_step(tmp_path):
    lines = ["a," + ",".join(map(str, range(9))), "b," + ",".join(map(str, range(9, 0, -1)))] * 8
    (tmp_path / "data.csv").write_text("\n".join(lines) + "\n")
    config = FLOW.declared.config(
        data=str(tmp_path / "data.csv"), out=str(tmp_path / "run"), num_features=300, threads=1
    )
    FLOW.fit(config)
    output, reading = tmp_path / "p.csv", SeriesReading()
    FLOW.predict(tmp_path / "run", tmp_path / "data.csv", output, reading, Streaming(stream=True))
    rows = [line.split(",") for line in output.read_text().splitlines()]
    assert rows[0] == ["series", "step", "prediction", "probability_a", "probability_b"]
    assert len(rows) == 1 + 16 * 9
    whole = SeriesClassifier.load(tmp_path / "run").predict_proba([np.arange(9.0)])[0]
    assert [float(value) for value in rows[9][3:]] == pytest.approx(whole, abs=1e-6)
