"""Figures of lines of runs and of pages of results, and differences with intervals."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path

import numpy as np
from scipy.stats import binomtest, t

import result_pages
from report import interval
from representer_papers.shared.tables import Line, read_lines

Row = Mapping[str, str]
CONFIRMED, REFUTED, OPEN, UNTESTED = "confirmed", "refuted", "not decided", "not testable"
LEVEL = 0.05  # of tests
RARE = 0.05  # share of diverging seeds that a training that stays finite may have
FEWEST = 3  # seeds that a longer training needs to be preferred to a shorter one


@dataclass(frozen=True)
class Finding:
    """Outcome of a claim."""

    difference: float  # in favor of the claim
    half: float  # half its 95 % interval
    count: str  # what it is over: "3 seeds"
    figures: str  # what was compared
    lines: list[Line] = field(default_factory=list)  # none if the figures are a page's
    verdict: str = ""  # where the interval does not decide it; there is no difference then

    def cells(self, margin: float = 0.0) -> list[str]:
        """Return verdict, figures, difference and what it is over.

        Args:
            margin: How far behind still counts as level, where that is the claim.
        """
        if self.verdict:
            return [self.verdict, self.figures, "–", self.count]
        low, high = self.difference - self.half, self.difference + self.half
        verdict = CONFIRMED if low > -margin else REFUTED if high < -margin else OPEN
        half = f"{self.half:.2g}"
        if (float(half) < abs(self.difference)) != (self.half < abs(self.difference)):
            half = f"{self.half:.4g}"  # rounded further, it would contradict the verdict
        return [verdict, self.figures, f"{self.difference:+.3g} ± {half}", self.count]


def rows_of(text: str, heading: str = "", first: str = "") -> list[Row]:
    """Return the rows of the first table under a heading whose head has a column."""
    for head, rows in result_pages.tables(section_of(text, heading) if heading else text):
        if rows and (not first or first in head):
            return [dict(zip(head, row, strict=True)) for row in rows]
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


class Lines:
    """The lines of runs, by recipe and variant."""

    def __init__(self, lines: Iterable[Line]) -> None:
        self.variants: dict[tuple[str, str], list[Line]] = {}
        for line in lines:
            if not line["smoke"]:
                self.variants.setdefault((line["recipe"], line["variant"]), []).append(line)

    @classmethod
    def of(cls, folder: Path) -> Lines:
        return cls(read_lines(folder).values())

    def seeds(self, recipe: str, *variants: str) -> list[dict[int, Line]]:
        """Return the lines of variants by seed, of the same part of the paper's training.

        The part is the largest for which all variants have a figure for at least `FEWEST` seeds;
        if there is none, the part for which they have most.
        """
        parts: list[dict[float, dict[int, Line]]] = []
        for variant in variants:
            parts.append({})
            for line in self.variants[recipe, variant]:
                if line["value"] is not None:
                    parts[-1].setdefault(line["planned"], {})[line["seed"]] = line
        common = set.intersection(*map(set, parts))
        counts = {part: len(set.intersection(*(set(p[part]) for p in parts))) for part in common}
        best = max(counts, key=lambda part: (min(counts[part], FEWEST), part))
        return [of_variant[best] for of_variant in parts]


def compared(
    pairs: Sequence[Sequence[float]], count: str, used: list[Line], scale: float = 1.0
) -> Finding:
    """Compare the first of each pair with the second."""
    both = np.array(pairs)
    mean, half = interval(scale * (both[:, 0] - both[:, 1]))
    return Finding(mean, half, count, shown(*abs(scale) * both.mean(0)), used)


def paired(lines: Lines, recipe: str, model: str, other: str, scale: float = 1.0) -> Finding:
    """Compare two variants seed by seed.

    Args:
        lines: The lines.
        recipe: Name of the recipe.
        model: The variant that should be ahead.
        other: The other variant.
        scale: Factor of the figures, for example 100 for percents; negative where less is better.
    """
    both = lines.seeds(recipe, model, other)
    seeds = sorted(set(both[0]) & set(both[1]))
    used = [of_seed[seed] for of_seed in both for seed in seeds]
    pairs = [[of_seed[seed]["value"] for of_seed in both] for seed in seeds]
    return compared(pairs, f"{len(seeds)} seeds", used, scale)


def over_pairs(
    lines: Lines, recipe: str, pairs: Sequence[tuple[str, str]], over: str, scale: float = 1.0
) -> Finding:
    """Compare the means over seeds of pairs of variants; ``over`` says what the pairs are."""
    every = [lines.seeds(recipe, *pair) for pair in pairs]
    means = [[mean_value(of_seed.values()) for of_seed in pair] for pair in every]
    used = [line for pair in every for of_seed in pair for line in of_seed.values()]
    return compared(means, f"{len(pairs)} {over}", used, scale)


def over_seeds(
    lines: Lines, recipe: str, pairs: Sequence[tuple[str, str]], scale: float = 1.0
) -> Finding:
    """Compare the means over pairs of variants seed by seed: a verdict on these data sets alone."""
    every = [lines.seeds(recipe, *pair) for pair in pairs]
    seeds = sorted(set.intersection(*(set(of_seed) for pair in every for of_seed in pair)))
    means = [[mean_value(pair[side][seed] for pair in every) for side in (0, 1)] for seed in seeds]
    used = [of_seed[seed] for pair in every for of_seed in pair for seed in seeds]
    return compared(means, f"{len(seeds)} seeds, means of {len(pairs)} sets", used, scale)


def mean_value(lines: Iterable[Line]) -> float:
    return float(np.mean([line["value"] for line in lines]))


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
    return f"{model:.4g} and {other:.4g}"


def smoothing(lines: Lines, bits: int) -> Finding:
    """Compare the total variation with and without the penalty, in pairs of equal settings."""
    used = [[plain[seed], penalized[seed]]
            for centers in (50, 100, 300)
            for plain, penalized in [lines.seeds("kbrn-xor", *(
                f"{bits}bit-{centers}-{kind}" for kind in ("plain", "l1")))]
            for seed in sorted(set(plain) & set(penalized))]  # fmt: skip
    pairs = np.log([[line["value"] for line in pair] for pair in used])
    mean, half = interval(pairs[:, 0] - pairs[:, 1])
    figures = [f"{number:.3g}" for number in np.exp(np.median(pairs, axis=0))]
    figure = f"medians {' and '.join(figures)}, log ratio"
    return Finding(mean, half, f"{len(pairs)} pairs", figure, [*chain(*used)])


Solved = tuple[float, float | None]  # share of the runs in percent, and their mean updates


def solved_rates(source: Lines | str, model: str, other: str) -> Finding:
    """Compare the share of runs that two networks solve, over functions and lengths."""
    problems, used = _solved(source, model, other)
    first, second = np.array([[share for share, _ in pair] for pair in problems]).T
    mean, half = interval(first - second)
    figures = f"{first.mean():.3g} and {second.mean():.3g} % of the runs"
    return Finding(mean, half, f"{len(problems)} problems", figures, used)


def solved_updates(source: Lines | str, model: str, other: str) -> Finding:
    """Compare the logarithms of the mean updates of solved runs, of which fewer are better."""
    problems, used = _solved(source, model, other)
    updates = [[count for _, count in pair] for pair in problems]
    first, second = np.log([pair for pair in updates if all(pair)]).T
    mean, half = interval(second - first)
    medians = [f"{math.exp(np.median(of_network)):,.0f}" for of_network in (first, second)]
    figures = f"medians {' and '.join(medians)}, log ratio"
    return Finding(mean, half, f"{len(first)} problems", figures, used)


def _solved(source: Lines | str, model: str, other: str) -> tuple[list[list[Solved]], list[Line]]:
    """Return what two networks solve of each function and length, from lines or from a page."""
    if isinstance(source, str):
        return [*_cells_solved(source, model, other)], []
    by_problem: dict[str, dict[str, list[Line]]] = {}
    for (recipe, variant), of_variant in sorted(source.variants.items()):
        problem, _, cell = variant.rpartition("/")
        if recipe == "kbrn-long-term":
            by_problem.setdefault(problem, {})[cell] = of_variant
    both = [[p[model], p[other]] for p in by_problem.values() if model in p and other in p]
    problems: list[list[Solved]] = []
    for pair in both:
        counts = [[line["value"] for line in runs if line["value"] is not None] for runs in pair]
        problems.append([(100 * len(own) / len(runs), float(np.mean(own)) if own else None)
                         for own, runs in zip(counts, pair, strict=True)])  # fmt: skip
    return problems, [line for pair in both for runs in pair for line in runs]


def _cells_solved(text: str, model: str, other: str) -> Iterator[list[Solved]]:
    """Yield the cells of two networks, such as ``4 of 5 (30)``, for each function and length."""
    for heading in re.findall(r"^## (.+)$", text, re.MULTILINE):
        try:
            rows = rows_of(text, heading, "T")
            cells = [row_of(rows, name) for name in (model, other)]
        except (KeyError, ValueError):
            continue
        for head in filter(str.isdigit, cells[0]):
            pair = [re.match(r"(\d+) of (\d+)(?: \(([\d,]+)\))?", cell[head]) for cell in cells]
            found = [match.groups() for match in pair if match]
            if len(found) == 2:
                yield [(100 * int(n) / int(of), float(mean.replace(",", "")) if mean else None)
                       for n, of, mean in found]  # fmt: skip


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
    ends = r"(?:, ([+-][\d.]+) to ([+-][\d.]+))?"  # older pages have no interval
    match = re.search(rf"{answer} \(([+-][\d.]+) (\w+){ends}, p = ([\d.]+)\)", section)
    subjects = re.search(r"\d+ subjects", section)
    assert match is not None, f"{heading}: {other}"
    assert subjects is not None, heading
    difference, unit, low, high, p = match.groups()
    verdict = OPEN if float(p) >= LEVEL else CONFIRMED if float(difference) > 0 else REFUTED
    shown = f"{difference} {unit}, {f'{low} to {high}, ' if low else ''}p = {p}"
    return [verdict, "–", shown, subjects[0]]


def inside(difference: float, cell: str) -> bool | None:
    """Return whether the interval of a cell contains a difference, None if it has no interval."""
    ends = re.search(r"([+-][\d.]+) to ([+-][\d.]+)", cell)
    if ends is not None:
        return float(ends[1]) <= difference <= float(ends[2])
    middle = re.match(r"([+-][\d.]+) ± ([\d.]+)$", cell)
    return middle and abs(float(middle[1]) - difference) <= float(middle[2])


def finite(lines: Lines, model: str, other: str) -> Finding:
    """Judge that a training stays finite, beside another of which the figures are shown.

    Its difference is that of the share of seeds that stay finite, in points, from 1 - `RARE`, with
    the exact 95 % interval, of which the middle is shown.
    """
    runs = [lines.variants["rkm-divergence", variant] for variant in (model, other)]
    steps, peers = ([line["value"] for line in of_variant] for of_variant in runs)
    diverged = [step for step in steps if step is not None]
    low, high = 100 * (RARE - np.array(binomtest(len(diverged), len(steps)).proportion_ci()))[::-1]
    where = f", at step {', '.join(map(str, diverged))}" if diverged else ""
    beside = f"{len(peers) - peers.count(None)} of {len(peers)} of the other"
    figures = f"{len(diverged)} of {len(steps)} diverged{where}; {beside}"
    verdict = "" if len(steps) >= FEWEST else OPEN
    mean, half = (low + high) / 2, (high - low) / 2
    return Finding(mean, half, f"{len(steps)} seeds", figures, [*chain(*runs)], verdict)


HEAD = ("page", "command", "hours", "machine and date")
UNKNOWN = "not recorded"


def runs_cells(lines: Sequence[Line], runs: Sequence[list[str]]) -> list[str]:
    """Return share, hours, machine and commit of lines; where they have none, those of pages.

    Args:
        lines: The lines.
        runs: Rows of `HEAD`, of the pages.
    """
    shares = [100 * line["steps"] / line["paper"] for line in lines if line["paper"]]
    ends = dict.fromkeys(f"{share:.3g}" for share in (min(shares), max(shares))) if shares else ()
    hours = [line["hours"] for line in lines]
    of_pages = [row[2].partition(",")[0] for row in runs]
    known = bool(hours) and None not in hours
    machines = sorted({line["machine"] for line in lines if line["machine"]}) or sorted(
        {row[3].partition(", torch")[0] for row in runs if not row[3].startswith("torch")}
    )
    commits = sorted({(line["commit"] or "–")[:8] for line in lines})
    return [
        f"{' to '.join(ends)} %" if ends else "–",
        f"{sum(hours):.2f}" if known else f"{' + '.join(of_pages)}, all runs of the page",
        "; ".join(machines) or UNKNOWN,
        ", ".join(commits) or "–",
    ]


_MADE = re.compile(r"Made by `([^`]+)` with (.+?)\.$", re.MULTILINE)
_SHOWN = re.compile(r"Made by\n\n```sh\n(.+?)\n```\n\nwith (.+?);", re.DOTALL)
_TRAINING = re.compile(
    r"^Training: (\d+) runs in ([\d.]+) hours on (.+), the last on (\S+); (\w+) of them",
    re.MULTILINE,
)
_HOURS = re.compile(r"([\d.]+) hours on a machine that did other work")
_STOPPED = re.compile(r"The command was stopped in its \w+ seed")


def runs_of(folder: Path, names: Sequence[str]) -> list[list[str]]:
    texts = {name: result_pages.text_of(folder, name) for name in names}
    return [
        [f"[{name}]({result_pages.link_of(folder, name)})", *run_of(text)]
        for name, text in texts.items()
    ]


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
