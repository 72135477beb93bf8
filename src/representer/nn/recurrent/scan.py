"""Which recurrence computes a cell: the cheapest one that means the same."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

from representer import functional
from representer.functional import Cell
from representer.ops import gated_scan, rkm_scan


def scan(
    z: Tensor,
    weight: Tensor | None,
    h0: Tensor,
    c0: Tensor,
    *,
    cell: Cell,
    static: Tensor | None,
    norm: Tensor | None,
    hold: Tensor | None,
    lengths: Tensor | None,
    reverse: bool,
    psi: Callable[[Tensor], Tensor] | None,
) -> tuple[Tensor, Tensor, Tensor]:
    """Run a cell over a sequence; arguments and results as ``functional.rkm_scan``.

    A cell without memory takes all steps at once. A linear one without feedback is an elementwise
    recurrence. An output non-linearity that has no name goes through the equations as they stand,
    with autograd.
    """
    if not cell.has_memory:
        return _without_memory(z, h0, c0, cell, static, norm, lengths, psi)
    if psi is not None:
        return functional.rkm_scan(
            z,
            weight,
            h0,
            c0,
            cell=cell,
            static=static,
            norm=norm,
            hold=hold,
            lengths=lengths,
            reverse=reverse,
            psi=psi,
        )
    is_static = cell.input_gate == cell.forget_gate == "static" and cell.feedback == "none"
    if is_static and not cell.output_gate and norm is None and hold is None:
        assert static is not None
        if cell.memory == "output" and cell.output == "linear":  # h_t = (c~_t + h_{t-1}) / 2
            u, f = static[0] * z[:, :, 0] / 2, static[1] / 2
            output, h = gated_scan(u, f, h0, lengths=lengths, reverse=reverse)
            return output, h, 2 * h
        if cell.memory == "cell":
            u = static[0] * z[:, :, 0]
            cells, c = gated_scan(u, static[1], c0, lengths=lengths, reverse=reverse)
            emit = functional.nonlinearity(cell.output).value
            output = emit(cells)
            return _real(output, lengths), emit(c), c
    return rkm_scan(
        z,
        weight,
        h0,
        c0,
        cell=cell,
        static=static,
        norm=norm,
        hold=hold,
        lengths=lengths,
        reverse=reverse,
    )


def _without_memory(
    z: Tensor,
    h0: Tensor,
    c0: Tensor,
    cell: Cell,
    static: Tensor | None,
    norm: Tensor | None,
    lengths: Tensor | None,
    psi: Callable[[Tensor], Tensor] | None,
) -> tuple[Tensor, Tensor, Tensor]:
    time, batch = z.shape[:2]
    all_steps = z.flatten(0, 1)[None]  # one step of a batch of T·B
    zeros = z.new_zeros(time * batch, z.shape[-1])
    if psi is None:
        output, _, _ = rkm_scan(all_steps, None, zeros, zeros, cell=cell, static=static, norm=norm)
    else:
        output, _, _ = functional.rkm_scan(
            all_steps, None, zeros, zeros, cell=cell, static=static, norm=norm, psi=psi
        )
    return _real(output.unflatten(1, (time, batch))[0], lengths), h0, c0


def _real(output: Tensor, lengths: Tensor | None) -> Tensor:
    """Set the output beyond each sequence's length to 0."""
    if lengths is None:
        return output
    is_real = torch.arange(len(output), device=output.device)[:, None] < lengths
    return torch.where(is_real[:, :, None], output, 0.0)
