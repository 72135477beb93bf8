"""``--conformal``: sets and intervals in the run, in ``predict``, ``evaluate`` and the report."""

from __future__ import annotations

import json

import pytest

from cli.conftest import TINY, metrics_of, rows_of, write_table

ALONE = [*TINY, "--answer", "kernel", "--baselines", "none"]


def test_sets_of_labels_are_written_tested_and_reported(run, tmp_path):
    data, out, csv_file = write_table(tmp_path / "a.csv", 120), tmp_path / "run", tmp_path / "p.csv"
    shares = ["--conformal", "0.8", "--valid-fraction", "0.1"]
    fitted = run("fit", "text", data, "--out", out, *ALONE, *shares)
    assert fitted.code == 0, fitted.err
    splits = json.loads((out / "splits.json").read_text())
    parts = [splits[name]["lines"] for name in ("train", "valid", "calibration", "test")]
    assert sorted(line for part in parts for line in part) == [*range(2, 122)]
    assert len(parts[2]) == json.loads((out / "conformal.json").read_text())["counts"][0] == 29
    metrics = metrics_of(out)
    figures = metrics["test"]["conformal"]
    evaluated = json.loads(run("evaluate", out, data).out)["conformal"]
    assert run("predict", out, data, "-o", csv_file).code == 0
    rows = rows_of(csv_file)
    sets = [json.loads(row["prediction_set"]) for row in rows]
    assert all(set(own) <= {"sea", "sky"} for own in sets)
    assert evaluated["mean_size"] == pytest.approx(sum(map(len, sets)) / len(sets))
    is_in = [row["label"] in own for row, own in zip(rows, sets, strict=True)]
    assert evaluated["coverage"] == pytest.approx(sum(is_in) / len(rows))
    page = (out / "report.html").read_text()
    assert "29 for conformal prediction" in page
    share = f"{100 * figures['coverage']:.1f}\u202f%"
    assert f"The prediction sets contain the true value of {share} of the test" in page


def test_intervals_of_numbers_are_written_and_tested(run, tmp_path):
    data, out, csv_file = tmp_path / "a.csv", tmp_path / "run", tmp_path / "p.csv"
    rows = [("wave tide" if i % 2 else "moon old", 0.5 + i % 2 + i / 1000) for i in range(120)]
    data.write_text("text,score\n" + "\n".join(f"{text},{y}" for text, y in rows) + "\n,\n")
    words = ["fit", "text", data, "--label", "score", "--out", out, *ALONE, "--monitor", "loss"]
    assert run(*words, "--conformal", "0.9").code == 0
    assert run("predict", out, data, "-o", csv_file).code == 0
    *predicted, last = rows_of(csv_file)
    assert (last["low"], last["high"]) == ("", "")
    for row in predicted:
        low, middle, high = (float(row[name]) for name in ("low", "prediction", "high"))
        assert middle - low == pytest.approx(high - middle, rel=1e-5)
        assert low < high
    inside = sum(
        float(row["low"]) <= float(row["score"]) <= float(row["high"]) for row in predicted
    )
    evaluated = json.loads(run("evaluate", out, data).out)["conformal"]
    # one calibration row is on a bound, on either side of it by rounding
    assert evaluated["coverage"] == pytest.approx(
        inside / len(predicted), abs=1.01 / len(predicted)
    )
    assert "The predicted intervals contain the true value of" in (out / "report.html").read_text()


def test_copies_of_a_molecule_are_in_one_part_and_each_target_has_intervals(run, tmp_path):
    pytest.importorskip("rdkit")
    data, out = tmp_path / "m.csv", tmp_path / "run"
    molecules = [f"{'C' * size}{end}" for size in range(1, 21) for end in "ON"] * 2
    rows = [f"{one},{len(one)},{len(one) % 5}" for one in molecules]
    data.write_text("smiles,length,rest\n" + "\n".join(rows) + "\n")
    words = ["fit", "molecule", data, "--target", "length,rest", "--answer", "kernel"]
    fitted = run(*words, "--baselines", "none", "--conformal", "0.8", "--out", out)
    assert fitted.code == 0, fitted.err
    splits = json.loads((out / "splits.json").read_text())
    parts = [
        {molecules[line - 2] for line in splits[name]["lines"]}
        for name in ("train", "valid", "calibration", "test")
    ]
    assert min(map(len, parts)) > 0
    assert sum(map(len, parts)) == len(set().union(*parts)) == 40
    path = tmp_path / "p.csv"
    assert run("predict", out, data, "-o", path).code == 0
    for row in rows_of(path):
        for name in ("length", "rest"):
            numbers = [float(row[f"{what}_{name}"]) for what in ("low", "prediction", "high")]
            assert numbers == sorted(numbers)
