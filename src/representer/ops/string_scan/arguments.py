"""The operands of string_scan and of its gradient, in the order of their schemas."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor

from representer.functional.string_chain import StringChain


class Forward(NamedTuple):
    """Operands of the forward operator; shapes as in ``string_scan``."""

    x: Tensor
    input_weight: Tensor | None
    bias: Tensor | None
    decay: Tensor | None
    weight: Tensor | None
    h0: Tensor
    c0: Tensor
    carry: Tensor | None
    mask: Tensor | None
    lengths: Tensor | None
    code: str
    reverse: bool
    keep: bool

    SCHEMA = (
        "(Tensor x, Tensor? input_weight, Tensor? bias, Tensor? decay, Tensor? weight, Tensor h0,"
        " Tensor c0, Tensor? carry, Tensor? mask, Tensor? lengths, str chain, bool reverse,"
        " bool keep, str backend) -> (Tensor, Tensor, Tensor, Tensor, Tensor)"
    )

    @property
    def chain(self) -> StringChain:
        """Which cell."""
        return StringChain.parse(self.code)

    @property
    def carried(self) -> Tensor | None:
        """What the highway carries, if there is one."""
        return self.x if self.carry is None and self.chain.highway else self.carry

    @property
    def sizes(self) -> tuple[int, int, int, int, int]:
        """T, B, P, S and H."""
        chain = self.chain
        time, batch = self.x.shape[:2]
        return time, batch, len(chain.products), chain.states, self.h0.shape[1]

    @property
    def kept_shapes(self) -> tuple[tuple[int, ...], tuple[int, ...]]:
        """Of products and states, if they are kept."""
        time, batch, products, states, units = self.sizes
        if not self.keep:
            return (0,), (0,)
        return (time, batch, products, units), (time, batch, states, units)


class Backward(NamedTuple):
    """Operands of the gradient operator."""

    grad_output: Tensor
    grad_h: Tensor
    grad_c: Tensor
    output: Tensor
    products: Tensor
    states: Tensor
    x: Tensor
    input_weight: Tensor | None
    bias: Tensor | None
    decay: Tensor | None
    weight: Tensor | None
    h0: Tensor
    c0: Tensor
    carry: Tensor | None
    mask: Tensor | None
    lengths: Tensor | None
    code: str
    reverse: bool
    needs_x: bool

    SCHEMA = (
        "(Tensor grad_output, Tensor grad_h, Tensor grad_c, Tensor output, Tensor products,"
        " Tensor states, Tensor x, Tensor? input_weight, Tensor? bias, Tensor? decay,"
        " Tensor? weight, Tensor h0, Tensor c0, Tensor? carry, Tensor? mask, Tensor? lengths,"
        " str chain, bool reverse, bool needs_x, str backend)"
        " -> (Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor, Tensor)"
    )

    @property
    def chain(self) -> StringChain:
        """Which cell."""
        return StringChain.parse(self.code)

    @property
    def carried(self) -> Tensor | None:
        """What the highway carries, if there is one."""
        return self.x if self.carry is None and self.chain.highway else self.carry


class Gradients(NamedTuple):
    """Results of the gradient operator; empty for what is absent or not needed."""

    x: Tensor
    input_weight: Tensor
    bias: Tensor
    decay: Tensor
    weight: Tensor
    h0: Tensor
    c0: Tensor
    carry: Tensor
