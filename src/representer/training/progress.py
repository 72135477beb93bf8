"""Progress of a run: a bar on a terminal, and one line per evaluation."""

from __future__ import annotations

import contextlib
import sys
from typing import Any

from representer.printable import print_line


class Progress:
    """Shows the progress of a run.

    The bar is written to stderr if that is a terminal. The lines are written to stdout, so that
    pipes and files receive them; after a broken pipe (``| head``) the run continues without them.

    Args:
        is_shown: False shows nothing.
    """

    def __init__(self, *, is_shown: bool = True) -> None:
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
        self.close()
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
        """Print a row of metrics as one line."""
        if not self._is_shown:
            return
        text = "  ".join(f"{name} {_short(value)}" for name, value in row.items())
        if self._bar is None:
            print_line(text, sys.stdout)
        else:
            with self._bar.external_write_mode(file=sys.stdout):
                print_line(text, sys.stdout)

    def close(self) -> None:
        """Remove the bar."""
        if self._bar is not None:
            self._bar.close()
            self._bar = None


def _short(value: Any) -> str:
    return f"{value:.4f}" if isinstance(value, float) else str(value)
