"""Progress of a run: a bar on a terminal, one line per evaluation, and an experiment tracker."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import Any

from representer.errors import ArgumentError, print_line

# The metrics of a run in TensorBoard or MLflow, by the trackers of Accelerate.


class Tracker:
    """A run of an experiment tracker; of several processes, only the first writes.

    Args:
        name: ``"tensorboard"``, which writes to the folder `name` of the run folder, or
            ``"mlflow"``, which writes to the store that ``MLFLOW_TRACKING_URI`` names, as a run of
            the experiment ``representer``, within a run that is active already.
        folder: The run folder, after which MLflow's run is named.

    Raises:
        ArgumentError: It cannot be started; the message has its reason.
    """

    def __init__(self, name: str, folder: Path) -> None:
        from accelerate.tracking import MLflowTracker, TensorBoardTracker

        title = folder.resolve().name
        self._tracker: Any = (
            TensorBoardTracker(name, str(folder))
            if name == "tensorboard"
            else MLflowTracker("representer", run_name=title, nested_run=True)
        )
        try:
            self._tracker.start()
        except Exception as error:
            reason = str(error).splitlines()[0]
            raise ArgumentError("log_with", name, "a tracker that starts", hint=reason) from error

    def log(self, row: dict[str, Any]) -> None:
        """Add the finite metrics of an evaluation at its step."""
        numbers = {key: value for key, value in row.items() if value is not None and key != "step"}
        self._tracker.log(numbers, step=row["step"])

    def close(self) -> None:
        """End the run."""
        self._tracker.finish()


# Progress of a run: a bar on a terminal, one line per evaluation, and an experiment tracker.


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
