"""gated_scan on the compiled core."""

from __future__ import annotations

from collections.abc import Container

from torch import Tensor

from representer.ops import core, structs
from representer.ops.gated_scan.reference import Operands, Results
from representer.ops.sequence import previous


def forward(p: Operands, new: Results) -> Results:
    """Fill in the results."""
    return _run("scan_forward", p.u, p.c0, p, new)


def backward(
    p: Operands, kept: Results, grad: Results, requested: Container[str]
) -> dict[str, Tensor]:
    """Return the gradients of u, f and c0."""
    new = Results(p.c0.new_empty(kept.states.shape), p.c0.new_empty(p.c0.shape))
    du, dc0 = _run("scan_backward", grad.states, grad.final, p, new)
    df = previous(kept.states, p.c0, p.lengths, p.reverse).mul_(du)
    return {"u": du, "f": df.sum_to_size(p.f.shape), "c0": dc0}


def _run(operation: str, u: Tensor, start: Tensor, p: Operands, new: Results) -> Results:
    time, batch, units = u.shape
    core.run(
        operation, structs.ScanStruct, u.dtype, time=time, batch=batch, units=units,
        reverse=p.reverse, decay=min(p.f.dim(), 2), u=u, f=p.f, c0=start, lengths=p.lengths,
        **new._asdict(),
    )  # fmt: skip
    return new
