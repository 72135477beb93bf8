"""Data sets in the form in which they are handed round, made up and tiny."""

from __future__ import annotations

import csv
import lzma
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path

import pytest

from representer.tasks import recipe


@pytest.fixture
def data(tmp_path: Path) -> Path:
    """A folder with an AG News of two columns of text, and a compressed Yahoo! of one."""
    root = tmp_path / "data"
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


@pytest.fixture(autouse=True)
def _recipes_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stand in for the metadata of an installed package."""
    entry = EntryPoint("rkm2019", "representer_papers.rkm2019", recipe.GROUP)
    monkeypatch.setattr(recipe, "entry_points", lambda group: EntryPoints([entry]))
