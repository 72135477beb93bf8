"""What the tables of all reproductions say alike: how they were made, and a figure over seeds."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from representer.tasks.recipe import Request
from representer.tasks.training.fingerprint import fingerprint


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
    """Return what stands over the figures of a smoke run; nothing for others."""
    warning = "**Smoke run: tiny models, a few steps. The figures mean nothing.**"
    return ["", warning] if request.smoke else []


def spread(shares: Sequence[float], interval: Sequence[float]) -> str:
    """Return a share in %: mean and deviation over seeds, or the interval of the only one.

    Args:
        shares: One a seed.
        interval: Its 95 % interval, shown for one seed.
    """
    if len(shares) == 1:
        return f"{100 * shares[0]:.2f} ({100 * interval[0]:.2f} – {100 * interval[1]:.2f})"
    mean, deviation = statistics.mean(shares), statistics.stdev(shares)
    return f"{100 * mean:.2f} ± {100 * deviation:.2f} ({len(shares)} seeds)"
