"""kbrn_scan in torch: a loop that holds only what is sequential, and its gradient written out.

    dh_t = gradient of the output + U^T da_{t+1}
    dn_t = gain f'(gain n_t + offset) dh_t
    da_t = (dn_t - mean(dn_t) - n_t mean(dn_t n_t)) / sqrt(var_t + eps)

the means over the batch, and without them where its statistics were not taken. The slopes of all
steps are known before the loop; the gradients of centers and coefficients follow after it.

Shapes: T time, B batch, H units, K centers.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from representer.ops.kbrn_scan.arguments import Backward, Forward, Gradients
from representer.ops.kernel_activation import reference as expansion
from representer.ops.sequence import Steps


def forward(*operands: Any) -> tuple[Tensor, ...]:
    """Return h_1..h_T, the last h, the statistics of the batch, and n of all steps if kept."""
    p = Forward(*operands)
    output, _, used, normed = (p.h0.new_empty(shape) for shape in p.result_shapes)
    h, weight = p.h0, p.weight.t()
    real, counts = _real(p.lengths, p.z)
    for t in Steps(len(p.z), p.lengths, False):
        a = torch.where(real[t], torch.addmm(p.z[t], h, weight), 0.0)
        if p.norm is not None:
            if p.of_batch:
                used[:, t] = 0.0
            if p.of_batch and counts[t] >= 2:
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
        fresh = expansion.forward(a, p.centers, p.coefficients, p.green, p.bandwidth)
        if p.line is not None:
            fresh += p.line[:, 0] * a + p.line[:, 1]
        h = torch.where(real[t], fresh, h)
        output[t] = torch.where(real[t], fresh, 0.0)
    return output, h.clone(), used, normed


def backward(*operands: Any) -> tuple[Tensor, ...]:
    """Return the gradients of what ``forward`` takes, see ``Gradients``."""
    p = Backward(*operands)
    time, _, units = p.output.shape
    real, counts = _real(p.lengths, p.output)
    n = p.normed.transpose(1, 2)
    a = n if p.norm is None else p.norm[0] * n + p.norm[1]
    tables = (p.centers, p.coefficients, p.green, p.bandwidth)
    rows = a.reshape(-1, units)
    slopes = expansion.backward(torch.ones_like(rows), rows, *tables)[0].reshape(p.output.shape)
    if p.line is not None:
        slopes = slopes + p.line[:, 0]
    grad, dh = torch.where(real, p.grad_output, 0.0), p.grad_h
    dh_all, da_all = torch.empty_like(slopes), torch.empty_like(slopes)
    for t in reversed(range(time)):
        dh_all[t] = torch.where(real[t], grad[t] + dh, 0.0)
        da = dh_all[t] * slopes[t]
        if p.norm is not None:
            da = p.norm[0] * da
            if p.of_batch and counts[t] >= 2:
                var = p.used[1, t]
                da = da - (da.sum(0) + n[t] * (da * n[t]).sum(0)) / counts[t]
            else:
                assert p.statistics is not None
                var = p.statistics[1, t]
            da = torch.where(real[t], da * (var + p.epsilon).rsqrt(), 0.0)
        da_all[t] = da
        dh = torch.where(real[t], 0.0, dh) + da @ p.weight
    flat = dh_all.reshape(-1, units)
    _, d_centers, d_coefficients = expansion.backward(flat, rows, *tables)
    return finish(p, da_all, dh, d_centers, d_coefficients, *_affine(p, flat, rows, slopes, n))


def finish(
    p: Backward,
    da: Tensor,
    dh: Tensor,
    d_centers: Tensor,
    d_coefficients: Tensor,
    d_line: Tensor,
    d_norm: Tensor,
) -> Gradients:
    """Return all gradients, with that of U, which sums over all steps at once."""
    units = da.shape[-1]
    d_weight = da[0].t() @ p.h0  # what was carried past the end of a sequence has no gradient there
    d_weight.addmm_(da[1:].reshape(-1, units).t(), p.output[:-1].reshape(-1, units))
    return Gradients(da, d_weight, dh, d_centers, d_coefficients, d_line, d_norm)


def _affine(p: Backward, dh: Tensor, a: Tensor, slopes: Tensor, n: Tensor) -> tuple[Tensor, Tensor]:
    """Return the gradients of line and norm."""
    d_line, d_norm = dh.new_empty(0), dh.new_empty(0)
    if p.line is not None:
        d_line = torch.stack(((dh * a).sum(0), dh.sum(0)), dim=1)
    if p.norm is not None:
        da = dh * slopes.reshape(dh.shape)
        d_norm = torch.stack(((da * n.reshape(dh.shape)).sum(0), da.sum(0)))
    return d_line, d_norm


def _real(lengths: Tensor | None, like: Tensor) -> tuple[Tensor, list[int]]:
    """Return which steps are real ``(T, B, 1)``, and how many sequences have each."""
    time, batch = like.shape[:2]
    if lengths is None:
        return torch.ones(time, 1, 1, dtype=torch.bool, device=like.device), [batch] * time
    real = torch.arange(time, device=lengths.device)[:, None] < lengths
    return real[:, :, None], real.sum(1).tolist()
