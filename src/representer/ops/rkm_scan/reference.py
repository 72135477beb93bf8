"""rkm_scan in torch: a loop over the sequential part alone.

The gradient is that of the whole sequence, written out (no autograd graph per step). Everything
that does not depend on a later step's gradient is computed for all steps at once, before or after
the loop; inside stand one product with the recurrent matrices and a few elementwise operations.

Shapes: T time, B batch, G pre-activations, R those that depend on h (the last ones), H units.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor

from representer.functional.cell import Cell
from representer.functional.nonlinearities import NONLINEARITIES
from representer.functional.rkm_scan import EPS
from representer.ops.products import input_products
from representer.ops.rkm_scan.arguments import ALL, Operands, Results
from representer.ops.sequence import Steps


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
    memory = _memory(cell, h, c)
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


def _memory(cell: Cell, h: Tensor, c: Tensor) -> Tensor:
    if cell.memory == "output":
        return h
    return c if cell.memory == "cell" else torch.expm1(c)
