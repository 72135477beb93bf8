"""Figures of a server in the text format of Prometheus."""

from __future__ import annotations

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest

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
