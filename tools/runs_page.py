"""The pages of all runs and of their curves, made from the lines of the runs alone.

python tools/runs_page.py docs/results/runs docs/results && python benchmarks/result_pages.py
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path
from statistics import fmean
from typing import Any

import torch

from representer.storage import atomic
from representer.tasks.recipe import installed_recipes
from representer_papers.rkm2019.published import ROWS, column_name
from representer_papers.shared.tables import Line, mean, panels, read_lines, table_head, table_row

_ABOUT = (
    "Each row is a variant of a recipe with its settings, each figure a run; of many seeds, a row",
    "has the runs with a figure, of all, and their range (each is a line of `runs/`). The share is",
    "that of the paper's training, or of the planned one where the paper prints no number; a run",
    "ends early if it solves its problem or stops improving. A dash is a run without a figure: it",
    "did not solve its problem, diverged, or is paused. Where the commit names a page, the figures",
    "were taken from that page, whose runs are older than the lines.",
)
_CURVES = (
    "Each point is the mean over the seeds of a variant, at the share of the paper's training on",
    "the x axis. Lines are of the validation part, or of the test sequences of the charging",
    "problem; points at single shares are test figures of finished runs. Dashed lines are the",
    "paper's figures. A shorter training has its own schedule of the learning rate, so its curve",
    "is below that of the paper's length at the same share. Curves of older runs were read from",
    "the pages that `source` names in the lines. Sets of documents and molecules are smaller than",
    "the paper's; [the claims](papers.md#claims) say what follows from which.",
)
CURVES = "learning-curves"
_COLUMNS = 12  # seeds that have a column each; of more, a row shows how many and their range
Group = dict[int, Line]  # lines by seed
Groups = dict[tuple[str, str], Group]  # by variant and settings


def groups_of(lines: Iterable[Line]) -> dict[tuple[str, str], Groups]:
    """Return the lines by recipe and metric, then by variant and settings; no smoke runs."""
    tables: dict[tuple[str, str], Groups] = {}
    for line in lines:
        if not line["smoke"]:
            groups = tables.setdefault((line["recipe"], line["metric"]), {})
            group = groups.setdefault((line["variant"], line["settings"]), {})
            group[line["seed"]] = line
    return tables


def _head(title: str, command: str, about: Iterable[str]) -> list[str]:
    return [f"# {title}", "", f"Made by `{command}` with torch {torch.__version__}.", *about]


def page_of(lines: Iterable[Line], command: str) -> str:
    """Return the page; lines of smoke runs are omitted."""
    page = _head("Every run of the papers' recipes", command, _ABOUT)
    for (recipe, metric), groups in sorted(groups_of(lines).items()):
        seeds = sorted({seed for group in groups.values() for seed in group})
        columns = [f"seed {seed}" for seed in seeds]
        if len(seeds) > _COLUMNS:
            columns, seeds = ["runs", "least", "greatest"], []
        heads = (*columns, "mean", "share", "hours", "machine", "commit")
        page += ["", f"## {recipe}: {metric}", "", *table_head("variant", *heads)]
        page += [_row(variant, group, seeds) for (variant, _), group in sorted(groups.items())]
    return "\n".join(page) + "\n"


def _row(variant: str, group: Mapping[int, Line], seeds: list[int]) -> str:
    """Return a row with the figure of each of these seeds, or with the range of all for none."""
    values = {seed: line["value"] for seed, line in group.items() if line["value"] is not None}
    hours = [line["hours"] for line in group.values() if line["hours"] is not None]
    machines = {line["machine"] or "–" for line in group.values()}
    commits = {line.get("source") or line["commit"] or "–" for line in group.values()}
    figures = [values.get(seed) for seed in seeds]
    if not seeds:
        figures = [min(values.values(), default=None), max(values.values(), default=None)]
    return table_row(
        f"`{variant}`",
        *(() if seeds else (f"{len(values)} of {len(group)}",)),
        *("–" if value is None else f"{value:.6g}" for value in figures),
        mean([*values.values()], 4),
        _shown_share(group),
        f"{sum(hours):.2f}" if hours else "–",
        "; ".join(sorted(machines)),
        "; ".join(sorted(commits)),
    )


def _shown_share(group: Mapping[int, Line]) -> str:
    shares = [_share(line) for line in group.values()]
    return " to ".join(dict.fromkeys(f"{100 * s:.1f} %" for s in (min(shares), max(shares))))


def _share(line: Line, steps: float | None = None) -> float:
    steps = line["steps"] if steps is None else steps
    return steps / (line["paper"] or line["planned"] or 1)


def paper_figure(line: Line) -> float | None:
    """Return what the paper prints for the row of a line; accuracies in [0, 1]."""
    recipe, (part, _, cell) = line["recipe"], line["variant"].partition("/")
    key, scale = (line["row"], part), 1
    if recipe == "string-sentiment":
        key, scale = (line["row"], f"{part}, best of 5"), 100
    elif recipe == "graph-molecules":
        key = line["row"], "rmse"
    elif recipe == "rkm-documents" and part != "yahoo":  # our part of it has 2 of 10 classes
        titles = {name: title for title, name in ROWS.items()}
        key = titles.get(line["row"], ""), column_name(part, 3 if "3gram" in cell else 1)
        scale = 100
    reported = installed_recipes()[recipe].reported.get(key) if key[0] else None
    return None if reported is None else reported.value / scale


def curves_of(lines: Iterable[Line]) -> dict[str, dict[str, Any]]:
    """Return for each panel its ``lines`` and ``levels`` by label, and ``rows`` of the table.

    A panel is a recipe, its data set and the kind of the variant: what follows the cell in the
    name, such as ``-3gram``. It has the variants with a curve, or with a figure in the paper.
    """
    shown: dict[str, dict[str, Any]] = {}
    for (recipe, metric), groups in sorted(groups_of(lines).items()):
        for (variant, _), group in sorted(groups.items(), key=lambda item: _share_of(item[1])):
            first = next(iter(group.values()))
            paper, curve = paper_figure(first), _mean_curve(group)
            values = [line["value"] for line in group.values() if line["value"] is not None]
            if not curve and (paper is None or not values):
                continue
            part, _, cell = variant.rpartition("/")
            kind = cell.replace(first["row"], "", 1)
            if first["row"].endswith("-small"):
                kind = "-small"
            title = " ".join(filter(None, (recipe, part, kind.strip("-"))))
            panel = shown.setdefault(title, {"metric": metric, "lines": {}, "levels": {}})
            label = first["row"].removesuffix("-small")
            is_beside = not curve and len(panel["lines"].get(label, ())) > 2  # beside a curve
            curve = curve or [(100 * _share_of(group), fmean(values))]
            panel["lines"].setdefault(label + ", test" * is_beside, []).extend(curve)
            if paper is not None:
                panel["levels"][label] = paper
            panel.setdefault("rows", []).append(
                (label, _shown_share(group), len(group), f"{curve[-1][1]:.4g}", mean(values, 4),
                 "–" if paper is None else f"{paper:.4g}")
            )  # fmt: skip
    return shown


def _share_of(group: Mapping[int, Line]) -> float:
    return max(_share(line) for line in group.values())


def _mean_curve(group: Mapping[int, Line]) -> list[tuple[float, float]]:
    """Return the mean over the seeds where all have a point; shares in %."""
    curves = {seed: dict(line["curve"]) for seed, line in group.items() if line["curve"]}
    line = next(iter(group.values()))
    steps = sorted(set.intersection(*map(set, curves.values()))) if curves else ()
    return [(100 * _share(line, s), fmean(c[s] for c in curves.values())) for s in steps]


def write_curves(lines: Iterable[Line], target: Path, command: str) -> None:
    """Write the page of the curves, and its picture."""
    shown = curves_of(lines)
    drawings = [
        {"title": title, "log": "x", "marks": True, "xlabel": "share of the training in %",
         "ylabel": panel["metric"], "lines": panel["lines"], "levels": panel["levels"],
         "xlim": (None, 120)}
        for title, panel in shown.items()
    ]  # fmt: skip
    title = "Learning curves of the papers' recipes"
    panels(target / f"{CURVES}.svg", drawings, columns=3, title=title, size=(3.1, 2.4))
    page = [*_head(title, command, _CURVES), "", f"![{title}]({CURVES}.svg)"]
    heads = ("variant", "share", "seeds", "end of the curve", "test", "paper")
    for name, panel in shown.items():
        page += ["", f"## {name}: {panel['metric']}", "", *table_head(*heads)]
        page += [table_row(*row) for row in panel["rows"]]
    atomic.write_text(target / f"{CURVES}.md", "\n".join(page) + "\n")


def main(source: str, target: str) -> None:
    """Write the pages of the lines in a folder."""
    command = shlex.join(["python", "tools/runs_page.py", source, target])
    lines = [*read_lines(Path(source)).values()]
    atomic.write_text(Path(target) / "runs.md", page_of(lines, command))
    write_curves(lines, Path(target), command)


if __name__ == "__main__":
    main(*sys.argv[1:])
