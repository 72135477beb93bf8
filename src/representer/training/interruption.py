"""Stop signals: the handler sets a flag, which training polls where it can save."""

from __future__ import annotations

import signal
import threading
from types import FrameType, TracebackType
from typing import Any, Self

SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


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
