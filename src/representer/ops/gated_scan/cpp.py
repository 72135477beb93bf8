"""gated_scan on the compiled core."""

from __future__ import annotations

from collections.abc import Container

from torch import Tensor

from representer.ops import core, structs
from representer.ops.gated_scan.reference import Operands, Results


def forward(p: Operands, new: Results) -> Results:
    """Fill in the results."""
    return _run("scan_forward", p.u, p.c0, p, new)


def backward(
    p: Operands, kept: Results, grad: Results, requested: Container[str]
) -> dict[str, Tensor]:
    """Return the gradients of u, f and c0."""
    new = Results(p.c0.new_empty(kept.states.shape), p.c0.new_empty(p.c0.shape))
    df = p.c0.new_empty(kept.states.shape if p.f.dim() == 3 else p.c0.shape)
    own = {"kept": kept.states, "first": p.c0, "grad_f": df}
    du, dc0 = _run("scan_backward", grad.states, grad.final, p, new, **own)
    return {"u": du, "f": df.sum_to_size(p.f.shape), "c0": dc0}


def _run(
    operation: str, u: Tensor, start: Tensor, p: Operands, new: Results, **own: Tensor
) -> Results:
    time, batch, units = u.shape
    core.run(
        operation, structs.ScanStruct, u.dtype, time=time, batch=batch, units=units,
        reverse=p.reverse, decay=min(p.f.dim(), 2), u=u, f=p.f, c0=start, lengths=p.lengths,
        **new._asdict(), **own,
    )  # fmt: skip
    return new
