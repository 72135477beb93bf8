"""The operands of string_scan and of its gradient, in the order of their schemas."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NamedTuple

from torch import Tensor

from representer.errors import ShapeError
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
        """The cell."""
        return StringChain.parse(self.code)

    @property
    def carried(self) -> Tensor | None:
        """The input that the highway carries, or None."""
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
        """The cell."""
        return StringChain.parse(self.code)

    @property
    def carried(self) -> Tensor | None:
        """The input that the highway carries, or None."""
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


def layout(p: Any, sizes: dict[str, int]) -> Iterator[tuple[str, str | None]]:
    """Yield the layout of the forward operator, see ``ops.operands``."""
    yield "h0", "batch units"
    yield "x", "time batch products units" if p.input_weight is None else "time batch features"
    yield from _shared(p, sizes)


def backward_layout(p: Any, sizes: dict[str, int]) -> Iterator[tuple[str, str | None]]:
    """Yield the layout of the gradient operator."""
    yield "output", "time batch units packed"
    yield "x", "0" if p.input_weight is None else "time batch features"
    yield from _shared(p, sizes)
    yield "products", "time batch products units packed"
    yield "states", "time batch states units packed"
    yield "grad_output", "time batch units"
    yield "grad_h", "batch units"
    yield "grad_c", "batch states units"
    yield "h0", "batch units"


def _shared(p: Any, sizes: dict[str, int]) -> Iterator[tuple[str, str | None]]:
    chain = StringChain.parse(p.chain)
    products = len(chain.products)
    if sizes.setdefault("products", products) != products:
        raise ShapeError("x", p.x.shape, f"(time, batch, {products}, units)")
    sizes["states"] = chain.states
    yield "c0", "batch states units"
    yield "input_weight", "products units features ?"
    yield "bias", None if p.input_weight is None else "biased units ?"
    if not 1 <= sizes.get("biased", 1) <= products:
        raise ShapeError("bias", p.bias.shape, f"(1 to {products}, units)")
    is_learned = p.decay is not None and p.decay.dim()
    yield "decay", None if chain.is_gated else ("units" if is_learned else "")
    yield "weight", "units units" if chain.is_state_gated else None
    needs_carry = p.input_weight is None
    yield "carry", f"time batch units{'' if needs_carry else ' ?'}" if chain.highway else None
    if chain.highway and p.carry is None and sizes["features"] != sizes["units"]:
        raise ShapeError("x", p.x.shape, f"(time, batch, {sizes['units']})")
    yield "mask", "batch units ?"
    yield "lengths", "batch ?"
