"""Operands and results of kbrn_scan."""

from typing import Annotated, Any, NamedTuple

from torch import Tensor

from representer.errors import ArgumentError
from representer.functional.kernel_activation import GREENS
from representer.ops.operand import LENGTHS, Operand


class Operands(NamedTuple):
    """Operands of kbrn_scan."""

    z: Annotated[Tensor, Operand("time batch units", saved=False)]
    weight: Annotated[Tensor, Operand("units units")]
    h0: Annotated[Tensor, Operand("batch units")]
    centers: Annotated[Tensor, Operand("units centers")]
    coefficients: Annotated[Tensor, Operand("units centers")]
    line: Annotated[Tensor | None, Operand("units 2")]
    norm: Annotated[Tensor | None, Operand("2 units")]
    statistics: Annotated[
        Tensor | None,
        Operand("2 time batch units", needed=lambda p: p.norm is not None, differentiable=False),
    ]
    lengths: Annotated[Tensor | None, LENGTHS]
    batch_statistics: bool
    green: str
    bandwidth: float
    epsilon: float
    keep: bool

    @property
    def uses_batch(self) -> bool:
        """True if the statistics of the batch are used."""
        return self.norm is not None and self.batch_statistics


class Results(NamedTuple):
    """Results of kbrn_scan: h of every step, the last h, and tensors for the gradient.

    The latter are the statistics of the batch that were used, and n of every step with the batch
    last.
    """

    output: Annotated[Tensor, Operand("time batch units")]
    h: Annotated[Tensor, Operand("batch units", saved=False)]
    used: Annotated[
        Tensor, Operand("2 time units", needed=lambda p: p.uses_batch, differentiable=False)
    ]
    normed: Annotated[
        Tensor, Operand("time units batch", needed=lambda p: p.keep, differentiable=False)
    ]


def sizes(p: Any) -> dict[str, int]:
    """Check the Green function, its bandwidth and epsilon.

    Raises:
        ArgumentError: If there is no such function, or a number is not positive.
    """
    if p.green not in GREENS:
        raise ArgumentError("green", p.green, f"one of {', '.join(GREENS)}")
    for name, value in (("bandwidth", p.bandwidth), ("epsilon", getattr(p, "epsilon", 1.0))):
        if not 0 < value < float("inf"):
            raise ArgumentError(name, value, "a positive number")
    return {}
