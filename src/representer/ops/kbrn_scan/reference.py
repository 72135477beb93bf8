"""kbrn_scan in torch: a loop over the sequential part, and its gradient by hand.

    dh_t = gradient of the output + U^T da_{t+1}
    dn_t = gain f'(gain n_t + offset) dh_t
    da_t = (dn_t - mean(dn_t) - n_t mean(dn_t n_t)) / sqrt(var_t + eps)

the means over the batch, and without them where its statistics were not used. The slopes of all
steps are known before the loop; the gradients of centers and coefficients follow after it.

Shapes: T time, B batch, H units, K centers.
"""

from __future__ import annotations

from collections.abc import Callable, Container, Mapping
from functools import partial
from typing import Annotated, Any, NamedTuple

import torch
from torch import Tensor

from representer.ops.common import Steps, previous
from representer.ops.kernel_activation import reference as expansion
from representer.ops.table import LENGTHS, Operand


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
        fresh = expansion.evaluate(a, p.centers, p.coefficients, p.green, p.bandwidth)
        if p.line is not None:
            fresh += p.line[:, 0] * a + p.line[:, 1]
        h = torch.where(real[t], fresh, h)
        output[t] = torch.where(real[t], fresh, 0.0)
    return new._replace(h=h.clone())


def backward(
    p: Operands, kept: Results, grad: Results, requested: Container[str],
    input_gradient: Callable[..., Tensor] = lambda *x: expansion.gradients(*x)[0],
    table_gradients: Callable[..., tuple[Tensor, ...]] = lambda *x: expansion.gradients(*x)[1:],
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
