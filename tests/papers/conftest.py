"""Tiny made-up data sets in their common file formats."""

from __future__ import annotations

import csv
import lzma
import tomllib
from collections.abc import Iterator
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest

from representer import checks
from undrawn import figures_are_not_drawn  # noqa: F401 (used by all tests of the folder)


@pytest.fixture(scope="session")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with an AG News of two columns of text, and a compressed Yahoo! of one."""
    root = tmp_path_factory.mktemp("documents")
    rows = [
        (str(1 + i % 2), f"title {i}", "wave tide old salt" if i % 2 else "moon star old wind")
        for i in range(40)
    ]
    news, answers = root / "ag_news_csv", root / "yahoo_2class"
    news.mkdir(parents=True)
    answers.mkdir()
    for name, part in (("train", rows[:30]), ("test", rows[30:])):
        with (news / f"{name}.csv").open("w", encoding="utf-8", newline="") as file:
            csv.writer(file, quoting=csv.QUOTE_ALL).writerows(part)
        with lzma.open(answers / f"{name}.csv.xz", "wt", encoding="utf-8", newline="") as file:
            csv.writer(file, quoting=csv.QUOTE_ALL).writerows((c, f"{t} {d}") for c, t, d in part)
    return root


@pytest.fixture
def treebank(tmp_path: Path) -> Path:
    """A folder with the treebank's files of both tasks, some compressed, and word vectors."""
    return write_treebank(tmp_path / "treebank")


def write_treebank(root: Path) -> Path:
    """Write the treebank's files and word vectors into a folder, and return it."""
    (root / "sst").mkdir(parents=True)
    words = {0: "bad dull", 1: "weak film", 2: "the rock", 3: "good film", 4: "fine cast"}
    for task, labels in (("fine", (0, 1, 2, 3, 4)), ("binary", (0, 4))):
        for part, count in (("train", 20), ("phrases.train", 40), ("dev", 10), ("test", 10)):
            lines = [
                f"{labels.index(label)} {words[label]}{' ,' * (i % 3)}"
                for i, label in ((i, labels[i % len(labels)]) for i in range(count))
            ]
            text = "\n".join([*lines, "0 unseen" if part == "test" else lines[0]]) + "\n"
            path = root / "sst" / f"stsa.{task}.{part}"
            if part == "test":
                with lzma.open(f"{path}.xz", "wt", encoding="utf-8") as file:
                    file.write(text)
            else:
                path.write_text(text, encoding="utf-8")
    rows = ["bad 1 0 0", "dull 1 1 0", "Good 0 3 4", "film 0 0 2", "unseen 2 0 0", "other 1 1 1"]
    (root / "tiny.3d.txt").write_text("\n".join(rows) + "\n", encoding="utf-8")
    return root


@pytest.fixture(autouse=True, scope="session")
def _recipes_are_found() -> Iterator[None]:
    """Stand in for the metadata of the installed package, which may be of an older version."""
    pyproject = Path(__file__).parents[2] / "pyproject.toml"
    groups = tomllib.loads(pyproject.read_text("utf-8"))["project"]["entry-points"]
    group = "representer.recipes"
    found = EntryPoints(EntryPoint(*entry, group) for entry in groups[group].items())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(checks, "entry_points", lambda group: found.select(group=group))
        yield
