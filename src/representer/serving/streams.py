"""Open streams: the state of each sequence between its requests."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from representer.errors import RepresenterError

Step = Callable[[Any], dict[str, Any]]


class BusyError(RepresenterError):
    """Too many requests wait for the model, or too many streams are open."""

    status = 503


class NoStreamError(RepresenterError):
    """There is no such stream, or it was closed."""

    status = 404


@dataclass
class _Stream:
    step: Step
    used: float


class Streams:
    """Streams by their random names.

    Args:
        limit: Open streams.
        seconds: Time without a request after which a stream is closed.
        clock: Time in seconds.
    """

    def __init__(
        self, limit: int, seconds: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._limit, self._seconds, self._clock = limit, seconds, clock
        self._open: dict[str, _Stream] = {}

    def __len__(self) -> int:
        """Return the number of open streams."""
        self._close_idle()
        return len(self._open)

    def open(self, step: Step) -> str:
        """Return the name of a new stream.

        Raises:
            BusyError: Too many streams are open.
        """
        if len(self) >= self._limit:
            raise BusyError(f"{self._limit} streams are open")
        name = secrets.token_urlsafe(16)
        self._open[name] = _Stream(step, self._clock())
        return name

    def get(self, name: str) -> _Stream:
        """Return a stream, which is used now.

        Raises:
            NoStreamError: There is none of this name.
        """
        self._close_idle()
        if name not in self._open:
            raise NoStreamError(f"there is no open stream {name[:40]!r}")
        self._open[name].used = self._clock()
        return self._open[name]

    def close(self, name: str) -> None:
        """Close a stream.

        Raises:
            NoStreamError: There is none of this name.
        """
        self.get(name)
        del self._open[name]

    def _close_idle(self) -> None:
        oldest = self._clock() - self._seconds
        for name in [name for name, own in self._open.items() if own.used < oldest]:
            del self._open[name]
