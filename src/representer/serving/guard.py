"""Guard of a server: connections with limits, and checks that every request passes."""

from __future__ import annotations

import asyncio
import hmac
import json
import time
from collections import deque
from collections.abc import Callable
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.types import ASGIApp, Message, Receive, Scope, Send
from uvicorn.protocols.http.auto import AutoHTTPProtocol

from representer.serving import Limits

# Connections that a client cannot hold without a request.

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


# Requests: host, token, size and time.

# Figures of a server in the text format of Prometheus.

_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30)
_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024)


class Metrics:
    """Counts of one server."""

    def __init__(self) -> None:
        self._registry = registry = CollectorRegistry()
        self.requests = Counter(
            "representer_requests", "Answered requests.", ("path", "status"), registry=registry
        )
        self.seconds = Histogram(
            "representer_request_seconds", "Time from request to answer.", ("path",),
            buckets=_SECONDS, registry=registry,
        )  # fmt: skip
        self.objects = Histogram(
            "representer_batch_objects", "Objects in one call of the model.", buckets=_SIZES,
            registry=registry,
        )  # fmt: skip
        self.ended = Counter(
            "representer_model_ends", "Ends of the process of the model.", registry=registry
        )
        self.streams = Gauge("representer_open_streams", "Open streams.", registry=registry)

    def text(self) -> bytes:
        """Return all figures."""
        return generate_latest(self._registry)


LOCAL = ("localhost", "127.0.0.1", "[::1]")
_BODIES = 10  # times the size of one are held at a time
PUBLIC = ("/health", "/", "/docs")  # for load balancers and browsers: nothing of the model


class Guard:
    """ASGI middleware with the limits of a server.

    A server without a token answers only requests that name this machine as their host, and takes
    JSON alone: a page in the user's browser can send neither.
    """

    def __init__(self, app: ASGIApp, limits: Limits, metrics: Metrics, token: str | None) -> None:
        self._app, self._limits, self._metrics, self._token = app, limits, metrics, token
        self._held = 0  # bytes of the bodies of all requests in progress

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        """Answer one request."""
        if scope["type"] != "http":
            return await self._app(scope, receive, send)
        status, started, sizes = 0, time.perf_counter(), list[int]()

        async def observed(message: Message) -> None:
            nonlocal status
            if message["type"] == "http.response.start":
                status = message["status"]
            await send(message)

        try:
            async with asyncio.timeout(self._limits.max_seconds):
                if refusal := self._refusal(scope):
                    await _answer(observed, *refusal)
                else:
                    body = await self._body(receive, sizes)
                    if isinstance(body, bytes):
                        await self._app(scope, _replayed(body, receive), observed)
                    else:
                        await _answer(observed, *body)
        except TimeoutError:
            if not status:
                problem = f"no answer within {self._limits.max_seconds:g} s"
                await _answer(observed, 504, problem)
        finally:
            self._held -= sum(sizes)
            route = scope.get("route")  # not the path: a stranger could fill the memory with names
            path = getattr(route, "path", "other")
            self._metrics.requests.labels(path, status).inc()
            self._metrics.seconds.labels(path).observe(time.perf_counter() - started)
        return None

    def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        """Return the status and the reason not to answer a request."""
        headers = {name: value.decode("latin-1") for name, value in scope["headers"]}
        if self._token is None:
            host = headers.get(b"host", "")
            name = host if host.endswith("]") else host.rsplit(":", 1)[0]
            if name not in LOCAL:
                return 403, f"host is {host[:80]!r}; expected one of {', '.join(LOCAL)}"
        elif scope["path"] not in PUBLIC:
            received = headers.get(b"authorization", "")
            if not hmac.compare_digest(received.encode(), f"Bearer {self._token}".encode()):
                return 401, "expected the header 'Authorization: Bearer TOKEN' with the right token"
        content_type = headers.get(b"content-type", "").split(";")[0].strip().lower()
        if scope["method"] == "POST" and content_type != "application/json":
            return 415, f"content-type is {content_type[:80]!r}; expected 'application/json'"
        return None

    async def _body(self, receive: Receive, sizes: list[int]) -> bytes | tuple[int, str]:
        """Return the body of a request, or the status and the reason not to read it."""
        limits, parts, is_open = self._limits, list[bytes](), True
        try:
            async with asyncio.timeout(limits.max_read_seconds):
                while is_open:
                    message = await receive()
                    parts.append(message.get("body", b""))
                    sizes.append(len(parts[-1]))
                    self._held += sizes[-1]
                    if sum(sizes) > limits.max_bytes:
                        return 413, f"the body has more than {limits.max_bytes:,} bytes"
                    is_large = sum(sizes) > limits.max_bytes // 100  # small ones are always read
                    if is_large and self._held > _BODIES * limits.max_bytes:
                        return 503, "the bodies of all requests are too large together"
                    is_open = message.get("more_body", False)
        except TimeoutError:
            return 408, f"the body did not arrive within {limits.max_read_seconds:g} s"
        return b"".join(parts)


def _replayed(body: bytes, receive: Receive) -> Receive:
    messages = iter([{"type": "http.request", "body": body, "more_body": False}])

    async def replayed() -> Message:
        return next(messages, None) or await receive()

    return replayed


async def _answer(send: Send, status: int, problem: str) -> None:
    headers: list[Any] = [(b"content-type", b"application/json")]
    if status == 401:
        headers.append((b"www-authenticate", b"Bearer"))
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": json.dumps({"error": problem}).encode()})
