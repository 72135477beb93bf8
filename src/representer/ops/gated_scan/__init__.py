"""c_t = f_t * c_{t-1} + u_t on every backend (L19 (9), (15))."""

from __future__ import annotations

from collections.abc import Container

from torch import Tensor

from representer import functional
from representer.ops import core, gpu, structs
from representer.ops.gated_scan import reference
from representer.ops.gated_scan.reference import Operands, Results
from representer.ops.op import Backend, Op
from representer.ops.table import OperandTable

# gated_scan on the compiled core.


def cpp_forward(p: Operands, new: Results) -> Results:
    """Fill in the results."""
    return _run("scan_forward", p.u, p.c0, p, new)


def cpp_backward(
    p: Operands, kept: Results, grad: Results, requested: Container[str]
) -> dict[str, Tensor]:
    """Return the gradients of u, f and c0."""
    new = Results(p.c0.new_empty(kept.states.shape), p.c0.new_empty(p.c0.shape))
    df = p.c0.new_empty(kept.states.shape if p.f.dim() == 3 else p.c0.shape)
    extra = {"kept": kept.states, "first": p.c0, "grad_f": df}
    du, dc0 = _run("scan_backward", grad.states, grad.final, p, new, **extra)
    return {"u": du, "f": df.sum_to_size(p.f.shape), "c0": dc0}


def _run(
    operation: str, u: Tensor, start: Tensor, p: Operands, new: Results, **extra: Tensor
) -> Results:
    time, batch, units = u.shape
    core.run(
        operation, structs.ScanStruct, u.dtype, time=time, batch=batch, units=units,
        reverse=p.reverse, decay=min(p.f.dim(), 2), u=u, f=p.f, c0=start, lengths=p.lengths,
        **new._asdict(), **extra,
    )  # fmt: skip
    return new


def gated_scan(
    u: Tensor,
    f: Tensor,
    c0: Tensor | None = None,
    *,
    lengths: Tensor | None = None,
    reverse: bool = False,
    backend: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Run c_t = f_t * c_{t-1} + u_t over a sequence.

    Arguments and results are those of ``functional.gated_scan``; c0 is zero by default. ``backend``
    names a backend, which runs or raises; None is the fastest available one.

    Raises:
        ShapeError: If the shapes do not fit.
        KindError: If dtypes or devices do not.
        ArgumentError: If a length is negative or larger than T.
        BackendError: If the requested backend cannot run the call.

    References:
        Liang et al., Kernel-Based Approaches for Sequence Modeling, NeurIPS 2019, (9), (15).
    """
    c0 = u.new_zeros(u.shape[1:]) if c0 is None else c0
    return OP(Operands(u, f, c0, lengths, reverse), backend)


OP = Op("gated_scan", gated_scan, functional.gated_scan)
OP.register(OperandTable(Operands, Results))
OP.add_backend(Backend("reference", (), reference.forward, reference.backward))
OP.add_backend(gpu.backend("gated_scan"))
OP.add_backend(Backend("cpp", ("cpu",), cpp_forward, cpp_backward, core.MISSING, core.refuses))
