"""The task ``sequence``: its demo and its baselines."""

from __future__ import annotations

import csv
import json

import numpy as np
import pytest

from representer.errors import DataError
from representer.estimators import SequenceClassifier, SeriesClassifier
from representer.kernels.alphabets import PROTEIN
from representer.options.sequence import SequenceReading
from representer.options.series import SeriesReading
from representer.options.task import Streaming
from representer.tasks.sequence import FLOW as SEQUENCES
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


def test_a_run_finds_the_channels_of_a_table_by_their_names(tmp_path, capsys):
    rng, rows = np.random.default_rng(0), []
    for k in range(24):
        for t in range(12):
            rows.append([f"s{k}", t, rng.normal() + 3 * (k % 2), 100 * rng.normal(), "ab"[k % 2]])
    orders = {"data": [0, 1, 2, 3, 4], "other": [0, 1, 3, 2, 4]}
    head = ["id", "time", "heat", "noise", "label"]
    for name, order in orders.items():
        lines = [",".join(str(row[i]) for i in order) for row in [head, *rows]]
        (tmp_path / f"{name}.csv").write_text("\n".join(lines) + "\n")
    config = FLOW.declared.config(
        data=str(tmp_path / "data.csv"), out=str(tmp_path / "run"), num_features=300, threads=1
    )
    FLOW.fit(config)
    written = []
    for name in orders:
        output = tmp_path / f"{name}-predicted.csv"
        FLOW.predict(tmp_path / "run", tmp_path / f"{name}.csv", output, SeriesReading())
        written.append(output.read_text())
    assert written[0] == written[1]
    FLOW.predict(
        tmp_path / "run", tmp_path / "other.csv", output, SeriesReading(), Streaming(stream=True)
    )
    assert output.read_text().splitlines()[-1].startswith("s23,11,b,")
    model = SeriesClassifier.load(tmp_path / "run")
    assert model.inputs_.names == ("heat", "noise")
    FLOW.evaluate(tmp_path / "run", tmp_path / "other.csv", SeriesReading())
    assert "24 series are those" in capsys.readouterr().err


# Files beside that of the training: without labels, and of other formats.


@pytest.fixture(scope="module")
def peptides(tmp_path_factory):
    """A run of a table with named columns, some of whose rows are empty or in lower case."""
    folder = tmp_path_factory.mktemp("peptides")
    rng, rows = np.random.default_rng(0), []
    for row in range(60):
        letters = "".join(rng.choice([*"ACDEFGHIKLMNPQRSTVWY"], size=12))
        rows.append((letters + "RKGD" * (row % 2), "in" if row % 2 else "out"))
    rows[3] = rows[3][0].lower(), rows[3][1]
    rows += [("", "in"), ("  ", "out"), (rows[5][0].lower(), rows[5][1])]
    lines = ["peptide,activity", *map(",".join, rows)]
    (folder / "train.csv").write_text("\n".join(lines) + "\n")
    names = {"sequence": "peptide", "label": "activity", "baselines": "none", "threads": 1}
    config = SEQUENCES.declared.config(
        data=str(folder / "train.csv"), out=str(folder / "run"), num_patterns=2, **names
    )
    SEQUENCES.fit(config)
    return folder


def test_rows_without_a_sequence_are_left_out_and_copies_are_counted_in_either_case(peptides):
    run = peptides / "run"
    (main,) = json.loads((run / "details.json").read_text())["data"]["sources"]
    assert main["dropped"] == [{"reason": "empty sequence", "count": 2, "lines": [62, 63]}]
    assert SequenceClassifier.load(run).inputs_.name == "protein"
    both = SequenceClassifier.digests(
        [tuple(PROTEIN), tuple(PROTEIN.lower()[:9]), tuple(PROTEIN[:9])]
    )
    assert both[0] != both[1] == both[2]


@pytest.mark.parametrize(
    "text", ['peptide\nACDRKGD\n""\n', ">a\nACDRKGD\n>b\n"], ids=["csv", "fasta"]
)
def test_a_run_of_a_table_predicts_files_without_labels_and_of_other_formats(peptides, text):
    path = peptides / ("new.csv" if text[0] == "p" else "new.fasta")
    path.write_text(text)
    SEQUENCES.predict(peptides / "run", path, peptides / "p.csv", SequenceReading())
    head, first, second = csv.reader((peptides / "p.csv").read_text().splitlines())
    assert head[1:] == ["prediction", "probability_in", "probability_out"]
    assert first[1] in ("in", "out")
    assert second[1:] == ["", "", ""]  # keeps its place


def test_a_letter_that_is_no_code_has_its_line_and_costs_no_other_prediction(peptides):
    text = (peptides / "train.csv").read_text().replace("\nA", "\n?", 1)
    (peptides / "stray.csv").write_text(text)
    line = text[: text.index("?")].count("\n") + 1
    config = SEQUENCES.declared.config(data=str(peptides / "stray.csv"))
    with pytest.raises(DataError, match=rf"stray.csv, line {line}.*'\?' is no letter of protein"):
        SEQUENCES.sources(config)
    SEQUENCES.predict(
        peptides / "run", peptides / "stray.csv", peptides / "p.csv", SequenceReading()
    )
    rows = [*csv.reader((peptides / "p.csv").read_text().splitlines())]
    assert [row[2] for row in rows].count("") == 3  # two are empty
    assert rows[line - 1][2] == ""


def test_labels_are_still_required_where_they_are_compared(peptides):
    (peptides / "bare.csv").write_text("peptide\nACDRKGD\n")
    with pytest.raises(DataError, match="there is no column 'activity'"):
        SEQUENCES.evaluate(peptides / "run", peptides / "bare.csv", SequenceReading())


def test_a_run_of_a_table_of_series_predicts_files_without_labels_and_of_other_formats(tmp_path):
    rows = [f"{k % 2},{k % 5},{2 * (k % 2)},1" for k in range(24)]
    (tmp_path / "train.csv").write_text("\n".join(["state,t1,t2,t3", *rows]) + "\n")
    config = FLOW.declared.config(
        data=str(tmp_path / "train.csv"), out=str(tmp_path / "run"), label="state",
        num_features=300, threads=1, baselines="none",
    )  # fmt: skip
    FLOW.fit(config)
    texts = {"new.csv": "t1,t2,t3\n1,0,1\n1,2,1\n", "new.ts": "@data\n1,0,1\n1,2,1\n"}
    predicted = {}
    for name, text in texts.items():
        (tmp_path / name).write_text(text if "csv" in name else "@classLabel false\n" + text)
        FLOW.predict(tmp_path / "run", tmp_path / name, tmp_path / "p.csv", SeriesReading())
        rows = csv.DictReader((tmp_path / "p.csv").read_text().splitlines())
        predicted[name] = [row["prediction"] for row in rows]
    assert predicted["new.csv"] == predicted["new.ts"] == ["0", "1"]
