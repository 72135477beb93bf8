"""Progress of a run: a bar on a terminal, and one line per evaluation."""

from __future__ import annotations

import contextlib
import sys
from typing import Any

from representer.printable import print_line


class Progress:
    """Shows how far a run is.

    The bar goes to stderr, if that is a terminal. The lines go to stdout, so that they are there in
    a pipe or a file; when its reader has gone (``| head``), the run goes on without them.

    Args:
        is_shown: False shows nothing at all.
    """

    def __init__(self, *, is_shown: bool = True) -> None:
        self._is_shown = is_shown
        self._bar: Any = None
        self._has_terminal = False
        with contextlib.suppress(AttributeError, ValueError):  # stderr is closed or not there
            self._has_terminal = is_shown and sys.stderr.isatty()

    def start_epoch(self, epoch: int, epochs: int, done: int, total: int) -> None:
        """Begin the bar of an epoch.

        Args:
            epoch: Its number, from 1.
            epochs: How many there are.
            done: Steps of it done already.
            total: Steps of it.
        """
        self.close()
        if self._has_terminal:
            from tqdm import tqdm

            label = f"epoch {epoch}/{epochs}"
            self._bar = tqdm(total=total, initial=done, desc=label, leave=False, file=sys.stderr)

    def step(self, loss: float) -> None:
        """Move the bar by one step."""
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
