"""The recurrence of a cell: the cheapest of the equivalent ones."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import torch
import torch.nn.functional as F
from torch import Tensor

from representer import functional
from representer.functional import Cell
from representer.ops import gated_scan, rkm_scan

States = tuple[Tensor, Tensor, Tensor]


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
    input_weight: Tensor | None = None,
    bias: Tensor | None = None,
    recompute: bool = False,
    psi: Callable[[Tensor], Tensor] | None = None,
) -> States:
    """Run a cell over a sequence; arguments and results as ``ops.rkm_scan``.

    A cell without memory takes all steps at once. A linear one without feedback is an elementwise
    recurrence. An output non-linearity that has no name (``psi``) goes through the equations as
    they stand, with autograd.
    """
    run = partial(
        _run,
        cell=cell,
        static=static,
        norm=norm,
        input_weight=input_weight,
        bias=bias,
        recompute=recompute,
        psi=psi,
    )
    if not cell.has_memory:
        time, batch = z.shape[:2]
        zeros = h0.new_zeros(time * batch, h0.shape[1])
        at_once = z.flatten(0, 1)[None]  # one step of a batch of T·B
        output, _, _ = run(at_once, None, zeros, zeros)
        return _real(output.unflatten(1, (time, batch))[0], lengths), h0, c0
    if psi is None and norm is None and hold is None and _is_elementwise(cell):
        assert static is not None
        z = _products(z, input_weight, bias)
        return _elementwise(cell, static[0] * z[:, :, 0], static[1], h0, c0, lengths, reverse)
    return run(z, weight, h0, c0, hold=hold, lengths=lengths, reverse=reverse)


def _run(
    z: Tensor,
    weight: Tensor | None,
    h0: Tensor,
    c0: Tensor,
    *,
    cell: Cell,
    static: Tensor | None,
    norm: Tensor | None,
    hold: Tensor | None = None,
    lengths: Tensor | None = None,
    reverse: bool = False,
    input_weight: Tensor | None,
    bias: Tensor | None,
    recompute: bool,
    psi: Callable[[Tensor], Tensor] | None,
) -> States:
    if psi is not None:
        return functional.rkm_scan(
            _products(z, input_weight, bias),
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
        input_weight=input_weight,
        bias=bias,
        recompute=recompute,
    )


def _is_elementwise(cell: Cell) -> bool:
    is_static = cell.input_gate == cell.forget_gate == "static" and cell.feedback == "none"
    carries_itself = cell.memory == "cell" or (cell.memory == "output" and cell.output == "linear")
    return is_static and carries_itself and not cell.output_gate


def _elementwise(
    cell: Cell,
    u: Tensor,
    f: Tensor,
    h0: Tensor,
    c0: Tensor,
    lengths: Tensor | None,
    reverse: bool,
) -> States:
    if cell.memory == "output":  # h_t = (u_t + f h_{t-1}) / 2
        output, h = gated_scan(u / 2, f / 2, h0, lengths=lengths, reverse=reverse)
        return output, h, 2 * h
    cells, c = gated_scan(u, f, c0, lengths=lengths, reverse=reverse)
    emit = functional.nonlinearity(cell.output).value
    return _real(emit(cells), lengths), emit(c), c


def _products(z: Tensor, input_weight: Tensor | None, bias: Tensor | None) -> Tensor:
    if input_weight is None:
        return z
    flat_bias = None if bias is None else bias.flatten()
    products = F.linear(z, input_weight.flatten(0, 1), flat_bias).to(input_weight.dtype)
    return products.unflatten(-1, input_weight.shape[:2])


def _real(output: Tensor, lengths: Tensor | None) -> Tensor:
    """Set the output beyond each sequence's length to 0."""
    if lengths is None:
        return output
    is_real = torch.arange(len(output), device=output.device)[:, None] < lengths
    return torch.where(is_real[:, :, None], output, 0.0)
