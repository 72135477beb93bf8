"""Progress of a run: a bar on a terminal, one line per evaluation, and an experiment tracker."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import Any

from representer.printable import print_line
from representer.training.trackers import Tracker


class Progress:
    """Shows the progress of a run.

    The bar is written to stderr if that is a terminal. The lines are written to stdout, so that
    pipes and files receive them; after a broken pipe (``| head``) the run continues without them.

    Args:
        log_with: Name of an experiment tracker, see `Tracker`; None for none.
        folder: The run folder.
        is_shown: False shows nothing.
    """

    def __init__(
        self, log_with: str | None = None, folder: Path = Path(), is_shown: bool = True
    ) -> None:
        self._log_with, self._folder = log_with, folder
        self._tracker: Tracker | None = None
        self._is_shown = is_shown
        self._bar: Any = None
        self._has_terminal = False
        with contextlib.suppress(AttributeError, ValueError):  # stderr is closed or missing
            self._has_terminal = is_shown and sys.stderr.isatty()

    def start_epoch(self, epoch: int, epochs: int, done: int, total: int) -> None:
        """Start the bar of an epoch.

        Args:
            epoch: Number of the epoch, starting at 1.
            epochs: Number of epochs.
            done: Completed steps of the epoch.
            total: Steps of the epoch.
        """
        self._close_bar()
        if self._has_terminal:
            from tqdm import tqdm

            label = f"epoch {epoch}/{epochs}"
            self._bar = tqdm(total=total, initial=done, desc=label, leave=False, file=sys.stderr)

    def step(self, loss: float) -> None:
        """Advance the bar by one step."""
        if self._bar is not None:
            self._bar.set_postfix_str(f"loss {loss:.3f}", refresh=False)
            self._bar.update()

    def line(self, row: dict[str, Any]) -> None:
        """Print a row of metrics as one line, and log it."""
        if self._log_with and self._tracker is None:
            self._tracker = Tracker(self._log_with, self._folder)
        if self._tracker is not None:
            self._tracker.log(row)
        if not self._is_shown:
            return
        text = "  ".join(f"{name} {_short(value)}" for name, value in row.items())
        if self._bar is None:
            print_line(text, sys.stdout)
        else:
            with self._bar.external_write_mode(file=sys.stdout):
                print_line(text, sys.stdout)

    def close(self) -> None:
        """Remove the bar, and end the logging."""
        self._close_bar()
        if self._tracker is not None:
            self._tracker.close()
            self._tracker = None

    def _close_bar(self) -> None:
        if self._bar is not None:
            self._bar.close()
            self._bar = None


def _short(value: Any) -> str:
    return f"{value:.4f}" if isinstance(value, float) else str(value)
