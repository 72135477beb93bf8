"""Limits of a server."""

from __future__ import annotations

from dataclasses import dataclass, fields

from representer.errors import ArgumentError


@dataclass(frozen=True)
class Limits:
    """Limits of a server; a request beyond one of them is answered with an error.

    Args:
        max_batch: Objects of one call of the model; requests that wait are joined.
        max_objects: Objects of one request.
        max_waiting: Requests that wait for the model.
        max_bytes: Size of the body of a request.
        max_seconds: From the first byte of a request to the last byte of its answer.
        max_streams: Open streams.
        stream_seconds: Time without a request after which a stream is closed.

    Raises:
        ArgumentError: A limit is not positive.
    """

    max_batch: int = 64
    max_objects: int = 1000
    max_waiting: int = 256
    max_bytes: int = 10_000_000
    max_seconds: float = 30.0
    max_streams: int = 100
    stream_seconds: float = 300.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not value > 0:
                raise ArgumentError(field.name, value, "a positive number")
