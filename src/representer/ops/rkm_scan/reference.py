"""rkm_scan in torch: a loop over the sequential part alone.

The gradient is that of the whole sequence, written out (no autograd graph per step). Everything
that does not depend on a later step's gradient is computed for all steps at once, before or after
the loop; inside stand one product with the recurrent matrices and a few elementwise operations.

Shapes: T time, B batch, G pre-activations, R those that depend on h (the last ones), H units.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from representer.errors import ArgumentError
from representer.functional.cell import Cell
from representer.functional.nonlinearities import NONLINEARITIES
from representer.functional.rkm_scan import EPS
from representer.ops.operand import LENGTHS, Operand
from representer.ops.products import input_products
from representer.ops.sequence import Steps, previous

NOTHING, ALL, CELLS = 0, 1, 2  # kept for the gradient, which recomputes the gates from CELLS


def _is_static(p: Any) -> bool:
    return "static" in (p.cell.input_gate, p.cell.forget_gate)


def _restored(p: Any, kept: Mapping[str, Tensor]) -> Tensor:
    """Return z = a - W h_{t-1}, from the gates after their nonlinearity."""
    candidate, *others = kept["gates"].unbind(2)
    if p.cell.candidate == "tanh":
        candidate = candidate.atanh()  # ±∞ where it was rounded to ±1, with a slope of 0
    z = torch.stack([candidate, *map(torch.logit, others)], dim=2)
    if p.weight is None:
        return z
    before = previous(kept["output"], p.h0, p.lengths, p.reverse)
    fed = torch.einsum("rij,tbj->tbri", p.weight, before)
    return z - F.pad(fed, (0, 0, len(p.cell.gates) - len(p.weight), 0))


class Operands(NamedTuple):
    """Operands of rkm_scan."""

    z: Annotated[
        Tensor,
        Operand(
            "time batch gates units",
            instead=("time batch features", lambda p: p.input_weight is not None),
            saved=lambda p: p.input_weight is not None or p.keep == CELLS,
            restored=_restored,
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


def forward(p: Operands, new: Results) -> Results:
    """Return the results, in the memory of ``new`` as far as they are written step by step."""
    cell, weight, static, norm, hold = p.cell, p.weight, p.static, p.norm, p.hold
    z = p.z if p.input_weight is None else input_products(p.z, p.input_weight, p.bias)
    (time, batch, gates, units), first_seen = z.shape, len(cell.gates) - len(cell.recurrent_gates)
    keeps_gates = p.keep == ALL
    output, _, _, kept, cells, fresh = new
    a_TBGH = kept if keeps_gates else p.h0.new_empty(1, batch, gates, units)
    seen_TBX = a_TBGH.flatten(2)[:, :, first_seen * units :]
    weight_HX = None if weight is None else weight.flatten(0, 1).t().contiguous()
    phi, psi = NONLINEARITIES[cell.candidate].value, NONLINEARITIES[cell.output].value

    h, c = p.h0, p.c0
    steps = Steps(time, p.lengths, p.reverse)
    for t in steps:
        a = a_TBGH[t if keeps_gates else 0].copy_(z[t])
        if weight_HX is not None:
            seen_TBX[t if keeps_gates else 0].addmm_(h, weight_HX)
        a[:, 1:].sigmoid_()
        if cell.candidate != "identity":
            a[:, 0] = phi(a[:, 0])
        gate = dict(zip(cell.gates, a.unbind(1), strict=True))
        fresh_c = _fresh_cell(cell, gate, static, h, c)
        if fresh.numel():
            fresh[t] = fresh_c
        if norm is not None:
            fresh_c = F.layer_norm(fresh_c, (units,), norm[0], norm[1], EPS)
        h_new = psi(fresh_c)
        if cell.output_gate:
            h_new = gate["output"] * h_new
        if hold is not None:
            fresh_c = torch.lerp(fresh_c, c, hold[0, t])
            h_new = torch.lerp(h_new, h, hold[1, t])
        if steps.is_whole(t):
            h, c = h_new, fresh_c
            output[t] = h
        else:
            real = steps.real(t)
            h, c = torch.where(real, h_new, h), torch.where(real, fresh_c, c)
            output[t] = torch.where(real, h_new, 0.0)
        if cells.numel():
            cells[t] = c
    return new._replace(h=h.clone(), c=c.clone())


def _fresh_cell(
    cell: Cell, gate: dict[str, Tensor], static: Tensor | None, h: Tensor, c: Tensor
) -> Tensor:
    candidate = gate["candidate"]
    memory = memory_of(cell, h, c)
    if cell.input_gate == "coupled":  # (1 - f) c~ + f m
        return torch.lerp(candidate, memory, gate["forget"])
    if cell.input_gate == "dynamic":
        written = gate["input"] * candidate
    else:
        assert static is not None
        written = static[0] * candidate
    if cell.forget_gate == "none":
        return written
    if cell.forget_gate == "dynamic":
        return written.addcmul_(gate["forget"], memory)
    assert static is not None
    return written.addcmul_(static[1], memory)


def memory_of(cell: Cell, h: Tensor, c: Tensor) -> Tensor:
    """Return m from the emission and the carried cell, of one step or of all."""
    if cell.memory == "output":
        return h
    return c if cell.memory == "cell" else torch.expm1(c)
