"""Small synthetic data of every task, and a trained run of each, which all tests share."""

from __future__ import annotations

import csv
import io
import json
import random
import re
import subprocess
import sys
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from representer.cli.main import entry_point
from representer.data.molecules import assembled_molecules
from representer.data.signals import synthetic_recordings, write_npz
from undrawn import (
    figures_are_not_drawn,  # noqa: F401 (used by all tests of the folder)
    undrawn,
)

TINY = [
    "--hidden-size", "6", "--embedding-size", "6", "--epochs", "6", "--batch-size", "8",
    "--threads", "1", "--min-count", "1", "--lr", "0.05", "--dropout", "0.1",
]  # fmt: skip
QUICK = [*TINY, "--answer", "network", "--baselines", "none", "--epochs", "1"]
MOLECULE = [
    "--hidden-size", "8", "--depth", "2", "--members", "2", "--epochs", "6", "--batch-size", "8",
    "--threads", "1", "--lr", "0.02", "--valid-fraction", "0.2", "--test-fraction", "0.2",
]  # fmt: skip
GRAPH = [
    "--hidden-size", "6", "--depth", "2", "--epochs", "3", "--batch-size", "16", "--lr", "0.01",
    "--threads", "1", "--test-fraction", "0.2", "--valid-fraction", "0.2",
]  # fmt: skip
SIGNAL = [
    "--hidden-size", "4", "--filter-length", "20", "--stride", "15", "--epochs", "3",
    "--batch-size", "16", "--lr", "0.01", "--answer", "network", "--jobs", "1",
]  # fmt: skip
SERIES = [
    "--hidden-size", "4", "--answer", "both", "--num-features", "700", "--epochs", "3",
    "--batch-size", "16", "--lr", "0.01", "--threads", "1", "--test-fraction", "0.2",
    "--valid-fraction", "0.2",
]  # fmt: skip
SEQUENCE = [
    "--hidden-size", "4", "--answer", "both", "--orders", "3", "--span", "4", "--epochs", "3",
    "--batch-size", "16", "--lr", "0.01", "--threads", "1", "--test-fraction", "0.2",
    "--valid-fraction", "0.2",
]  # fmt: skip
LANGUAGE = [
    "--hidden-size", "12", "--epochs", "4", "--batch-size", "4", "--unroll", "8", "--threads", "1",
    "--lr", "0.02", "--input-dropout", "0", "--output-dropout", "0",
]  # fmt: skip
LINE = "one two three four five six seven"
WORDS = {
    "sea": ["wave", "tide", "harbour", "sail", "salt"],
    "sky": ["cloud", "wing", "star", "moon", "wind"],
}


@dataclass(frozen=True)
class Outcome:
    """Result of a command."""

    code: int
    out: str
    err: str

    @property
    def error(self) -> str:
        """The one line of the error; there must be no other line that begins so."""
        (line,) = [line for line in self.err.splitlines() if line.startswith("error:")]
        return line


Run = Callable[..., Outcome]


def last_json(outcome: Outcome) -> dict[str, Any]:
    """Return the last line of a command's output as JSON."""
    return json.loads(outcome.out.splitlines()[-1])


def rows_of(table: Path | str) -> list[dict[str, str]]:
    """Return the rows of a CSV file, or of the text of one."""
    text = table.read_bytes().decode() if isinstance(table, Path) else table
    return [*csv.DictReader(io.StringIO(text, newline=""))]


def metrics_of(folder: Path) -> dict[str, Any]:
    """Return ``metrics.json`` of a run."""
    return json.loads((folder / "metrics.json").read_text())


@pytest.fixture
def run(capsys: pytest.CaptureFixture[str]) -> Run:
    """Run a command line in this process."""

    def call(*words: str | Path) -> Outcome:
        capsys.readouterr()
        code = entry_point([str(word) for word in words])
        captured = capsys.readouterr()
        return Outcome(code, captured.out, captured.err)

    return call


def write_table(path: Path, count: int = 60, seed: int = 0) -> Path:
    """Write a table of which a few words tell the class."""
    rng = random.Random(seed)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["id", "text", "label"])
        for i in range(count):
            label = ("sea", "sky")[i % 2]
            words = rng.choices(WORDS[label], k=4) + rng.choices(["the", "and", "old"], k=3)
            rng.shuffle(words)
            writer.writerow([i, " ".join(words), label])
    return path


@pytest.fixture
def table(tmp_path: Path) -> Path:
    """Sixty rows: id, text, label."""
    return write_table(tmp_path / "table.csv")


@pytest.fixture(scope="session")
def trained(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run; tests only read it."""
    folder = tmp_path_factory.mktemp("trained")
    data = write_table(folder / "table.csv")
    out = folder / "run"
    assert entry_point(["fit", "text", str(data), "--out", str(out), *TINY]) == 0
    return out


def write_molecules(path: Path, count: int = 60) -> Path:
    """Write molecules with two numbers, of which the second is not known of every other, and a
    class; among them a single atom and a salt."""
    from rdkit import Chem

    smiles = ["C", "[Na+].[Cl-]", *assembled_molecules(count - 2).smiles]
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["name", "smiles", "atoms", "rings", "aromatic", "label"])
        for i, one in enumerate(smiles):
            molecule = Chem.MolFromSmiles(one)
            rings = len(Chem.GetSSSR(molecule))
            is_aromatic = any(atom.GetIsAromatic() for atom in molecule.GetAtoms())
            row = [molecule.GetNumAtoms(), rings if i % 2 else "", int(is_aromatic), "ab"[i % 2]]
            writer.writerow([f"m{i}", one, *row])
    return path


@pytest.fixture(scope="session")
def molecules(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_molecules(tmp_path_factory.mktemp("molecules") / "made.csv")


def fitted(molecules, name: str, *words: str):
    out = molecules.parent / name
    assert (
        entry_point(["fit", "molecule", str(molecules), "--out", str(out), *MOLECULE, *words]) == 0
    )
    return out


@pytest.fixture(scope="session")
def molecule_run(molecules):
    with undrawn():
        return fitted(molecules, "numbers", "--target", "atoms,rings", "--baselines", "all")


@pytest.fixture(scope="session")
def molecule_classes(molecules):
    with undrawn():
        return fitted(molecules, "classes", "--target", "aromatic", "--task", "classification")


def chains(count: int) -> list[dict]:
    """Return chains of random nodes, labeled by their fraction of a's."""
    rng = random.Random(0)
    graphs = []
    for _ in range(count):
        nodes = rng.choices("ab", k=rng.randint(3, 7))
        share = nodes.count("a") / len(nodes)
        edges = [[v, v + 1, "s"] for v in range(len(nodes) - 1)]
        label = "many" if share > 0.5 else "few"
        graphs.append({"nodes": nodes, "edges": edges, "label": label, "share": share + 0.01})
    return graphs


@pytest.fixture(scope="session")
def graph_files(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Classes and numbers as JSONL, and the classes in TU format."""
    folder = tmp_path_factory.mktemp("graphs")
    graphs = chains(60)
    for name, key in (("classes", "label"), ("numbers", "share")):
        lines = [
            json.dumps({"nodes": g["nodes"], "edges": g["edges"], "label": g[key]}) for g in graphs
        ]
        (folder / f"{name}.jsonl").write_text("\n".join(lines) + "\n")
    tu, first = {"A": [], "graph_indicator": [], "node_labels": []}, 1
    for number, graph in enumerate(graphs, 1):
        tu["graph_indicator"] += [number] * len(graph["nodes"])
        tu["node_labels"] += ["ab".index(label) for label in graph["nodes"]]
        for u, v, _ in graph["edges"]:
            tu["A"] += [f"{first + u}, {first + v}", f"{first + v}, {first + u}"]
        first += len(graph["nodes"])
    tu["graph_labels"] = [int(graph["label"] == "many") for graph in graphs]
    (folder / "tu").mkdir()
    for part, lines in tu.items():
        (folder / "tu" / f"TOY_{part}.txt").write_text("\n".join(map(str, lines)) + "\n")
    return folder


@pytest.fixture(scope="session")
def graph_run(graph_files: Path) -> Path:
    out = graph_files / "classifier"
    words = ["fit", "graph", str(graph_files / "classes.jsonl"), "--out", str(out), *GRAPH]
    with undrawn():
        assert entry_point(words) == 0
    return out


@pytest.fixture(scope="session")
def graph_regression(graph_files: Path) -> Path:
    out = graph_files / "regressor"
    words = ["fit", "graph", str(graph_files / "numbers.jsonl"), "--out", str(out), *GRAPH]
    with undrawn():
        assert entry_point([*words, "--members", "2", "--decay", "0.5"]) == 0
    return out


@pytest.fixture(scope="session")
def recordings():
    return synthetic_recordings(subjects=4, windows=10)


@pytest.fixture(scope="session")
def signal_file(recordings, tmp_path_factory):
    path = tmp_path_factory.mktemp("signals") / "drawn.npz"
    write_npz(path, recordings)
    return path


@pytest.fixture(scope="session")
def signal_run(signal_file):
    out = signal_file.parent / "run"
    with undrawn():
        assert entry_point(["fit", "signal", str(signal_file), "--out", str(out), *SIGNAL]) == 0
    return out


@pytest.fixture(scope="session")
def series_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of series of 10 to 19 steps, a row each, which rise or fall."""
    folder, rng = tmp_path_factory.mktemp("series"), random.Random(0)
    with (folder / "series.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["label", *(f"t{t}" for t in range(19))])
        for row in range(60):
            sign, steps = 1 - 2 * (row % 2), rng.randint(10, 19)
            values = [f"{sign * t + rng.gauss(0, 2):.3f}" for t in range(steps)]
            writer.writerow(["rise" if sign > 0 else "fall", *values, *[""] * (19 - steps)])
    words = ["fit", "series", str(folder / "series.csv"), "--out", str(folder / "run"), *SERIES]
    with undrawn():
        assert entry_point(words) == 0
    return folder / "run"


@pytest.fixture(scope="session")
def sequence_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run of DNA of 10 to 15 bases, of which every other sequence has a motif."""
    folder, rng = tmp_path_factory.mktemp("sequence"), random.Random(0)
    with (folder / "dna.csv").open("w", newline="", encoding="utf-8") as file:
        writer = csv.writer(file)
        writer.writerow(["sequence", "label"])
        for row in range(60):
            letters = "".join(rng.choices("ACGT", k=rng.randint(6, 11)))
            writer.writerow([letters + ("GATT" if row % 2 else "CCCC"), "no" if row % 2 else "yes"])
    words = ["fit", "sequence", str(folder / "dna.csv"), "--out", str(folder / "run"), *SEQUENCE]
    assert entry_point(words) == 0
    return folder / "run"


@pytest.fixture(scope="session")
def running_text(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "count.txt"
    path.write_text(f"{LINE}\n" * 60, encoding="utf-8")
    return path


@pytest.fixture(scope="session")
def language_run(running_text):
    out = running_text.parent / "run"
    assert entry_point(["fit", "language", str(running_text), "--out", str(out), *LANGUAGE]) == 0
    return out


@contextmanager
def listening(*words: str) -> Iterator[tuple[subprocess.Popen[str], Callable[..., str]]]:
    """Yield a process of a command that listens, and a function that returns its answer.

    The process does not outlive a test that fails.
    """
    command = [sys.executable, "-m", "representer", *words, "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            assert process.stderr is not None
            line = process.stderr.readline()
            address = re.search(r"http://127\.0\.0\.1:\d+", line)
            assert address, line

            def answer(path: str, body: Any = None) -> str:
                request = urllib.request.Request(
                    address[0] + path, None if body is None else json.dumps(body).encode(),
                    {"content-type": "application/json"},
                )  # fmt: skip
                with urllib.request.urlopen(request, timeout=120) as response:
                    return response.read().decode()

            yield process, answer
        finally:
            process.kill()
