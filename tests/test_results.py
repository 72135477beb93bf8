"""The results pages claim no more than their figures support, and the index quotes the pages."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from scipy.stats import t, ttest_ind_from_stats

ROOT = Path(__file__).parent.parent
FOLDER = ROOT / "docs" / "results"
INDEX = FOLDER / "index.md"
PAGES = sorted(set(FOLDER.glob("*.md")) - {INDEX})
DIARIES = {"log.md"}  # of single trials
OTHERS = [ROOT / "README.md", *sorted(set((ROOT / "docs").rglob("*.md")) - {*PAGES, INDEX})]
LEVEL = 0.05
ADVANTAGE = re.compile(
    r"(?<!look )(?<!looks )(?<!word )\bahead\b|\b(?:is|are|be|it|and|was|were|,|\|) ?behind\b"
    r"|\b(?:beats?|better|outperforms?)\b"
    r"|\b(?:smaller|larger|lower|higher) (?:mean )?(?:error|accuracy|perplexity)\b",
    re.IGNORECASE,
)
NONE_AHEAD = re.compile(
    r"\b(?:none|no \w+) (?:is|are) (?:ahead|better)|\bno better\b", re.IGNORECASE
)
EQUAL = re.compile(r"\blevel with\b|: level\b|\| level \|", re.IGNORECASE)
VERDICT = re.compile(r"\b(ahead of|behind|level with)\b(?=.*?\bp ([=<]) (\d\.\d+))")
P_VALUE = re.compile(r"\bp [=<] (\d\.\d+)")
NUMBER = r"[+-]?\d[\d,]*(?:\.\d+)?"
SIGNED = r"[+-]\d[\d,]*(?:\.\d+)?"
PAIRED = re.compile(rf"({SIGNED})(?: points)? ± ({NUMBER})")
RANGE = re.compile(rf"({SIGNED}) (?:to|–) ({SIGNED})")
COUNT = re.compile(r"\((\d+) (?:seeds|splits)\)")
MEASURED = re.compile(r"\d\.\d+|\d %(?! intervals?\b)|\d points")
JUDGED = re.compile(r"\| (confirmed|refuted|not decided|not testable) \|")


def statements(text: str) -> Iterator[str]:
    """Yield the rows of all tables but their heads, and the sentences of the other text."""
    for block in re.sub(r"```.*?```", "", text, flags=re.DOTALL).split("\n\n"):
        if block.startswith("|"):
            yield from block.splitlines()[2:]
        else:
            yield from re.split(r"(?<=[.:;]) (?=[A-Z*`])", " ".join(block.split()))


def number(text: str) -> float:
    return float(text.replace(",", ""))


def intervals(statement: str) -> list[tuple[float, float]]:
    """Return the 95 % intervals of the differences in a statement.

    Of figures with the standard deviations of some seeds, they are those of Welch between the first
    figure and the others.
    """
    found = [(number(d) - number(h), number(d) + number(h)) for d, h in PAIRED.findall(statement)]
    found += [(number(low), number(high)) for low, high in RANGE.findall(statement)]
    cells = [cell.strip() for cell in statement.strip("|").split(" | ")]
    if found or len(cells) != 4 or "±" not in cells[2]:
        return found
    halves = [number(half) for half in re.findall(rf"± ({NUMBER})", cells[2])]
    values = [number(value) for value in re.findall(NUMBER, cells[1])]
    if len(values) != len(halves):
        return []
    if all(value[0] in "+-" for value in re.findall(NUMBER, cells[1])):
        return [(d - h, d + h) for d, h in zip(values, halves, strict=True)]
    count = COUNT.search(cells[2])
    if count is None:
        return []
    n = int(count[1])
    first, *others = zip(values, halves, strict=True)
    tests = [ttest_ind_from_stats(*first, n, *other, n, equal_var=False) for other in others]
    gaps = [first[0] - other[0] for other in others]
    errors = [abs(gap / test.statistic) for gap, test in zip(gaps, tests, strict=True)]
    widths = [
        (a[1] ** 2 + first[1] ** 2) ** 2 * (n - 1) / (a[1] ** 4 + first[1] ** 4) for a in others
    ]
    reach = [error * t.ppf(0.975, freedom) for error, freedom in zip(errors, widths, strict=True)]
    return [(gap - half, gap + half) for gap, half in zip(gaps, reach, strict=True)]


def is_supported(statement: str, is_strict: bool) -> bool:
    """Return True if an advantage or a tie that a statement claims has an interval that shows it.

    Args:
        statement: The statement.
        is_strict: Refuse an advantage without an interval or p-value, too.
    """
    small = [float(p) < LEVEL or f"< {p}" in statement for p in P_VALUE.findall(statement)]
    apart = [low > 0 or high < 0 for low, high in intervals(statement)]
    evidence = small or apart
    is_equal = EQUAL.search(statement) is not None or NONE_AHEAD.search(statement) is not None
    is_ahead = ADVANTAGE.search(NONE_AHEAD.sub("", statement)) is not None
    if is_equal and evidence and all(evidence):
        return False
    if not is_ahead or any(evidence):
        return True
    is_definition = "interval" in statement and not re.search(r"\d\.\d|\d points", statement)
    is_counted = re.search(r"in (?:\d+|two) of (?:\d+|three) seeds", statement) is not None
    return not evidence and (not is_strict or is_definition or is_counted)


def is_consistent(row: str) -> bool:
    """Return True if the verdict of a row of the claims is that of its interval or p-value."""
    (verdict,) = JUDGED.findall(row)
    if verdict == "not testable":
        return True
    margin = 1.0 if "at least level" in row else 0.0  # a point of accuracy
    p_values = [float(p) for p in P_VALUE.findall(row)]
    if p_values:
        sign = float(re.search(r"([+-][\d.]+) points, ", row)[1])  # type: ignore[index]
        return verdict == (
            "not decided" if p_values[0] >= LEVEL else "confirmed" if sign > 0 else "refuted"
        )
    ((low, high),) = intervals(row)
    return verdict == (
        "confirmed" if low > -margin else "refuted" if high < -margin else "not decided"
    )


def unsupported(text: str, *, is_strict: bool = True, is_result: bool = True) -> list[str]:
    """Return the statements that claim more than their intervals and p-values allow.

    Args:
        text: The page.
        is_strict: Refuse an advantage without an interval or p-value, too.
        is_result: Every statement is about a measurement; otherwise only those with its figures.
    """
    found: dict[str, None] = {}  # in order, each once
    for statement in statements(text):
        if not is_result and MEASURED.search(statement) is None:
            continue
        if JUDGED.search(statement):  # the claim of a paper, and what was found
            if not is_consistent(statement):
                found[statement] = None
            continue
        if not is_supported(statement, is_strict):
            found[statement] = None
        for relation, sign, value in VERDICT.findall(statement):
            is_small = float(value) < LEVEL or (sign == "<" and float(value) == LEVEL)
            if is_small == (relation == "level with"):
                found[statement] = None
    return list(found)


@pytest.mark.parametrize("page", OTHERS, ids=lambda page: page.stem)
def test_the_other_pages_claim_no_more_than_their_intervals(page: Path):
    is_strict = page.name not in DIARIES
    assert unsupported(page.read_text("utf-8"), is_strict=is_strict, is_result=False) == []


@pytest.mark.parametrize("page", [*PAGES, INDEX], ids=lambda page: page.stem)
def test_a_claim_of_an_advantage_stands_beside_its_interval_or_p_value(page: Path):
    assert unsupported(page.read_text("utf-8")) == []


def row(claim: str, figure: str, interval: str) -> str:
    """A row of the index below a head."""
    return f"| claim |\n|---|\n| {claim} | {figure} | {interval} | [page](page.md) |"


@pytest.mark.parametrize("text", [
    "The LSTM is ahead of the baseline.",
    "The LSTM is ahead of the baseline (+2.2 points, p = 0.367).",
    "It is level with the CNN (+13.3 points, p = 0.017).",
    "It is ahead of A (+1.0 points, p = 0.001) and behind B (-0.2 points, p = 0.235).",
    "| model | verdict |\n|---|---|\n| LSTM | better |",
    "A sentence.\n\nThis one beats all others, by 5 points.",
    "It is ahead of the other (+0.7 ± 1.2 points).",
    "It is better by +0.4, with an interval of -0.1 to +0.9.",
    "It has the smaller error: 0.3 in place of 0.4.",
    "It is level with the other (+1.7 ± 1.2 points).",
    "None is ahead (+1.7 ± 1.2 points).",
    row("A is ahead of B", "88.9 % and 88.3 %", "± 0.50 and ± 0.70 (3 seeds)"),
    row("A has a smaller error than B", "RMSE 0.630 and 0.707", "± 0.030 and ± 0.045 (3 seeds)"),
    row("A is level with B", "88.9 % and 58.3 %", "± 0.50 and ± 0.70 (3 seeds)"),
    row("A is behind B on C", "+0.9 and -0.5 points", "± 1.0 and ± 0.8"),
    "| claim | verdict |\n|---|---|\n| A ahead of B | confirmed | 3 and 2 | +0.7 ± 1.2 |",
    "| claim | verdict |\n|---|---|\n| A ahead of B | not decided | 3 and 2 | +1.7 ± 1.2 |",
    "| claim | verdict |\n|---|---|\n| A ahead of B | refuted | – | +1.7 points, p = 0.01 |",
    "| claim | verdict |\n|---|---|\n| A is finite | refuted | 1 of 9 diverged | -6 ± 37 |",
])  # fmt: skip
def test_the_check_refuses(text: str):
    assert len(unsupported(text)) == 1


@pytest.mark.parametrize("text", [
    "The LSTM is ahead of the baseline (+2.2 points, p = 0.017).",
    "It is level with A (p = 0.457) and behind B (p < 0.05).",
    "| model | verdict |\n|---|---|\n| LSTM | better: +3.1 ± 0.2 points |",
    "| better, worse |\n|---|\n| 3, 4 |",
    "It is ahead of the other (+1.7 ± 1.2 points).",
    "None is ahead (+0.7 ± 1.2 points).",
    "*Ahead* means that the 95 % interval excludes 0, *behind* the same below 0.",
    "It looks one word ahead and has the smaller error in 2 of 3 seeds.",
    row("A is ahead of B", "88.9 % and 85.3 %", "± 0.50 and ± 0.70 (3 seeds)"),
    row("A is level with B and behind C", "+0.9 and -3.5 points", "± 1.0 and ± 0.8"),
    "| claim | verdict |\n|---|---|\n| A at least level | confirmed | 3 and 2 | -0.1 ± 0.2 |",
    "The accuracy is 97 %.",
])  # fmt: skip
def test_the_check_passes(text: str):
    assert unsupported(text) == []


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_names_its_command_and_its_versions(page: Path):
    text = page.read_text("utf-8")
    command = (
        r"python (benchmarks|tools)/\w+\.py [\w-]+|representer (demo\n|(fit|reproduce) [\w-]+ )"
    )
    assert re.search(command, text)
    assert re.search(r"torch \d+\.\d+", text)


def rows() -> list[list[str]]:
    """Return the cells of the index's rows: claim, figure, interval, page."""
    lines = INDEX.read_text("utf-8").splitlines()
    cells = [[cell.strip() for cell in line.strip("|").split(" | ")] for line in lines
             if line.startswith("| ")]  # fmt: skip
    return [row for row in cells if row[0] not in ("claim", "---")]


def test_the_index_links_every_page():
    linked = set(re.findall(r"\]\(([\w-]+\.md)", INDEX.read_text("utf-8")))
    assert linked == {page.name for page in PAGES}


@pytest.mark.parametrize("row", rows(), ids=lambda row: row[0][:60])
def test_a_row_of_the_index_quotes_its_page(row: list[str]):
    _, figure, interval, link = row
    ((name, section),) = re.findall(r"\]\(([\w-]+\.md)(?:#([\w-]+))?\)", link)
    page = (FOLDER / name).read_text("utf-8")
    if section and f'<a id="{section}"></a>' in page:
        page = page.partition(f'<a id="{section}"></a>')[2].partition("\n<a id=")[0]
    numbers = re.findall(r"\d[\d,]*\.\d+|\d{1,3},\d{3}", f"{figure} {interval}")
    missing = [number for number in numbers if not re.search(rf"(?<![\d.]){number}(?!\d)", page)]
    assert missing == []
    assert re.search(r"\d", figure)


def gpu_ratios(family: str, clock: str) -> list[float]:
    """Return the time of `nn.LSTM` over that of layers as by default, step by step of training."""
    baseline, ratios = 0.0, []
    for line in (FOLDER / "gpu.md").read_text("utf-8").splitlines():
        cells = [cell.strip() for cell in line.strip("|").split(" | ")]
        if cells[0].startswith("defaults") and cells[1:3] == ["forward and backward", clock]:
            time = float(cells[4].split()[0])
            if cells[3] == "nn.LSTM":
                baseline = time
            elif cells[3].startswith(family) and not cells[3].endswith((", TF32", ", compiled")):
                ratios.append(baseline / time)
    return ratios


@pytest.mark.parametrize("page", ["README.md", "docs/when.md", "docs/howto/gpu.md"])
def test_speeds_on_a_gpu_are_quoted_with_their_range(page: str):
    text = " ".join((ROOT / page).read_text("utf-8").split())
    for clock in ("graph", "eager"):
        for family in ("StringKernelRNN", "RKM"):
            ratios = gpu_ratios(family, clock)
            assert len(ratios) > 2
            assert f"{min(ratios):.2g} to {max(ratios):.2g}" in text
