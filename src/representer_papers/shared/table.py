"""Common parts of all tables: the heading, the smoke warning, and figures over seeds."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from representer.tasks.recipe import Request
from representer.training.fingerprint import fingerprint


def heading(title: str, request: Request) -> list[str]:
    """Return the first lines of a table: its title, the command, the machine."""
    machine = fingerprint()
    threads = request.threads or machine["threads"]
    made_on = f"torch {machine['torch']}, threads: {threads}, {machine['cpu capability']}"
    return [
        f"# {title}",
        "",
        f"Made by `{request.command}` with {made_on}.",
    ]


def smoke_warning(request: Request) -> list[str]:
    """Return the warning above the figures of a smoke run; nothing for other runs."""
    warning = "**Smoke run: tiny models, a few steps. The figures mean nothing.**"
    return ["", warning] if request.smoke else []


def spread(accuracies: Sequence[float], interval: Sequence[float]) -> str:
    """Format accuracies in %: mean ± standard deviation over seeds, or one seed's interval.

    Args:
        accuracies: One for each seed, in [0, 1].
        interval: The 95 % interval of the first, shown if it is the only one.
    """
    if len(accuracies) == 1:
        return f"{100 * accuracies[0]:.2f} ({100 * interval[0]:.2f} – {100 * interval[1]:.2f})"
    mean, deviation = statistics.mean(accuracies), statistics.stdev(accuracies)
    return f"{100 * mean:.2f} ± {100 * deviation:.2f} ({len(accuracies)} seeds)"
