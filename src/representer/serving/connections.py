"""Connections that a client cannot hold without a request."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Callable
from typing import Any

from uvicorn.protocols.http.auto import AutoHTTPProtocol

from representer.serving.limits import Limits

_ANSWERED = 1.0  # seconds, to send what answers a request that took too long
_PART = 1 << 12  # bytes that are parsed at a time; each may be a chunk, of which h11 reads 40 a ms
_NEW = 1.0  # seconds in which a connection is not closed for others: its request may be on the way


def limited_protocol(limits: Limits) -> type[asyncio.Protocol]:
    """Return a protocol for ``uvicorn.Config(http=...)`` with limits of time and number.

    `uvicorn` limits the time between two requests alone: not that of a header, of a body, or of a
    client that does not read its answer. Where there are too many connections, the oldest one that
    waits for its client is closed.
    """
    base: Any = AutoHTTPProtocol
    reading = min(limits.max_read_seconds, limits.max_seconds) + _ANSWERED
    answering = limits.max_seconds + _ANSWERED
    order: dict[Any, float] = {}  # connections by their beginning, the oldest first

    class LimitedProtocol(base):
        _cancel: Callable[[], object] = staticmethod(lambda: None)  # the end of the time limit

        def connection_made(self, transport: Any) -> None:
            super().connection_made(transport)
            self._parts: deque[bytes] = deque()
            order[self] = now = self.loop.time()
            self._limit(reading)
            if len(order) > limits.max_connections:
                idle = (old for old in order if old.is_reading and order[old] <= now - _NEW)
                if (oldest := next(idle, None)) is not None:
                    del order[oldest]
                    oldest.transport.abort()

        def connection_lost(self, exc: Exception | None) -> None:
            order.pop(self, None)
            self._cancel()
            super().connection_lost(exc)

        def data_received(self, data: bytes) -> None:
            is_parsing = bool(self._parts)
            self._parts.extend(data[k : k + _PART] for k in range(0, len(data), _PART))
            if not is_parsing:
                self._parse()

        def _parse(self) -> None:
            """Parse a part of what was received, and the next one after other connections."""
            if self.transport.is_closing():
                return
            was_reading = self.is_reading
            super().data_received(self._parts[0])
            self._parts.popleft()
            if was_reading and not self.is_reading:
                self._limit(answering)
            if self._parts:
                self.transport.pause_reading()
                self.loop.call_soon(self._parse)
            elif not self.flow.read_paused:
                self.transport.resume_reading()

        def on_response_complete(self) -> None:
            super().on_response_complete()
            self._limit(reading if self.is_reading else answering)

        @property
        def is_reading(self) -> bool:
            """True if the client has to send something."""
            return self.cycle is None or self.cycle.response_complete or self.cycle.more_body

        def _limit(self, seconds: float) -> None:
            self._cancel()
            self._cancel = self.loop.call_later(seconds, self.transport.abort).cancel

    return LimitedProtocol
