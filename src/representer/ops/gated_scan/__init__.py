"""c_t = f_t * c_{t-1} + u_t on every backend (L19 (9), (15))."""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Annotated, Any, NamedTuple

import torch
from torch import Tensor

from representer import functional
from representer.ops import core, gpu, structs
from representer.ops.common import Steps, previous
from representer.ops.op import Backend, Op
from representer.ops.table import LENGTHS, Operand, OperandTable

# gated_scan in torch, with the gradient of the whole sequence written out.
#
# g_t = dc_t + f_{t+1} * g_{t+1},    du_t = g_t,    df_t = g_t * c_{t-1},    dc_0 = f_1 * g_1


def _restored(p: Any, kept: Mapping[str, Tensor]) -> Tensor:
    """Return u = c_t - f_t c_{t-1}."""
    before = previous(kept["states"], p.c0, p.lengths, p.reverse)
    return kept["states"] - p.f * before


class Operands(NamedTuple):
    """Operands of gated_scan."""

    u: Annotated[Tensor, Operand("time batch units", saved=False, restored=_restored)]
    f: Annotated[Tensor, Operand("time batch units | units |")]
    c0: Annotated[Tensor, Operand("batch units")]
    lengths: Annotated[Tensor | None, LENGTHS]
    reverse: bool


class Results(NamedTuple):
    """Results of gated_scan."""

    states: Annotated[Tensor, Operand("time batch units")]
    final: Annotated[Tensor, Operand("batch units", saved=False)]


def forward(p: Operands, new: Results) -> Results:
    """Fill in the results."""
    u, f, c, lengths, reverse = p
    f, states = f.expand_as(u), new.states
    steps = Steps(len(u), lengths, reverse)
    for t in steps:
        if steps.is_whole(t):
            c = torch.addcmul(u[t], f[t], c, out=states[t])
        else:
            real = steps.real(t)
            fresh = torch.addcmul(u[t], f[t], c)
            states[t] = torch.where(real, fresh, 0.0)
            c = torch.where(real, fresh, c)
    new.final.copy_(c)
    return new


def backward(
    p: Operands, kept: Results, grad: Results, requested: Container[str]
) -> dict[str, Tensor]:
    """Return the gradients of u, f and c0."""
    states, decay = kept.states, p.f.expand_as(kept.states)
    du = torch.empty_like(states)
    steps = Steps(len(states), p.lengths, p.reverse)
    carried = grad.final  # the gradient of c_t from later steps
    for t in steps.backwards():
        if steps.is_whole(t):
            torch.add(grad.states[t], carried, out=du[t])
            carried = du[t] * decay[t]
        else:
            real = steps.real(t)
            du[t] = torch.where(real, grad.states[t] + carried, 0.0)
            carried = torch.where(real, du[t] * decay[t], carried)
    df = du * previous(states, p.c0, p.lengths, p.reverse)
    return {"u": du, "f": df.sum_to_size(p.f.shape), "c0": carried.clone()}


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
OP.add_backend(Backend("reference", (), forward, backward))
OP.add_backend(gpu.backend("gated_scan"))
OP.add_backend(Backend("cpp", ("cpu",), cpp_forward, cpp_backward, core.MISSING, core.refuses))
