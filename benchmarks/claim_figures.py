"""Figures of pages of results, and differences with intervals."""

from __future__ import annotations

import math
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from scipy.stats import t

Row = Mapping[str, str]
CONFIRMED, REFUTED, OPEN, UNTESTED = "confirmed", "refuted", "not decided", "not testable"
LEVEL = 0.05  # of tests
NEXT_PAGE = "\f"  # between pages with the same rows for other seeds


@dataclass(frozen=True)
class Finding:
    """Outcome of a claim.

    Args:
        difference: In favor of the claim.
        half: Half its 95 % interval.
        count: What it is over: "3 seeds".
        figures: What was compared.
    """

    difference: float
    half: float
    count: str
    figures: str

    def cells(self, margin: float = 0.0) -> list[str]:
        """Return verdict, figures, difference and what it is over.

        Args:
            margin: How far behind still counts as level, where that is the claim.
        """
        low, high = self.difference - self.half, self.difference + self.half
        verdict = CONFIRMED if low > -margin else REFUTED if high < -margin else OPEN
        half = f"{self.half:.2g}"
        if (float(half) < abs(self.difference)) != (self.half < abs(self.difference)):
            half = f"{self.half:.4g}"  # rounded further, it would contradict the verdict
        return [verdict, self.figures, f"{self.difference:+.3g} ± {half}", self.count]


def rows_of(text: str, heading: str = "", first: str = "") -> list[Row]:
    """Return the rows of the first table under a heading whose head has a column."""
    section = section_of(text, heading) if heading else text
    for block in section.split("\n\n"):
        lines = [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]]
                 for line in block.splitlines() if line.startswith("|")]  # fmt: skip
        if len(lines) > 2 and (not first or first in lines[0]):
            return [dict(zip(lines[0], line, strict=True)) for line in lines[2:]]
    raise KeyError(f"no table under {heading!r}")


def section_of(text: str, heading: str) -> str:
    """Return the text from a heading, of which the beginning is given, to the next one."""
    start = text.index(f"\n## {heading}") + 1
    return text[start : end if (end := text.find("\n## ", start)) > 0 else len(text)]


def row_of(rows: list[Row], name: str) -> Row:
    """Return the row whose first cell is a name, or begins with it."""
    cells = [next(iter(row.values())).strip("`") for row in rows]
    if name in cells:
        return rows[cells.index(name)]
    return rows[[cell.startswith(name) for cell in cells].index(True)]


def seeds_of(row: Row) -> dict[str, float]:
    """Return the figure of each finished seed by the head of its column."""
    return {head: float(cell) for head, cell in row.items()
            if head.startswith("seed ") and re.fullmatch(r"[\d.]+", cell)}  # fmt: skip


def interval(values: NDArray[np.float64]) -> tuple[float, float]:
    """Return a mean and half its 95 % interval, which is infinite for a single value."""
    if len(values) < 2:
        return float(values.mean()), math.inf
    half = t.ppf(0.975, len(values) - 1) * values.std(ddof=1) / math.sqrt(len(values))
    return float(values.mean()), float(half)


def paired(
    text: str, heading: str, model: str, other: str, sign: int = 1, first: str = "mean"
) -> Finding:
    """Compare two rows seed by seed, of one page or of several; see `NEXT_PAGE`.

    Args:
        text: The page or pages.
        heading: Beginning of the heading above the table; the first table with seeds if empty.
        model: The row that should be ahead.
        other: The other row.
        sign: -1 where less is better.
        first: A column by which the table is known.
    """
    pairs: dict[str, tuple[float, float]] = {}
    for page in text.split(NEXT_PAGE):
        rows = rows_of(page, heading, first)
        ahead, behind = (seeds_of(row_of(rows, name)) for name in (model, other))
        pairs = {seed: (ahead[seed], behind[seed]) for seed in ahead if seed in behind} | pairs
    both = np.array(list(pairs.values()))
    mean, half = interval(sign * (both[:, 0] - both[:, 1]))
    return Finding(mean, half, f"{len(pairs)} seeds", shown(*both.mean(0)))


def welch(text: str, heading: str, model: tuple[str, str], other: tuple[str, str]) -> Finding:
    """Compare two cells, each a row and a column, of the form ``88.91 ± 0.50 (3 seeds)``."""
    rows = rows_of(text, heading, model[1])
    means, errors, counts = [], [], []
    for name, column in (model, other):
        cell = row_of(rows, name)[column]
        number = re.match(r"([\d.]+) ± ([\d.]+) \((\d+) seeds\)", cell)
        assert number is not None, f"{name}, {column}: {cell}"
        counts.append(int(number[3]))
        means.append(float(number[1]))
        errors.append(float(number[2]) ** 2 / counts[-1])
    freedom = sum(errors) ** 2 / sum(e**2 / (n - 1) for e, n in zip(errors, counts, strict=True))
    half = float(t.ppf(0.975, freedom)) * math.sqrt(sum(errors))
    return Finding(means[0] - means[1], half, f"{counts[0]} seeds", shown(*means))


def shown(model: float, other: float) -> str:
    """Return two figures."""
    return f"{model:.4g} and {other:.4g}"


def seed_rows(text: str, model: str, other: str, column: str) -> Finding:
    """Compare two networks whose seeds are rows of one table, in the paper's preset."""
    values: dict[str, dict[str, float]] = {model: {}, other: {}}
    for row in rows_of(text, "", column):
        name = re.search(r"\(`(\S+)`\)$", row["network"])
        if name is not None and name[1] in values:
            values[name[1]][row["seed"]] = float(row[column])
    both = [seed for seed in values[model] if seed in values[other]]
    first, second = (np.array([values[name][seed] for seed in both]) for name in (model, other))
    mean, half = interval(first - second)
    return Finding(mean, half, f"{len(both)} seeds", shown(first.mean(), second.mean()))


def columns(text: str, heading: str, model: str, other: str) -> Finding:
    """Compare two columns over all cells of a table that have both."""
    pairs = []
    for row in rows_of(text, heading):
        values = [re.match(r"[\d.]+(?= ±)", row[column]) for column in (model, other)]
        if row["model"].split()[0] not in ("TF-IDF", "majority") and all(values):
            pairs.append([float(value[0]) for value in values if value])
    first, second = np.array(pairs).T
    mean, half = interval(first - second)
    return Finding(mean, half, f"{len(pairs)} cells", shown(first.mean(), second.mean()))


def sets(text: str, model: str, other: str, column: str) -> Finding:
    """Compare the means of two rows over the sections of a page that have both."""
    pairs = []
    for heading in re.findall(r"^## (.+)$", text, re.MULTILINE):
        rows = rows_of(text, heading, column)
        values = [re.match(r"[\d.]+", row_of(rows, name)[column]) for name in (model, other)]
        if all(values):
            pairs.append([float(value[0]) for value in values if value])
    first, second = np.array(pairs).T
    mean, half = interval(first - second)
    return Finding(mean, half, f"{len(pairs)} data sets", shown(first.mean(), second.mean()))


def smoothing(text: str, bits: str) -> Finding:
    """Compare the total variation with and without the penalty, in pairs of equal settings."""
    variation: dict[tuple[str, ...], dict[bool, float]] = {}
    for row in rows_of(text, "", "variation"):
        if row["bits"] != bits:
            continue
        key = row["centers"], row["seed"]
        variation.setdefault(key, {})[row["ℓ1"] != "0"] = math.log(float(row["variation"]))
    pairs = np.array([[pair[False], pair[True]] for pair in variation.values() if len(pair) == 2])
    mean, half = interval(pairs[:, 0] - pairs[:, 1])
    shown = [f"{number:.3g}" for number in np.exp(np.median(pairs, axis=0))]
    return Finding(mean, half, f"{len(pairs)} pairs", f"medians {' and '.join(shown)}, log ratio")


def rates(text: str, model: str, other: str) -> Finding:
    """Compare the share of runs that two networks solve, over functions and lengths."""
    pairs = [[100 * int(n[1]) / int(n[2]) for n in pair] for pair in _problems(text, model, other)]
    first, second = np.array(pairs).T
    mean, half = interval(first - second)
    figures = f"{first.mean():.3g} and {second.mean():.3g} % of the runs"
    return Finding(mean, half, f"{len(pairs)} problems", figures)


def updates(text: str, model: str, other: str) -> Finding:
    """Compare the logarithms of the updates of solved runs, of which fewer are better."""
    pairs = [[math.log(float(n[3].replace(",", ""))) for n in pair]
             for pair in _problems(text, model, other) if all(n[3] for n in pair)]  # fmt: skip
    first, second = np.array(pairs).T
    mean, half = interval(second - first)
    medians = [f"{math.exp(np.median(pair)):,.0f}" for pair in (first, second)]
    return Finding(
        mean, half, f"{len(pairs)} problems", f"medians {' and '.join(medians)}, log ratio"
    )


def _problems(text: str, model: str, other: str) -> Iterator[list[re.Match[str]]]:
    """Yield the cells of two networks, such as ``4 of 5 (30)``, for each function and length."""
    for heading in re.findall(r"^## (.+)$", text, re.MULTILINE):
        try:
            rows = rows_of(text, heading, "T")
            cells = [row_of(rows, name) for name in (model, other)]
        except (KeyError, ValueError):
            continue
        for head in filter(str.isdigit, cells[0]):
            pair = [re.match(r"(\d+) of (\d+)(?: \(([\d,]+)\))?", cell[head]) for cell in cells]
            if all(pair):
                yield [match for match in pair if match]


def tested(text: str, heading: str, question: str, other: str) -> list[str]:
    """Return the cells of a question that a section answers by a difference and a p-value.

    Args:
        text: The page.
        heading: Beginning of the section's heading.
        question: The question, before its answer on one line.
        other: What it is compared with, before the difference.
    """
    section = section_of(text, heading)
    answer = re.escape(question) + ".* the " + re.escape(other)
    match = re.search(rf"{answer} \(([+-][\d.]+) (\w+), p = ([\d.]+)\)", section)
    subjects = re.search(r"\d+ subjects", section)
    assert match is not None, f"{heading}: {other}"
    assert subjects is not None, heading
    is_small = float(match[3]) < LEVEL
    verdict = OPEN if not is_small else CONFIRMED if float(match[1]) > 0 else REFUTED
    return [verdict, "–", f"{match[1]} {match[2]}, p = {match[3]}", subjects[0]]


def finite(text: str, cell: str, settings: str) -> list[str]:
    """Return the cells of a claim that a training stays finite, refuted if every seed diverges."""
    rows = rows_of(text, "", "outcome")
    outcomes = [
        row["outcome"] for row in rows if (row["cell"], row["settings"]) == (cell, settings)
    ]
    matches = (re.search(r"at step ([\d,]+)", outcome) for outcome in outcomes)
    steps = [step[1] for step in matches if step]
    verdict = REFUTED if outcomes and len(steps) == len(outcomes) else OPEN
    figures = f"{len(steps)} of {len(outcomes)} diverged"
    figures += f", at step {', '.join(steps)}" if steps else ""
    return [verdict, figures, "–", f"{len(outcomes)} seed{'s' * (len(outcomes) != 1)}"]


HEAD = ("page", "command", "hours", "machine and date")
UNKNOWN = "not recorded"
_MADE = re.compile(r"Made by `([^`]+)` with (.+?)\.$", re.MULTILINE)
_SHOWN = re.compile(r"Made by\n\n```sh\n(.+?)\n```\n\nwith (.+?);", re.DOTALL)
_TRAINING = re.compile(
    r"^Training: (\d+) runs in ([\d.]+) hours on (.+), the last on (\S+); (\w+) of them",
    re.MULTILINE,
)
_HOURS = re.compile(r"([\d.]+) hours on a machine that did other work")
_STOPPED = re.compile(r"The command was stopped in its \w+ seed")


def runs_of(folder: Path, names: Sequence[str]) -> list[list[str]]:
    """Return a row of `HEAD` for each page."""
    texts = {name: (folder / f"{name}.md").read_text("utf-8") for name in names}
    return [[f"[{name}]({name}.md)", *run_of(text)] for name, text in texts.items()]


def run_of(text: str) -> list[str]:
    """Return the command, the hours and the machine that a page names.

    Raises:
        ValueError: If it names no command.
    """
    made = _MADE.search(text) or _SHOWN.search(text)
    if made is None:
        raise ValueError(f"a page without its command: {text[:60]!r}")
    command = " ".join(made[1].replace("\\\n", " ").split())
    hours, machine = UNKNOWN, made[2]
    if training := _TRAINING.search(text):
        count, total, processor, date, resumed = training.groups()
        hours = f"{total}, {count} runs, {resumed} resumed"
        machine = f"{processor}, {machine}, {date}"
    elif rough := _HOURS.search(text):
        hours = f"{rough[1]}, beside other work"
    if stopped := _STOPPED.search(text):
        hours += f"; {stopped[0][0].lower()}{stopped[0][1:]}"
    return [f"`{command}`", hours, machine]
