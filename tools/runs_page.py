"""The page of all runs, made from their lines alone.

python tools/runs_page.py docs/results/runs docs/results/runs.md
"""

from __future__ import annotations

import shlex
import sys
from collections.abc import Iterable, Mapping
from pathlib import Path

import torch

from representer.storage import atomic
from representer_papers.shared.runs import Line, read_lines
from representer_papers.shared.table import mean, table_head, table_row

_ABOUT = (
    "Each row is a variant of a recipe with its settings, each figure a run. The share is that of",
    "the paper's training, or of the planned one where the paper prints no number; a run ends",
    "early if it solves its problem or stops improving. A dash is a run without a figure: it did",
    "not solve its problem, diverged, or is paused. Where the commit names a page, the figures",
    "were taken from that page, whose runs are older than the lines.",
)
Group = dict[int, Line]  # lines by seed


def page_of(lines: Iterable[Line], command: str) -> str:
    """Return the page; lines of smoke runs are omitted."""
    tables: dict[tuple[str, str], dict[tuple[str, str], Group]] = {}
    for line in lines:
        if not line["smoke"]:
            groups = tables.setdefault((line["recipe"], line["metric"]), {})
            group = groups.setdefault((line["variant"], line["settings"]), {})
            group[line["seed"]] = line
    page = [
        "# Every run of the papers' recipes",
        "",
        f"Made by `{command}` with torch {torch.__version__}.",
        *_ABOUT,
    ]
    for (recipe, metric), groups in sorted(tables.items()):
        seeds = sorted({seed for group in groups.values() for seed in group})
        heads = (*(f"seed {seed}" for seed in seeds), "mean", "share", "hours", "machine", "commit")
        page += ["", f"## {recipe}: {metric}", "", *table_head("variant", *heads)]
        page += [_row(variant, group, seeds) for (variant, _), group in sorted(groups.items())]
    return "\n".join(page) + "\n"


def _row(variant: str, group: Mapping[int, Line], seeds: list[int]) -> str:
    values = {seed: line["value"] for seed, line in group.items() if line["value"] is not None}
    hours = [line["hours"] for line in group.values() if line["hours"] is not None]
    machines = {line["machine"] or "–" for line in group.values()}
    commits = {line.get("source") or line["commit"] or "–" for line in group.values()}
    return table_row(
        f"`{variant}`",
        *(f"{values[seed]:.6g}" if seed in values else "–" for seed in seeds),
        mean([*values.values()], 4),
        " to ".join(dict.fromkeys(f"{100 * share:.1f} %" for share in _range(group))),
        f"{sum(hours):.2f}" if hours else "–",
        "; ".join(sorted(machines)),
        "; ".join(sorted(commits)),
    )


def _range(group: Mapping[int, Line]) -> tuple[float, float]:
    shares = [line["steps"] / (line["paper"] or line["planned"] or 1) for line in group.values()]
    return min(shares), max(shares)


def main(source: str, target: str) -> None:
    """Write the page of the lines in a folder."""
    words = ["python", "tools/runs_page.py", source, target]
    atomic.write_text(Path(target), page_of(read_lines(Path(source)).values(), shlex.join(words)))


if __name__ == "__main__":
    main(*sys.argv[1:])
