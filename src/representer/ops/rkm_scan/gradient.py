"""The gradient of rkm_scan over the whole sequence, in torch.

With g the gradient of the cell c_t and e that of the emission h_t, for every step from the last
to the first:

    e  = dh_t + W' da_{t+1}                      g  = g_carried + e o_t psi'(c_t)
    da_output    = e psi(c_t) o (1 - o)          da_candidate = g i_t phi'
    da_input     = g c~_t i (1 - i)              da_forget    = g m_{t-1} f (1 - f)
                                 (with i = 1 - f)             = g (m_{t-1} - c~_t) f (1 - f)
    g_carried    = g f_t                         (into h_{t-1} where the memory is the output)

The factors of g and e do not depend on later steps: they are computed for a block of steps at
once, as many as stay in the cache. With layer norm, g passes through its gradient first.

Shapes: T time, B batch, G pre-activations, R those that depend on h (the last ones), H units.
"""

from __future__ import annotations

from collections.abc import Container

import torch
from torch import Tensor

from representer.functional.cell import Cell
from representer.functional.nonlinearities import NONLINEARITIES
from representer.ops.rkm_scan.products import finish, gates_of, normalize
from representer.ops.rkm_scan.reference import Operands, Results, memory_of
from representer.ops.sequence import Steps, previous

BLOCK = 2**18  # entries of the gates for which factors are computed at once: 1 MiB in float32


def backward(
    p: Operands, kept: Results, grad: Results, requested: Container[str]
) -> dict[str, Tensor]:
    """Return the gradients of the operands, by name."""
    cell, gates, lengths, reverse = p.cell, gates_of(p, kept), p.lengths, p.reverse
    weight, static, norm, hold, fresh = p.weight, p.static, p.norm, p.hold, kept.fresh
    (time, batch, _, units), first_seen = gates.shape, len(cell.gates) - len(cell.recurrent_gates)
    of_cell = len(cell.gates) - cell.output_gate  # pre-activations that act through the cell
    gate = dict(zip(cell.gates, gates.unbind(2), strict=True))
    h_before = previous(kept.output, p.h0, lengths, reverse)
    c_before = previous(kept.cells, p.c0, lengths, reverse)
    memory = memory_of(cell, h_before, c_before)
    normed, scale = normalize(fresh) if norm is not None else (fresh, fresh)
    emitted = (
        kept.cells if hold is None else (fresh if norm is None else normed * norm[0] + norm[1])
    )

    block = max(1, BLOCK // max(1, gates[0].numel()))
    factor_TBGH, to_cell, at = gates, None, range(0)
    keep = gate.get("forget", torch.zeros_like(kept.cells) if static is None else static[1])
    keep = keep.expand(time, batch, units)

    dz = torch.empty_like(gates)
    g_after_norm = torch.empty_like(kept.cells) if norm is not None else None
    g_all = torch.empty_like(kept.cells) if "static" in requested else None
    seen_TBX = dz.flatten(2)[:, :, first_seen * units :]
    weight_XH = None if weight is None else weight.flatten(0, 1)
    to_h, to_c = grad.h, grad.c  # the gradients of h_t and c_t from later steps
    steps = Steps(time, lengths, reverse)
    for t in steps.backwards():
        if t not in at:
            at = range(t, min(t + block, time)) if reverse else range(max(0, t - block + 1), t + 1)
            part = slice(at.start, at.stop)
            factor_TBGH = _factors(cell, gates[part], static, memory[part], emitted[part])
            to_cell = _slope_of_emission(cell, gates[part], emitted[part])
        i = t - at.start
        e = grad.output[t] + to_h
        g = to_c
        held_e = held_g = None
        if hold is not None:
            held_e, held_g = e * hold[1, t], g * hold[0, t]
            e, g = e - held_e, g - held_g
        g = torch.addcmul(g, e, to_cell[i]) if to_cell is not None else g + e
        if norm is not None and g_after_norm is not None:
            g_after_norm[t] = g
            g = _through_norm(g, normed[t], scale[t], norm[0])
        if g_all is not None:
            g_all[t] = g
        torch.mul(g[:, None], factor_TBGH[i, :, :of_cell], out=dz[t, :, :of_cell])
        if cell.output_gate:
            torch.mul(e, factor_TBGH[i, :, of_cell], out=dz[t, :, of_cell])
        if not steps.is_whole(t):
            dz[t] = torch.where(steps.real(t)[:, None], dz[t], 0.0)
        before_h = seen_TBX[t].mm(weight_XH) if weight_XH is not None else torch.zeros_like(e)
        before_c = torch.zeros_like(g)
        if cell.forget_gate != "none":
            carried = g * keep[t]
            if cell.memory == "output":
                before_h = before_h + carried
            else:
                before_c = carried if cell.memory == "cell" else carried * (memory[t] + 1)
        if held_e is not None and held_g is not None:
            before_h, before_c = before_h + held_e, before_c + held_g
        if steps.is_whole(t):
            to_h, to_c = before_h, before_c
        else:
            real = steps.real(t)
            to_h, to_c = torch.where(real, before_h, to_h), torch.where(real, before_c, to_c)

    found = {"h0": to_h.clone(), "c0": to_c.clone()}
    return found | finish(p, kept, dz, gate["candidate"], g_all, g_after_norm, "z" in requested)


def _factors(
    cell: Cell, gates: Tensor, static: Tensor | None, memory: Tensor, emitted: Tensor
) -> Tensor:
    """Return the factor of g (of e for the output gate) in da, for a few steps."""
    gate = dict(zip(cell.gates, gates.unbind(2), strict=True))
    candidate = gate["candidate"]
    factors = torch.empty_like(gates)
    factor = dict(zip(cell.gates, factors.unbind(2), strict=True))
    torch.mul(gates[:, :, 1:], 1 - gates[:, :, 1:], out=factors[:, :, 1:])
    if cell.input_gate == "dynamic":
        factor["input"].mul_(candidate)
        factor["candidate"].copy_(gate["input"])
    elif cell.input_gate == "coupled":
        factor["candidate"].copy_(1 - gate["forget"])
    else:
        assert static is not None
        factor["candidate"].copy_(static[0].expand_as(candidate))
    if cell.forget_gate == "dynamic":
        factor["forget"].mul_(memory - candidate if cell.input_gate == "coupled" else memory)
    if cell.candidate == "tanh":
        factor["candidate"].mul_(1 - candidate.square())
    if cell.output_gate:
        factor["output"].mul_(NONLINEARITIES[cell.output].value(emitted))
    return factors


def _slope_of_emission(cell: Cell, gates: Tensor, emitted: Tensor) -> Tensor | None:
    """Return dh_t / dc_t for a few steps; None where it is 1."""
    output_gate = gates[:, :, -1] if cell.output_gate else None
    if cell.output == "identity":
        return output_gate
    psi = NONLINEARITIES[cell.output]
    slope = psi.derivative(emitted, psi.value(emitted))
    return slope if output_gate is None else slope * output_gate


def _through_norm(g: Tensor, normed: Tensor, scale: Tensor, gain: Tensor) -> Tensor:
    g = g * gain
    centered = g - g.mean(-1, keepdim=True)
    return (centered - normed * (g * normed).mean(-1, keepdim=True)) * scale
