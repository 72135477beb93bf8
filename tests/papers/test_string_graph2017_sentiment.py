"""The recipe of L17 Table 2: runs, resumption, table."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from papers.conftest import write_treebank
from representer.cli.main import entry_point
from representer.errors import ArgumentError
from representer.tasks.recipe import Request
from representer_papers.string_graph2017 import RECIPES
from undrawn import undrawn

# of a tiny treebank, some texts have no word of the training
pytestmark = pytest.mark.filterwarnings("ignore:.*nothing that training had")


def words(treebank: Path, out: Path) -> list[str]:
    return [
        "reproduce", "string-sentiment", "--data", str(treebank), "--out", str(out),
        "--smoke", "--threads", "1", "--vectors", str(treebank / "tiny.3d.txt"),
        "--datasets", "fine", "--cells", "gated,constant-learned",
    ]  # fmt: skip


@pytest.fixture(scope="session")
def finished(tmp_path_factory) -> Path:
    """Return the folder of a finished smoke run, to be copied."""
    out = tmp_path_factory.mktemp("finished")
    with undrawn():
        assert entry_point(words(write_treebank(tmp_path_factory.mktemp("treebank")), out)) == 0
    return out


@pytest.fixture
def table(finished, tmp_path) -> str:
    shutil.copytree(finished, tmp_path / "out")
    return (tmp_path / "out/table.md").read_text(encoding="utf-8")


def row(table: str, name: str) -> list[str]:
    (line,) = [line for line in table.splitlines() if line.startswith(f"| {name} |")]
    return [cell.strip() for cell in line.strip("|").split("|")]


def test_a_smoke_run_fills_the_table_through_the_command_line(table, tmp_path):
    assert "Smoke run" in table
    assert (
        "a subset, not comparable with the paper: 41 / 11 / 11 of 157,401 / 1,101 / 2,210" in table
    )
    assert row(table, "gated, L17")[-4:] == ["52.4", "53.2", "53.7", "–"]
    ours = row(table, "gated")
    assert ours[1:3] == ["`tiny.3d`", "`paper`"]
    metrics = json.loads((tmp_path / "out/fine/gated-tiny.3d-seed0/metrics.json").read_text())
    assert ours[3] == f"{100 * metrics['test']['accuracy']:.2f}"
    assert ours[-1].endswith("of 2")
    assert metrics["test"]["count"] == 11
    assert row(table, "constant-learned")[1] == "none"
    assert row(table, "TF-IDF + logistic regression")[4] == "100.00"  # a word determines the class
    assert "`tiny.3d` covers" in table
    assert "–" in row(table, "majority class")


def test_a_run_of_the_table_can_be_evaluated_and_explained(table, tmp_path, capsys):
    folder = tmp_path / "out/fine/gated-tiny.3d-seed0"
    (tmp_path / "new.csv").write_text("text,label\n-lrb- a fine FILM,3\n", encoding="utf-8")
    capsys.readouterr()
    assert (
        entry_point(["explain", str(folder), str(tmp_path / "new.csv"), "--top", "2", "--inside"])
        == 0
    )
    shown = capsys.readouterr().out
    assert "-lrb-" in shown  # cut at blanks alone, as the treebank
    assert "FILM" in shown
    assert "layer 1 of 3, contributions propagated" in shown
    assert entry_point(["predict", str(folder), str(tmp_path / "new.csv")]) == 0


def test_a_larger_budget_continues_runs_that_used_all_their_epochs(treebank, tmp_path, monkeypatch):
    from representer_papers.string_graph2017 import sentiment

    small = {name: value for name, value in sentiment._SMOKE.items() if name != "epochs"}
    monkeypatch.setattr(sentiment, "_SMOKE", small)

    def epochs(budget: float) -> float:
        RECIPES["string-sentiment"].run(
            Request(treebank, tmp_path / "out", budget, smoke=True, datasets=("binary-roots",),
                    cells=("constant-learned",), threads=1)
        )  # fmt: skip
        path = tmp_path / "out/binary-roots/constant-learned-seed0/metrics.json"
        return json.loads(path.read_text())["epochs"]

    assert epochs(0.005) == 1
    assert epochs(0.015) == 3
    assert epochs(0.005) == 3  # what there is counts


def test_a_cell_with_word_vectors_requires_a_file(treebank, tmp_path):
    with pytest.raises(ArgumentError, match="a file of word vectors for gated"):
        RECIPES["string-sentiment"].run(Request(treebank, tmp_path / "out", cells=("gated",)))
