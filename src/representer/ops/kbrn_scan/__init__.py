"""The recurrence of a network of learned activations on every backend (M18, section 2)."""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from functools import partial
from typing import Annotated, Any, NamedTuple

import torch
from torch import Tensor

from representer import functional
from representer.functional.activations import GREENS
from representer.ops import core, gpu, structs
from representer.ops.common import Steps, may_need_gradient, previous
from representer.ops.kernel_activation import evaluate, gradients, sizes
from representer.ops.kernel_activation import refuses as refuses_expansion
from representer.ops.op import Backend, Op
from representer.ops.table import LENGTHS, Operand, OperandTable

# kbrn_scan in torch: a loop over the sequential part, and its gradient by hand.
#
#     dh_t = gradient of the output + U^T da_{t+1}
#     dn_t = gain f'(gain n_t + offset) dh_t
#     da_t = (dn_t - mean(dn_t) - n_t mean(dn_t n_t)) / sqrt(var_t + eps)
#
# the means over the batch, and without them where its statistics were not used. The slopes of all
# steps are known before the loop; the gradients of centers and coefficients follow after it.
#
# Shapes: T time, B batch, H units, K centers.


def _restored(p: Any, kept: Mapping[str, Tensor]) -> Tensor:
    """Return z = a - U h_{t-1}, from a after normalization."""
    a = kept["normed"].transpose(1, 2)
    if p.norm is not None:
        mean, var = p.statistics
        if p.uses_batch:
            real = _mask(p.lengths, a).expand(*a.shape[:2], 1)
            is_batch = real.sum(1, keepdim=True) >= 2
            mean, var = torch.where(is_batch, kept["used"][:, :, None], p.statistics)
        a = a * (var + p.epsilon).sqrt() + mean
    return a - previous(kept["output"], p.h0, p.lengths, False) @ p.weight.t()


class Operands(NamedTuple):
    """Operands of kbrn_scan."""

    z: Annotated[Tensor, Operand("time batch units", saved=False, restored=_restored)]
    weight: Annotated[Tensor, Operand("units units")]
    h0: Annotated[Tensor, Operand("batch units")]
    centers: Annotated[Tensor, Operand("units centers")]
    coefficients: Annotated[Tensor, Operand("units centers")]
    line: Annotated[Tensor | None, Operand("units 2")]
    norm: Annotated[Tensor | None, Operand("2 units")]
    statistics: Annotated[
        Tensor | None,
        Operand("2 time batch units", needed=lambda p: p.norm is not None, differentiable=False),
    ]
    lengths: Annotated[Tensor | None, LENGTHS]
    batch_statistics: bool
    green: str
    bandwidth: float
    epsilon: float
    keep: bool

    @property
    def uses_batch(self) -> bool:
        """True if the statistics of the batch are used."""
        return self.norm is not None and self.batch_statistics


class Results(NamedTuple):
    """Results of kbrn_scan: h of every step, the last h, and tensors for the gradient.

    The latter are the statistics of the batch that were used, and n of every step with the batch
    last.
    """

    output: Annotated[Tensor, Operand("time batch units")]
    h: Annotated[Tensor, Operand("batch units", saved=False)]
    used: Annotated[
        Tensor, Operand("2 time units", needed=lambda p: p.uses_batch, differentiable=False)
    ]
    normed: Annotated[
        Tensor, Operand("time units batch", needed=lambda p: p.keep, differentiable=False)
    ]


def forward(p: Operands, new: Results) -> Results:
    """Fill in the results."""
    output, _, used, normed = new
    h, weight = p.h0, p.weight.t()
    real, counts = _real(p.lengths, p.z)
    for t in Steps(len(p.z), p.lengths, False):
        a = torch.where(real[t], torch.addmm(p.z[t], h, weight), 0.0)
        if p.norm is not None:
            if p.uses_batch:
                used[:, t] = 0.0
            if p.uses_batch and counts[t] >= 2:
                mean = a.sum(0) / counts[t]
                var = torch.where(real[t], (a - mean).square(), 0.0).sum(0) / counts[t]
                used[0, t], used[1, t] = mean, var
            else:
                assert p.statistics is not None
                mean, var = p.statistics[:, t]
            a = torch.where(real[t], (a - mean) * (var + p.epsilon).rsqrt(), 0.0)
        if p.keep:
            normed[t] = a.t()
        if p.norm is not None:
            a = p.norm[0] * a + p.norm[1]
        fresh = evaluate(a, p.centers, p.coefficients, p.green, p.bandwidth)
        if p.line is not None:
            fresh += p.line[:, 0] * a + p.line[:, 1]
        h = torch.where(real[t], fresh, h)
        output[t] = torch.where(real[t], fresh, 0.0)
    return new._replace(h=h.clone())


def backward(
    p: Operands, kept: Results, grad: Results, requested: Container[str],
    input_gradient: Callable[..., Tensor] = lambda *x: gradients(*x)[0],
    table_gradients: Callable[..., tuple[Tensor, ...]] = lambda *x: gradients(*x)[1:],
    through_steps: Callable[[Tensor], tuple[Tensor, Tensor, Tensor]] | None = None,
    dtype: torch.dtype | None = None,
) -> dict[str, Tensor]:  # fmt: skip
    """Return the gradients of the operands, by name.

    The functions, of a backend, return the gradients of an expansion, and from the slopes of all
    steps those of every output, of z and of h0. ``dtype`` is that of activations and slopes, if it
    is not that of the call.
    """
    n = kept.normed.transpose(1, 2).to(dtype)
    a = n if p.norm is None else p.norm[0] * n + p.norm[1]
    tables = (p.centers, p.coefficients, p.green, p.bandwidth)
    rows = a.flatten(0, -2)
    slopes = input_gradient(torch.ones_like(rows), rows, *tables).reshape(kept.output.shape)
    if p.line is not None:
        slopes = slopes + p.line[:, 0]
    through = through_steps or partial(_through_steps, p, kept, grad)
    dh_all, da_all, dh0 = through(slopes)
    flat = dh_all.flatten(0, -2)
    d_centers, d_coefficients = table_gradients(flat, rows, *tables)
    results = {"h0": dh0, "centers": d_centers, "coefficients": d_coefficients}
    if p.line is not None:
        results["line"] = torch.stack(((flat * rows).sum(0), flat.sum(0)), dim=1)
    if p.norm is not None:
        d_normed = flat * slopes.reshape(flat.shape)
        results["norm"] = torch.stack(((d_normed * n.reshape(flat.shape)).sum(0), d_normed.sum(0)))
    results = {name: x.to(kept.output.dtype) for name, x in results.items()}
    return results | input_gradients(p, kept, da_all)


def _through_steps(
    p: Operands, kept: Results, grad: Results, slopes: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of every output, of z and of h0."""
    n = kept.normed.transpose(1, 2)
    real, counts = _real(p.lengths, kept.output)
    upstream, dh = torch.where(real, grad.output, 0.0), grad.h
    dh_all, da_all = torch.empty_like(slopes), torch.empty_like(slopes)
    for t in reversed(range(len(slopes))):
        dh_all[t] = torch.where(real[t], upstream[t] + dh, 0.0)
        da = dh_all[t] * slopes[t]
        if p.norm is not None:
            da = p.norm[0] * da
            if p.uses_batch and counts[t] >= 2:
                var = kept.used[1, t]
                da = da - (da.sum(0) + n[t] * (da * n[t]).sum(0)) / counts[t]
            else:
                assert p.statistics is not None
                var = p.statistics[1, t]
            da = torch.where(real[t], da * (var + p.epsilon).rsqrt(), 0.0)
        da_all[t] = da
        dh = torch.where(real[t], 0.0, dh) + da @ p.weight
    return dh_all, da_all, dh


def input_gradients(p: Operands, kept: Results, da: Tensor) -> dict[str, Tensor]:
    """Return the gradients of z and of U, a sum over all steps at once."""
    d_weight = da[0].t() @ p.h0  # beyond the end of a sequence da is 0
    d_weight.addmm_(da[1:].flatten(0, 1).t(), kept.output[:-1].flatten(0, 1))
    return {"z": da, "weight": d_weight}


def _mask(lengths: Tensor | None, like: Tensor) -> Tensor:
    """Return the mask of real steps ``(T, B, 1)``, or ``(T, 1, 1)`` without lengths."""
    time = like.shape[0]
    if lengths is None:
        return torch.ones(time, 1, 1, dtype=torch.bool, device=like.device)
    return (torch.arange(time, device=lengths.device)[:, None] < lengths)[:, :, None]


def _real(lengths: Tensor | None, like: Tensor) -> tuple[Tensor, list[int]]:
    """Return the mask of real steps, and the number of sequences at each step."""
    real, (time, batch) = _mask(lengths, like), like.shape[:2]
    counts = [batch] * time if lengths is None else real[:, :, 0].sum(1).tolist()
    return real, counts


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
OP.add_backend(Backend("reference", (), forward, backward))
OP.add_backend(gpu.backend("kbrn_scan", _refuses))
OP.add_backend(Backend("cpp", ("cpu",), cpp_forward, cpp_backward, core.MISSING, refuses))
