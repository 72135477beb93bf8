"""Checks that every request passes: host, token, size and time."""

from __future__ import annotations

import asyncio
import hmac
import json
import time
from typing import Any

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from representer.serving.limits import Limits

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
