"""Stop signals: a flag that training polls where it can save, and an exception elsewhere."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, Self

from representer.machine import IS_WINDOWS

_NAMES = "SIGINT", "SIGTERM", "SIGHUP"  # Windows lacks the last
SIGNALS = tuple(getattr(signal, name) for name in _NAMES if hasattr(signal, name))
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
    # Windows wakes sockets alone, and a process has one signal, that of the keyboard
    if threading.current_thread() is not threading.main_thread() or IS_WINDOWS:
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
        self, kind: type[BaseException] | None, error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:  # fmt: skip
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
