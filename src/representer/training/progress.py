"""Stop signals: a flag that training polls where it can save, and an exception elsewhere."""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self

from representer.errors import ArgumentError, print_line

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
_PATIENCE = 3.0  # seconds until a process that does not handle a signal is ended


class Stopped(KeyboardInterrupt):
    """A signal ended a run outside of its training; see `stopping`."""

    def __init__(self, number: int) -> None:
        name = signal.Signals(number).name
        super().__init__(
            f"{name} received; what was written before is kept. Continue with --resume."
        )
        self.exit_code = 128 + number


@contextmanager
def stopping() -> Iterator[None]:
    """Raise `Stopped` on a signal in the block, except where `Interruption` handles it.

    Python handles a signal after the call of C code in which it arrives. Where that takes seconds,
    the process prints the message and ends without handling it, which no file minds: a file is
    complete or not there.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    handled: set[int] = set()

    def stop(number: int, frame: FrameType | None) -> None:
        handled.add(number)
        raise Stopped(number)

    def end_if_unhandled() -> None:
        while numbers := os.read(reader, 1):
            time.sleep(_PATIENCE)
            if signal.getsignal(numbers[0]) is stop and numbers[0] not in handled:
                stopped = Stopped(numbers[0])
                print(f"stopped: {stopped}", file=sys.stderr, flush=True)
                os._exit(stopped.exit_code)
        os.close(reader)

    reader, writer = os.pipe()
    os.set_blocking(writer, False)
    before = {n: h for n in SIGNALS if (h := signal.getsignal(n)) is not signal.SIG_IGN}
    wakeup = signal.set_wakeup_fd(writer, warn_on_full_buffer=False)
    threading.Thread(target=end_if_unhandled, daemon=True).start()
    try:
        for number in before:
            signal.signal(number, stop)
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)
        signal.set_wakeup_fd(wakeup)
        os.close(writer)


class Interruption:
    """Context manager that records the first signal; a second Ctrl-C raises KeyboardInterrupt.

    Outside of the main thread, where Python has no signal handlers, it does nothing.

    Attributes:
        number: The first signal, or None.
    """

    def __init__(self) -> None:
        self.number: signal.Signals | None = None
        self._previous: dict[signal.Signals, Any] = {}

    @property
    def exit_code(self) -> int:
        """The exit code of a process ended by the signal: 130, 143 or 129; 0 without a signal."""
        return 0 if self.number is None else 128 + self.number

    @property
    def name(self) -> str:
        """The signal's name, for example SIGTERM; empty without a signal."""
        return "" if self.number is None else self.number.name

    def __bool__(self) -> bool:
        """Return True if a signal arrived."""
        return self.number is not None

    def repeat(self) -> None:
        """Raise the signal again, if there is one: it came too late for the block to handle."""
        if self.number is not None:
            signal.raise_signal(self.number)

    def __enter__(self) -> Self:
        if threading.current_thread() is threading.main_thread():
            for number in SIGNALS:
                if signal.getsignal(number) is not signal.SIG_IGN:  # respect nohup
                    self._previous[number] = signal.signal(number, self._remember)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._restore()

    def _remember(self, number: int, frame: FrameType | None) -> None:
        is_repeated = self.number is not None
        if number == signal.SIGINT and is_repeated:
            self._restore()
            raise KeyboardInterrupt
        if not is_repeated:
            self.number = signal.Signals(number)

    def _restore(self) -> None:
        while self._previous:
            number, handler = self._previous.popitem()
            signal.signal(number, handler if handler is not None else signal.SIG_DFL)


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
