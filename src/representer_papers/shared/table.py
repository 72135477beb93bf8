"""Common parts of all tables: the page, rows, and figures over seeds."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from pathlib import Path

from representer.storage import atomic
from representer.tasks.recipe import Request
from representer.training.fingerprint import fingerprint


def write_page(
    request: Request, title: str, about: Sequence[str], lines: Iterable[str] = ()
) -> Path:
    """Write ``table.md`` into the output folder, and return its path.

    Args:
        request: The request; the page shows its command.
        title: Title of the page.
        about: Description, above the warning of a smoke run.
        lines: The rest of the page.
    """
    machine = fingerprint()
    threads = request.threads or machine["threads"]
    made_on = f"torch {machine['torch']}, threads: {threads}, {machine['cpu capability']}"
    warning = "**Smoke run: tiny models, a few steps. The figures mean nothing.**"
    page = [
        f"# {title}",
        "",
        f"Made by `{request.command}` with {made_on}.",
        *about,
        *(["", warning] if request.smoke else []),
        *lines,
    ]
    path = request.out / "table.md"
    path.parent.mkdir(parents=True, exist_ok=True)
    atomic.write_text(path, "\n".join(page) + "\n")
    return path


def table_row(*cells: object) -> str:
    """Return a row of a table."""
    return f"| {' | '.join(map(str, cells))} |".replace("|  |", "| |")


def table_head(*heads: str, align: str = "l") -> list[str]:
    """Return the first two rows of a table.

    Args:
        heads: Titles of the columns.
        align: Alignment of the columns, ``l`` or ``r``; ``r`` for the rest.
    """
    marks = ("---|" if side == "l" else "---:|" for side in align.ljust(len(heads), "r"))
    return [table_row(*heads), f"|{''.join(marks)}"]


def mean(values: Sequence[float], digits: int) -> str:
    """Format the mean over seeds, with the standard deviation if there are several; – for none."""
    if not values:
        return "–"
    deviation = f" ± {statistics.stdev(values):.{digits}f}" if len(values) > 1 else ""
    return f"{statistics.mean(values):.{digits}f}{deviation}"


def spread(accuracies: Sequence[float], interval: Sequence[float]) -> str:
    """Format accuracies in %: mean ± standard deviation over seeds, or one seed's interval.

    Args:
        accuracies: One for each seed, in [0, 1].
        interval: The 95 % interval of the first, shown if it is the only one.
    """
    shown = mean([100 * accuracy for accuracy in accuracies], 2)
    if len(accuracies) == 1:
        return f"{shown} ({100 * interval[0]:.2f} – {100 * interval[1]:.2f})"
    return f"{shown} ({len(accuracies)} seeds)"
