"""The operands of kbrn_scan and of its gradient, in the order of their schemas."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


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
        """Whether statistics of the batch are taken."""
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
        """Whether statistics of the batch were taken."""
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
