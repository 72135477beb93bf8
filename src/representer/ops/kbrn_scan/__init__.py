"""The recurrence of a network of learned activations on every backend (M18, section 2)."""

from __future__ import annotations

from collections.abc import Container
from typing import Any

import torch
from torch import Tensor

from representer import functional
from representer.functional.activations import GREENS
from representer.ops import core, gpu, structs
from representer.ops.common import may_need_gradient
from representer.ops.kbrn_scan import reference
from representer.ops.kbrn_scan.reference import Operands, Results, input_gradients
from representer.ops.kernel_activation import refuses as refuses_expansion
from representer.ops.kernel_activation.reference import sizes
from representer.ops.op import Backend, Op
from representer.ops.table import OperandTable

# kbrn_scan on the compiled core; sums over all steps in torch.


def cpp_forward(p: Operands, new: Results) -> Results:
    """Fill in the results."""
    _run("kbrn_forward", p, new.output, z=p.z, **core.filled(used=new.used, normed=new.normed),
         out=new.output, h=new.h)  # fmt: skip
    return new


def cpp_backward(
    p: Operands, kept: Results, grad: Results, requested: Container[str]
) -> dict[str, Tensor]:
    """Return the gradients of the operands, by name."""
    named = {"h0": p.h0, "centers": p.centers, "coefficients": p.coefficients}
    named |= {"line": p.line, "norm": p.norm}
    results = {
        name: torch.empty_like(x, memory_format=torch.contiguous_format)
        for name, x in named.items()
        if x is not None
    }
    dz = torch.empty_like(kept.output)
    _run(
        "kbrn_backward", p, kept.output, out=kept.output, used=kept.used, normed=kept.normed,
        grad_output=grad.output, grad_h=grad.h, grad_z=dz,
        **{f"grad_{name}": x for name, x in results.items()},
    )  # fmt: skip
    return results | input_gradients(p, kept, dz)


def refuses(p: Operands) -> str:
    """Return why the core cannot run a call, or an empty string."""
    return core.refuses(p) if p.z.shape[-1] else "has nothing to do without units"


def _run(operation: str, p: Operands, like: Tensor, **tensors: Any) -> None:
    """Run an operation of the core on the operands and on tensors by the struct's names."""
    time, batch, units = like.shape
    statistics = p.statistics
    if statistics is not None and (statistics.stride(3) != 1 or batch * units == 0):
        statistics = statistics.contiguous()  # otherwise the core reads it by its strides
    strides = (0, 0, 0) if statistics is None else statistics.stride()[:3]
    core.run(
        operation, structs.KbrnStruct, like.dtype, time=time, batch=batch, units=units,
        count=p.centers.shape[1], green=list(GREENS).index(p.green), of_batch=p.uses_batch,
        stat_kind=strides[0], stat_time=strides[1], stat_batch=strides[2], weight=p.weight,
        h0=p.h0, centers=p.centers, coefficients=p.coefficients, line=p.line, norm=p.norm,
        statistics=statistics if statistics is None else core.Strided(statistics),
        lengths=p.lengths, bandwidth=p.bandwidth, epsilon=p.epsilon, **tensors,
    )  # fmt: skip


MOST_UNITS = 128  # of the GPU kernels


def kbrn_scan(
    z: Tensor,
    h0: Tensor,
    centers: Tensor,
    coefficients: Tensor,
    *,
    weight: Tensor,
    line: Tensor | None = None,
    norm: Tensor | None = None,
    statistics: Tensor | None = None,
    batch_statistics: bool = False,
    lengths: Tensor | None = None,
    green: str = "abs",
    bandwidth: float = 1.0,
    epsilon: float = 1e-3,
    backend: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Run a network of learned activations over a sequence, as ``functional.kbrn_scan`` defines it.

    Arguments and results are those of ``functional.kbrn_scan``, but mu and var are not returned;
    ``statistics`` are constants. ``backend`` names a backend, which runs or raises; None is the
    fastest available one.

    Raises:
        ShapeError: If the shapes do not fit.
        KindError: If dtypes or devices do not, or normalization lacks statistics.
        ArgumentError: If a length is negative or larger than T, or there is no such g.
        BackendError: If the requested backend cannot run the call.

    References:
        Marra et al., Learning Neuron Non-Linearities with Kernel-Based Deep Neural Networks, 2018,
        section 2, (6) and section 3.
    """
    options = (batch_statistics, green, float(bandwidth), float(epsilon))
    operands = (z, weight, h0, centers, coefficients, line, norm, statistics, lengths)
    return run(operands, options, backend)[:2]


def run(
    operands: tuple[Tensor | None, ...], options: tuple[Any, ...], backend: str | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Run a call, and return the statistics of the batch too, empty if they were not used.

    ``operands`` and ``options`` are in the order of ``Operands``, without ``keep``.
    """
    return OP(Operands(*operands, *options, may_need_gradient(operands)), backend)[:3]  # type: ignore[arg-type]


def _refuses(p: Operands) -> str:
    """Return why the GPU kernels cannot run a call, or "" if they can."""
    units = p.h0.shape[1]
    if units > MOST_UNITS:
        return f"computes up to {MOST_UNITS} units in one program, not {units}"
    return refuses_expansion(p)


OP = Op("kbrn_scan", kbrn_scan, functional.kbrn_scan)
OP.register(OperandTable(Operands, Results, sizes), mixes_batch=lambda p: p.uses_batch)
OP.add_backend(Backend("reference", (), reference.forward, reference.backward))
OP.add_backend(gpu.backend("kbrn_scan", _refuses))
OP.add_backend(Backend("cpp", ("cpu",), cpp_forward, cpp_backward, core.MISSING, refuses))
