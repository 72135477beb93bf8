"""Operands and results of string_scan."""

from typing import Annotated, Any, NamedTuple

from torch import Tensor

from representer.errors import ShapeError
from representer.functional.string_chain import StringChain
from representer.ops.operand import LENGTHS, Operand


def _has_filters(p: Any) -> bool:
    return p.input_weight is not None


def _needs_carry(p: Any) -> bool | None:
    if not p.chain.highway:
        return False
    return None if _has_filters(p) else True  # x is carried by default


def _keeps(p: Any) -> bool:
    return p.keep


class Operands(NamedTuple):
    """Operands of string_scan."""

    x: Annotated[
        Tensor,
        Operand(
            "time batch products units",
            instead=("time batch features", _has_filters),
            saved=_has_filters,
            on_request=True,
        ),
    ]
    input_weight: Annotated[Tensor | None, Operand("products units features")]
    bias: Annotated[
        Tensor | None,
        Operand("biased units", needed=lambda p: None if _has_filters(p) else False),
    ]
    decay: Annotated[Tensor | None, Operand("units |", needed=lambda p: not p.chain.is_gated)]
    weight: Annotated[
        Tensor | None, Operand("units units", needed=lambda p: p.chain.is_state_gated)
    ]
    h0: Annotated[Tensor, Operand("batch units")]
    c0: Annotated[Tensor, Operand("batch states units")]
    carry: Annotated[Tensor | None, Operand("time batch units", needed=_needs_carry)]
    mask: Annotated[Tensor | None, Operand("batch units", differentiable=False)]
    lengths: Annotated[Tensor | None, LENGTHS]
    chain: StringChain
    reverse: bool
    keep: bool

    @property
    def carried(self) -> Tensor | None:
        """The input that the highway carries, or None."""
        return self.x if self.carry is None and self.chain.highway else self.carry


class Results(NamedTuple):
    """Results of string_scan: h of every step, the last h and states, and tensors for the gradient.

    The latter are the products with the input, gates after their sigmoid, and the states.
    """

    output: Annotated[Tensor, Operand("time batch units")]
    h: Annotated[Tensor, Operand("batch units", saved=False)]
    c: Annotated[Tensor, Operand("batch states units", saved=False)]
    products: Annotated[
        Tensor, Operand("time batch products units", needed=_keeps, differentiable=False)
    ]
    states: Annotated[
        Tensor, Operand("time batch states units", needed=_keeps, differentiable=False)
    ]


def sizes(p: Operands) -> dict[str, int]:
    """Return the sizes that the chain determines."""
    return {"products": len(p.chain.products), "states": p.chain.states}


def check(p: Operands, sizes: dict[str, int]) -> None:
    """Check the number of biases, and that the highway can carry the input.

    Raises:
        ShapeError: If they do not fit the chain.
    """
    if p.bias is not None and not 1 <= sizes["biased"] <= sizes["products"]:
        wanted = f"(1 to {sizes['products']}, {sizes['units']})"
        raise ShapeError("bias", tuple(p.bias.shape), wanted)
    if p.chain.highway and p.carry is None and sizes["features"] != sizes["units"]:
        wanted = f"(time, batch, {sizes['units']}), as the highway carries it"
        raise ShapeError("x", tuple(p.x.shape), wanted)
