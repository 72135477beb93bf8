"""Serve a trained model over HTTP; needs the extra ``serve``."""

from __future__ import annotations

from dataclasses import dataclass, fields
from importlib import import_module
from typing import TYPE_CHECKING, Any

from representer.errors import ArgumentError

if TYPE_CHECKING:
    from representer.serving.app import create_app
    from representer.serving.served_model import ServedModel

__all__ = ["Limits", "ServedModel", "create_app"]
# options need neither FastAPI nor torch, which a server loads in the process of the model
_LATER = {
    "ServedModel": "representer.serving.served_model",
    "create_app": "representer.serving.app",
}


@dataclass(frozen=True)
class Limits:
    """Limits of a server; a request beyond one of them is answered with an error.

    The model runs in a process that ends when one call of it takes too long, and starts again.

    Args:
        max_objects: Objects of one request.
        max_characters: Characters of a text or of a SMILES.
        max_atoms: Atoms of a molecule.
        max_nodes: Nodes of a graph.
        max_edges: Edges of a graph.
        max_samples: Samples of a window of a signal, over all channels.
        max_waiting: Requests that wait for the model.
        max_bytes: Size of the body of a request; ten times as many of all bodies.
        max_read_seconds: From the connection to the last byte of a request.
        max_call_seconds: One call of the model.
        max_seconds: From the first byte of a request to the last byte of its answer.
        max_connections: Open connections; the oldest that sends no request is closed for a new one.
        max_streams: Open streams.
        stream_seconds: Time without a request after which a stream is closed.

    Raises:
        ArgumentError: A limit is not positive.
    """

    max_objects: int = 1000
    max_characters: int = 10_000
    max_atoms: int = 1000
    max_nodes: int = 2000
    max_edges: int = 20_000
    max_samples: int = 1_000_000
    max_waiting: int = 256
    max_bytes: int = 10_000_000
    max_read_seconds: float = 10.0
    max_call_seconds: float = 5.0
    max_seconds: float = 30.0
    max_connections: int = 500
    max_streams: int = 100
    stream_seconds: float = 300.0

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if not value > 0:
                raise ArgumentError(field.name, value, "a positive number")


def __getattr__(name: str) -> Any:
    if name in _LATER:
        return getattr(import_module(_LATER[name]), name)
    raise AttributeError(f"module 'representer.serving' has no attribute {name!r}")
