"""Operands and results of rkm_scan."""

from typing import Annotated, Any, NamedTuple

from torch import Tensor

from representer.errors import ArgumentError
from representer.functional.cell import Cell
from representer.ops.operand import LENGTHS, Operand

NOTHING, ALL, CELLS = 0, 1, 2  # kept for the gradient, which recomputes the gates from CELLS


def _is_static(p: Any) -> bool:
    return "static" in (p.cell.input_gate, p.cell.forget_gate)


class Operands(NamedTuple):
    """Operands of rkm_scan."""

    z: Annotated[
        Tensor,
        Operand(
            "time batch gates units",
            instead=("time batch features", lambda p: p.input_weight is not None),
            saved=lambda p: p.input_weight is not None or p.keep == CELLS,
            on_request=True,
        ),
    ]
    input_weight: Annotated[Tensor | None, Operand("gates units features")]
    bias: Annotated[
        Tensor | None,
        Operand("gates units", needed=lambda p: False if p.input_weight is None else None),
    ]
    weight: Annotated[
        Tensor | None,
        Operand("seen units units", needed=lambda p: bool(p.cell.recurrent_gates)),
    ]
    h0: Annotated[Tensor, Operand("batch units")]
    c0: Annotated[Tensor, Operand("batch units")]
    static: Annotated[Tensor | None, Operand("2 units", needed=_is_static, on_request=True)]
    norm: Annotated[Tensor | None, Operand("2 units")]
    hold: Annotated[Tensor | None, Operand("2 time batch units", differentiable=False)]
    lengths: Annotated[Tensor | None, LENGTHS]
    cell: Cell
    reverse: bool
    keep: int


def _has_fresh(p: Any) -> bool:
    return bool(p.keep) and (p.norm is not None or p.hold is not None)


class Results(NamedTuple):
    """Results of rkm_scan: h of every step, the last h and c, and tensors for the gradient.

    The latter are the gates after their non-linearity; the carried cells; and, if layer norm or
    zoneout is between the two, the freshly computed cells.
    """

    output: Annotated[Tensor, Operand("time batch units")]
    h: Annotated[Tensor, Operand("batch units", saved=False)]
    c: Annotated[Tensor, Operand("batch units", saved=False)]
    gates: Annotated[
        Tensor,
        Operand("time batch gates units", needed=lambda p: p.keep == ALL, differentiable=False),
    ]
    cells: Annotated[
        Tensor, Operand("time batch units", needed=lambda p: bool(p.keep), differentiable=False)
    ]
    fresh: Annotated[Tensor, Operand("time batch units", needed=_has_fresh, differentiable=False)]


def sizes(p: Operands) -> dict[str, int]:
    """Check the options of a call, and return the sizes that they determine.

    Raises:
        ArgumentError: If the cell has a candidate whose slope does not follow from its value, or
            there is no such ``keep``.
    """
    if p.cell.candidate not in ("identity", "tanh"):
        hint = "functional.rkm_scan takes any, with autograd."
        raise ArgumentError("cell.candidate", p.cell.candidate, "'identity' or 'tanh'", hint=hint)
    if p.keep not in (NOTHING, ALL, CELLS):
        raise ArgumentError("keep", p.keep, f"one of {NOTHING}, {ALL} and {CELLS}")
    return {"gates": len(p.cell.gates), "seen": len(p.cell.recurrent_gates)}
