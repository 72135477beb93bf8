"""The operands of kbrn_scan and of its gradient, in the order of their schemas."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from torch import Tensor

from representer.errors import ArgumentError
from representer.functional.kernel_activation import GREENS


class Forward(NamedTuple):
    """Operands of the forward operator; shapes as in ``kbrn_scan``."""

    z: Tensor
    weight: Tensor
    h0: Tensor
    centers: Tensor
    coefficients: Tensor
    line: Tensor | None
    norm: Tensor | None
    statistics: Tensor | None
    lengths: Tensor | None
    batch_statistics: bool
    green: str
    bandwidth: float
    epsilon: float
    keep: bool

    SCHEMA = (
        "(Tensor z, Tensor weight, Tensor h0, Tensor centers, Tensor coefficients, Tensor? line,"
        " Tensor? norm, Tensor? statistics, Tensor? lengths, bool batch_statistics, str green,"
        " float bandwidth, float epsilon, bool keep, str backend)"
        " -> (Tensor, Tensor, Tensor, Tensor)"
    )

    @property
    def of_batch(self) -> bool:
        """True if statistics of the batch are taken."""
        return self.norm is not None and self.batch_statistics

    @property
    def result_shapes(self) -> tuple[tuple[int, ...], ...]:
        """Of the outputs, the last one, the statistics of the batch, and n of every step.

        What is not taken, or not kept, is empty. n is kept with the batch last.
        """
        time, batch, units = self.z.shape
        used = (2, time, units) if self.of_batch else (0,)
        kept = (time, units, batch) if self.keep else (0,)
        return (time, batch, units), (batch, units), used, kept


class Backward(NamedTuple):
    """Operands of the gradient operator."""

    grad_output: Tensor
    grad_h: Tensor
    output: Tensor
    used: Tensor
    normed: Tensor
    weight: Tensor
    h0: Tensor
    centers: Tensor
    coefficients: Tensor
    line: Tensor | None
    norm: Tensor | None
    statistics: Tensor | None
    lengths: Tensor | None
    batch_statistics: bool
    green: str
    bandwidth: float
    epsilon: float

    SCHEMA = (
        "(Tensor grad_output, Tensor grad_h, Tensor output, Tensor used, Tensor normed,"
        " Tensor weight, Tensor h0, Tensor centers, Tensor coefficients, Tensor? line,"
        " Tensor? norm, Tensor? statistics, Tensor? lengths, bool batch_statistics, str green,"
        " float bandwidth, float epsilon, str backend)"
        " -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)"
    )

    @property
    def of_batch(self) -> bool:
        """True if statistics of the batch were taken."""
        return self.norm is not None and self.batch_statistics


class Gradients(NamedTuple):
    """Results of the gradient operator; empty for what is absent."""

    z: Tensor
    weight: Tensor
    h0: Tensor
    centers: Tensor
    coefficients: Tensor
    line: Tensor
    norm: Tensor


def layout(p: Any, sizes: dict[str, int]) -> Iterator[tuple[str, str | None]]:
    """Yield the layout of the forward operator, see ``ops.operands``."""
    yield "z", "time batch units"
    yield from _shared(p)


def backward_layout(p: Any, sizes: dict[str, int]) -> Iterator[tuple[str, str | None]]:
    """Yield the layout of the gradient operator."""
    yield "output", "time batch units packed"
    yield from _shared(p)
    is_of_batch = p.norm is not None and p.batch_statistics
    yield "used", "2 time units packed" if is_of_batch else "0"
    yield "normed", "time units batch packed"
    yield "grad_output", "time batch units"
    yield "grad_h", "batch units"


def _shared(p: Any) -> Iterator[tuple[str, str | None]]:
    check_options(p.green, p.bandwidth, p.epsilon)
    yield "h0", "batch units"
    yield "weight", "units units"
    yield "centers", "units centers"
    yield "coefficients", "units centers"
    yield "line", "units 2 ?"
    yield "norm", "2 units ?"
    yield "statistics", None if p.norm is None else "2 time batch units"
    yield "lengths", "batch ?"


def check_options(green: str, bandwidth: float, epsilon: float) -> None:
    """Check g, its bandwidth and what is added to variances.

    Raises:
        ArgumentError: If there is no such g, or a number is not positive.
    """
    if green not in GREENS:
        raise ArgumentError("green", green, f"one of {', '.join(GREENS)}")
    for name, value in (("bandwidth", bandwidth), ("epsilon", epsilon)):
        if not 0 < value < float("inf"):
            raise ArgumentError(name, value, "a positive number")
