"""The results pages claim no more than their figures support, and the index quotes the pages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent.parent / "docs" / "results"
INDEX = FOLDER / "index.md"
PAGES = sorted(set(FOLDER.glob("*.md")) - {INDEX})
LEVEL = 0.05
CLAIM = re.compile(r"\b(ahead|beats?|better|outperforms?)\b", re.IGNORECASE)
VERDICT = re.compile(r"\b(ahead of|behind|level with)\b(?=.*?\bp ([=<]) (\d\.\d+))")
P_VALUE = re.compile(r"\bp [=<] (\d\.\d+)")
INTERVAL = re.compile(r"± \d|\d – \d")


def statements(text: str) -> Iterator[str]:
    """Yield the rows of all tables but their heads, and the sentences of the other text."""
    for block in re.sub(r"```.*?```", "", text, flags=re.DOTALL).split("\n\n"):
        if block.startswith("|"):
            yield from block.splitlines()[2:]
        else:
            yield from re.split(r"(?<=[.:;]) (?=[A-Z*`])", " ".join(block.split()))


def unsupported(text: str) -> list[str]:
    """Return the statements that claim an advantage without an interval or a small p-value."""
    found: dict[str, None] = {}  # in order, each once
    for statement in statements(text):
        values = [float(value) for value in P_VALUE.findall(statement)]
        has_support = min(values, default=1.0) < LEVEL or (
            not values and INTERVAL.search(statement) is not None
        )
        if CLAIM.search(statement) and not has_support:
            found[statement] = None
        for relation, sign, value in VERDICT.findall(statement):
            is_small = float(value) < LEVEL or (sign == "<" and float(value) == LEVEL)
            if is_small == (relation == "level with"):
                found[statement] = None
    return list(found)


@pytest.mark.parametrize("page", [*PAGES, INDEX], ids=lambda page: page.stem)
def test_a_claim_of_an_advantage_stands_beside_its_interval_or_p_value(page: Path):
    assert unsupported(page.read_text("utf-8")) == []


@pytest.mark.parametrize(
    "text",
    [
        "The LSTM is ahead of the baseline.",
        "The LSTM is ahead of the baseline (+2.2 points, p = 0.367).",
        "It is level with the CNN (+13.3 points, p = 0.017).",
        "It is ahead of A (+1.0 points, p = 0.001) and behind B (-0.2 points, p = 0.235).",
        "| model | verdict |\n|---|---|\n| LSTM | better |",
        "A sentence.\n\nThis one beats all others, by 5 points.",
    ],
)
def test_the_check_refuses(text: str):
    assert len(unsupported(text)) == 1


@pytest.mark.parametrize(
    "text",
    [
        "The LSTM is ahead of the baseline (+2.2 points, p = 0.017).",
        "It is level with A (p = 0.457) and behind B (p < 0.05).",
        "| model | verdict |\n|---|---|\n| LSTM | better: 3.1 ± 0.2 points |",
        "| better, worse |\n|---|\n| 3, 4 |",
        "The accuracy is 97 %.",
    ],
)
def test_the_check_passes(text: str):
    assert unsupported(text) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_names_its_command_and_its_versions(page: Path):
    text = page.read_text("utf-8")
    command = r"python (benchmarks|tools)/\w+\.py [\w-]+|representer (fit|reproduce) [\w-]+ "
    assert re.search(command, text)
    assert re.search(r"torch \d+\.\d+", text)


def rows() -> list[list[str]]:
    """Return the cells of the index's rows: claim, figure, interval, page."""
    lines = INDEX.read_text("utf-8").splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines
             if line.startswith("| ")]  # fmt: skip
    return [row for row in cells if row[0] not in ("claim", "---")]


def test_the_index_links_every_page():
    linked = set(re.findall(r"\]\(([\w-]+\.md)\)", INDEX.read_text("utf-8")))
    assert linked == {page.name for page in PAGES}


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0][:60])
def test_a_row_of_the_index_quotes_its_page(row: list[str]):
    _, figure, interval, link = row
    (name,) = re.findall(r"\]\(([\w-]+\.md)\)", link)
    page = (FOLDER / name).read_text("utf-8")
    numbers = re.findall(r"\d[\d,]*\.\d+|\d{1,3},\d{3}", f"{figure} {interval}")
    missing = [number for number in numbers if not re.search(rf"(?<![\d.]){number}(?!\d)", page)]
    assert missing == []
    assert re.search(r"\d", figure)
