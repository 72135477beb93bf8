"""``fit molecule`` and what follows: evaluate, predict, explain, report, and what is refused."""

from __future__ import annotations

import json
import math
import shutil

import pytest
from rdkit import Chem

from cli.conftest import MOLECULE, metrics_of, rows_of
from representer.data.molecules import scaffold
from representer.options.molecule import MoleculeConfig
from representer.tasks.molecule import FLOW


def test_other_networks_and_baselines_are_compared_on_each_target(molecule_run):
    metrics = metrics_of(molecule_run)
    assert list(metrics["test"]) == ["atoms", "rings"]
    assert metrics["test"]["rings"]["count"] < metrics["test"]["atoms"]["count"] == 12
    (gine,) = metrics["comparisons"]
    assert gine["name"].startswith("GINE, ")
    names = [b["name"] for b in metrics["baselines"]]
    assert names == ["WL subtree kernel, ridge", "ECFP counts and descriptors, random forest",
                     "min-max kernel, SVM", "ECFP, SVM", "mean"]  # fmt: skip
    for baseline in (gine, *metrics["baselines"]):
        assert baseline["test"].keys() == baseline["difference"].keys() == metrics["test"].keys()


def test_counting_atoms_is_learned_better_than_the_mean(molecule_run):
    metrics = metrics_of(molecule_run)
    difference = metrics["baselines"][-1]["difference"]["atoms"]
    assert difference[0] < 0
    ridge = metrics["baselines"][0]["test"]["atoms"]["rmse"]
    assert ridge < 1.0  # the kernel counts atoms


def test_the_report_has_tables_plots_and_drawn_walks(molecule_run, molecule_classes):
    page = (molecule_run / "report.html").read_text(encoding="utf-8")
    for part in (
        "Explained test examples", "Largest errors: atoms", "Learning curves",
        "min-max kernel, SVM", "Predicted against true values", "<th>used for</th>",
        "molecule, its atoms colored by their contributions",
        "Test results: rings", "SMILES column", "rings, training part",
    ):  # fmt: skip
        assert part in page
    assert "<script" not in page
    assert "Predicted against" not in (molecule_classes / "report.html").read_text(encoding="utf-8")


def test_the_molecules_to_measure_next_are_suggested(run, molecule_run, tmp_path):
    pool, out = tmp_path / "pool.csv", tmp_path / "next.csv"
    rows = [("C" * n, n, 1 + n % 2) for n in range(1, 9)]
    pool.write_text("smiles,size,price\n" + "".join(f"{a},{b},{c}\n" for a, b, c in rows))
    run("suggest", molecule_run, pool, "-k", "3", "--of", "atoms", "--where", "size<=6",
        "--cost", "price", "-o", out)  # fmt: skip
    found = rows_of(out)
    assert len(found) == 3
    assert all(int(row["size"]) <= 6 for row in found)
    assert [*found[0]] == [
        "smiles", "size", "price", "prediction", "uncertainty", "improvement"
    ]  # fmt: skip
    for option, value, message in (
        ("--where", "size is small", "such as 'weight<=500'"), ("--cost", "nothing", "the columns"),
        ("--of", "mass", "one of atoms, rings"),
    ):  # fmt: skip
        failed = run("suggest", molecule_run, pool, "-k", "3", option, value)
        assert failed.code == 2
        assert message in failed.err


def test_an_sdf_file_is_predicted_as_the_table_of_its_molecules(
    run, molecule_run, molecules, tmp_path
):
    path, cells = tmp_path / "made.sdf", rows_of(molecules)[:5]
    with Chem.SDWriter(str(path)) as writer:
        for row in cells:
            molecule = Chem.MolFromSmiles(row["smiles"])
            molecule.SetProp("_Name", row["name"])
            writer.write(molecule)
    rows = rows_of(run("predict", molecule_run, path).out)
    expected = rows_of(run("predict", molecule_run, molecules).out)[:5]
    assert list(rows[0]) == ["smiles", "name", *(name for name in expected[0] if "_" in name)]
    for row, own in zip(rows, expected, strict=True):
        assert row["name"] == own["name"]
        assert float(row["prediction_atoms"]) == pytest.approx(float(own["prediction_atoms"]))


def test_smiles_of_the_command_line_are_predicted_without_a_file(run, molecule_run):
    (row,) = rows_of(run("predict", molecule_run, "--input", "CCO").out)
    assert row["molecule"] == "CCO"
    assert math.isfinite(float(row["prediction_atoms"]))
    assert "--input" in run("predict", molecule_run, "--input", "C(C").error


def test_the_mean_is_that_of_the_training_rows(molecule_run, molecules):
    given = rows_of(molecules)
    splits = json.loads((molecule_run / "splits.json").read_text())
    values = {
        name: [float(given[line - 2]["atoms"]) for line in splits[name]["lines"]]
        for name in ("train", "test")
    }
    mean = sum(values["train"]) / len(values["train"])
    squares = [(value - mean) ** 2 for value in values["test"]]
    metrics = metrics_of(molecule_run)
    wanted = (sum(squares) / len(squares)) ** 0.5
    assert metrics["baselines"][-1]["test"]["atoms"]["rmse"] == pytest.approx(wanted)


BAD = 'smiles,x\nCCO,"1,2"\nC(C,2\n,3\nO(C)(C)C,4\nC,5\n'


def test_an_invalid_row_is_named_or_on_request_kept_without_a_prediction(
    run, molecule_run, tmp_path
):
    path = tmp_path / "bad.csv"
    path.write_text(BAD)
    refused = run("predict", molecule_run, path)
    assert refused.code == 2
    assert "bad.csv, line 3, column 'smiles': invalid SMILES 'C(C'" in refused.error
    assert "2 more rows (lines 4, 5)" in refused.error
    assert "--skip-invalid" in refused.error
    found = run("predict", molecule_run, path, "--skip-invalid")
    assert found.code == 0
    rows = rows_of(found.out)
    assert [bool(row["prediction_atoms"]) for row in rows] == [True, False, False, False, True]
    assert rows[0]["x"] == "1,2"
    for part in ("(line 3)", "1 empty SMILES (line 4)", "(line 5)", "O, 3, is greater"):
        assert part in found.err


def test_explain_names_walks_whose_contributions_sum_to_the_prediction(
    run, molecule_run, molecule_classes, tmp_path
):
    path = tmp_path / "some.csv"
    path.write_text("smiles\nCCO\nC\n[Na+].CC(=O)[O-]\n")
    out = run("explain", molecule_run, path, "--top", "3", "--report")
    assert out.code == 0, out.err
    assert "line 2: atoms: " in out.out
    assert ", CCO\n" in out.out
    entries = json.loads((molecule_run / "explanations.json").read_text())
    predicted = rows_of(run("predict", molecule_run, path).out)
    for entry, row, count in zip(entries, predicted, (3, 3, 3), strict=True):
        assert len(entry["contributions"]) == count
        listed = sum(one["contribution"] for one in entry["contributions"])
        total = entry["constant"] + listed + entry["others"]["contribution"]
        assert total == pytest.approx(entry["score"], rel=1e-9)
        assert entry["score"] == pytest.approx(float(row["prediction_atoms"]), rel=1e-6)
    assert len(entries[1]["atoms"]) == 1
    assert "[Na+].CC(=O)[O-]" in (molecule_run / "report.html").read_text(encoding="utf-8")
    (molecule_run / "explanations.json").unlink()
    assert run("explain", molecule_classes, path, "--limit", "1", "--report").code == 0
    (entry,) = json.loads((molecule_classes / "explanations.json").read_text())
    assert entry["prediction"][0] in "01"
    assert len(entry["atoms"]) == 3
    (molecule_classes / "explanations.json").unlink()
    run("report", molecule_classes)
    refused = run("explain", molecule_run / "gine", path, "--report")
    assert refused.code == 2
    assert "gine; expected wl or random-walk" in refused.error


def test_a_report_shows_no_markup_that_lies_in_a_file(run, molecule_run, molecules, tmp_path):
    """A stranger's explanations.json brings its own drawing, texts and contributions."""
    out = tmp_path / "run"
    shutil.copytree(molecule_run, out)
    assert run("explain", out, molecules, "--limit", "1", "--report").code == 0
    (entry,) = json.loads((out / "explanations.json").read_text())
    script = "<svg><script>alert(1)</script></svg>"
    hostile = entry | {"drawing": script, "picture": script, "prediction": script}
    (out / "explanations.json").write_text(json.dumps([hostile]))
    assert run("report", out).code == 0
    page = (out / "report.html").read_text(encoding="utf-8")
    assert "<script" not in page
    assert "&lt;script&gt;" in page
    unnamed = {name: value for name, value in hostile.items() if name != "smiles"}
    (out / "explanations.json").write_text(json.dumps([unnamed]))
    assert run("report", out).code == 0
    assert "<script" not in (out / "report.html").read_text(encoding="utf-8")
    for changes in ({"atoms": [0.0] * 99}, {"smiles": "C<b>"}):
        (out / "explanations.json").write_text(json.dumps([entry | changes]))
        refused = run("report", out)
        assert refused.code == 2
        assert "its results cannot be shown" in refused.error


@pytest.mark.parametrize(("text", "words", "message"), [
    ("smiles,y\nC,1\n", ["--target", "y", "--smiles", "s"], "there is no column 's'"),
    (
        "smiles,a,b\nC,1,5\nCC,3,4\nCO,2,9\n",
        [],
        "several columns could be it ('a', 'b'); the columns are 'smiles', 'a', 'b'. Name it",
    ),
    (
        "smiles,y\nC,1\nCC,tall\nCO,3\n",
        ["--target", "y"],
        "line 3, column 'y': the label is 'tall'; exp",
    ),
    ("smiles,y\nC,1\nC1C,2\n", ["--target", "y"], "line 3, column 'smiles': invalid SMILES"),
    ("smiles,y\nC,1\nCC,2\n", ["--target", "y"], "2 molecules in 2 groups cannot be divided"),
    ("smiles,y\nC,7\nCC,7\nCCC,7\nCCCC,7\nO,7\n", ["--target", "y"], "has the one value 7"),
])  # fmt: skip
def test_a_bad_file_leaves_no_folder(run, tmp_path, text, words, message):
    path = tmp_path / "bad.csv"
    path.write_text(text)
    outcome = run("fit", "molecule", path, "--out", tmp_path / "run", *MOLECULE, *words)
    assert outcome.code == 2
    assert message in outcome.error
    assert not (tmp_path / "run").exists()


def test_skipped_rows_are_listed_in_the_run(run, molecules, tmp_path):
    path, out = tmp_path / "bad.csv", tmp_path / "run"
    path.write_text(molecules.read_text() + "x,C(C,1,1,1,a\n")
    words = ["--target", "atoms", "--baselines", "none", "--epochs", "1", "--skip-invalid"]
    outcome = run("fit", "molecule", path, "--out", out, *MOLECULE, *words)
    assert outcome.code == 0
    assert "1 row left out: 1 invalid SMILES 'C(C'" in outcome.err
    assert "(line 62)" in outcome.err
    (row,) = rows_of(out / "skipped.csv")
    assert row["line"] == "62"
    assert metrics_of(out)["baselines"] == []


def test_a_scaffold_split_has_no_scaffold_in_two_parts(molecules):
    data = FLOW.prepare(MoleculeConfig(data=str(molecules), target="atoms", split="scaffold"))
    kinds = [{scaffold(s) for s in part.objects} for part in data.parts.values()]
    assert sum(map(len, kinds)) == len(set().union(*kinds))


def test_targets_that_are_not_standardized_stay_in_their_unit(molecules):
    data = FLOW.prepare(MoleculeConfig(data=str(molecules), target="atoms", standardize=False))
    assert data.target.scales == (1.0,)
