"""Small made-up tables, and one trained run that the tests of a session share."""

from __future__ import annotations

import csv
import io
import json
import random
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from representer.cli.main import entry_point
from undrawn import figures_are_not_drawn  # noqa: F401 (used by all tests of the folder)

TINY = [
    "--hidden-size", "6", "--embedding-size", "6", "--epochs", "6", "--batch-size", "8",
    "--threads", "1", "--min-count", "1", "--lr", "0.05", "--dropout", "0.1",
]  # fmt: skip
QUICK = [*TINY, "--answer", "network", "--baselines", "none", "--epochs", "1"]
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
