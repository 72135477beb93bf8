"""rkm_scan in torch: a loop over the sequential part alone.

The gradient is that of the whole sequence, written out (no autograd graph per step). Everything
that does not depend on a later step's gradient is computed for all steps at once, before or after
the loop; inside stand one product with the recurrent matrices and a few elementwise operations.

Shapes: T time, B batch, G pre-activations, R those that depend on h (the last ones), H units.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Annotated, Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from representer.errors import ArgumentError
from representer.functional.activations import NONLINEARITIES
from representer.functional.rkm import EPS, Cell
from representer.ops.common import (
    FEW_ROWS,
    Multiply,
    Steps,
    Transpose,
    full_width_products,
    input_gradient,
    input_products,
    over_rows,
    over_steps,
    previous,
    real,
    transpose,
    weight_gradient,
)
from representer.ops.table import LENGTHS, Operand

NOTHING, ALL, CELLS = 0, 1, 2  # kept for the gradient, which recomputes the gates from CELLS


def _is_static(p: Any) -> bool:
    return "static" in (p.cell.input_gate, p.cell.forget_gate)


def _restored(p: Any, kept: Mapping[str, Tensor]) -> Tensor:
    """Return z = a - W h_{t-1}, from the gates after their nonlinearity."""
    candidate, *others = kept["gates"].unbind(2)
    if p.cell.candidate == "tanh":
        candidate = candidate.atanh()  # ±∞ where it was rounded to ±1, with a slope of 0
    z = torch.stack([candidate, *map(torch.logit, others)], dim=2)
    if p.weight is None:
        return z
    before = previous(kept["output"], p.h0, p.lengths, p.reverse)
    fed = torch.einsum("rij,tbj->tbri", p.weight, before)
    return z - F.pad(fed, (0, 0, len(p.cell.gates) - len(p.weight), 0))


class Operands(NamedTuple):
    """Operands of rkm_scan."""

    z: Annotated[
        Tensor,
        Operand(
            "time batch gates units",
            instead=("time batch features", lambda p: p.input_weight is not None),
            saved=lambda p: p.input_weight is not None or p.keep == CELLS,
            restored=_restored,
            on_request=True,
        ),
    ]
    input_weight: Annotated[Tensor | None, Operand("gates units features")]
    bias: Annotated[
        Tensor | None,
        Operand("gates units", needed=lambda p: False if p.input_weight is None else None),
    ]
    weight: Annotated[
        Tensor | None, Operand("seen units units", needed=lambda p: bool(p.cell.recurrent_gates))
    ]
    h0: Annotated[Tensor, Operand("batch units")]
    c0: Annotated[Tensor, Operand("batch units")]
    static: Annotated[Tensor | None, Operand("2 units", needed=_is_static, on_request=True)]
    norm: Annotated[Tensor | None, Operand("2 units")]
    hold: Annotated[Tensor | None, Operand("2 time batch units", differentiable=False)]
    lengths: Annotated[Tensor | None, LENGTHS]
    cell: Cell
    reverse: bool
    keep: int


def _has_fresh(p: Any) -> bool:
    return bool(p.keep) and (p.norm is not None or p.hold is not None)


class Results(NamedTuple):
    """Results of rkm_scan: h of every step, the last h and c, and tensors for the gradient.

    The latter are the gates after their non-linearity; the carried cells; and, if layer norm or
    zoneout is between the two, the freshly computed cells.
    """

    output: Annotated[Tensor, Operand("time batch units")]
    h: Annotated[Tensor, Operand("batch units", saved=False)]
    c: Annotated[Tensor, Operand("batch units", saved=False)]
    gates: Annotated[
        Tensor,
        Operand("time batch gates units", needed=lambda p: p.keep == ALL, differentiable=False),
    ]
    cells: Annotated[
        Tensor, Operand("time batch units", needed=lambda p: bool(p.keep), differentiable=False)
    ]
    fresh: Annotated[Tensor, Operand("time batch units", needed=_has_fresh, differentiable=False)]


def sizes(p: Operands) -> dict[str, int]:
    """Check the options of a call, and return the sizes that they determine."""
    if p.cell.candidate not in ("identity", "tanh"):
        hint = "functional.rkm_scan takes any, with autograd."
        raise ArgumentError("cell.candidate", p.cell.candidate, "'identity' or 'tanh'", hint=hint)
    if p.keep not in (NOTHING, ALL, CELLS):
        raise ArgumentError("keep", p.keep, f"one of {NOTHING}, {ALL} and {CELLS}")
    return {"gates": len(p.cell.gates), "seen": len(p.cell.recurrent_gates)}


def forward(p: Operands, new: Results) -> Results:
    """Return the results, in the memory of ``new`` as far as they are written step by step."""
    cell, weight, static, norm, hold = p.cell, p.weight, p.static, p.norm, p.hold
    z = p.z if p.input_weight is None else input_products(p.z, p.input_weight, p.bias)
    (time, batch, gates, units), first_seen = z.shape, len(cell.gates) - len(cell.recurrent_gates)
    keeps_gates = p.keep == ALL
    output, _, _, kept, cells, fresh = new
    a_TBGH = kept if keeps_gates else p.h0.new_empty(1, batch, gates, units)
    seen_TBX = a_TBGH.flatten(2)[:, :, first_seen * units :]
    weight_HX = None if weight is None else weight.flatten(0, 1).t().contiguous()
    phi, psi = NONLINEARITIES[cell.candidate].value, NONLINEARITIES[cell.output].value

    h, c = p.h0, p.c0
    steps = Steps(time, p.lengths, p.reverse)
    for t in steps:
        a = a_TBGH[t if keeps_gates else 0].copy_(z[t])
        if weight_HX is not None:
            seen_TBX[t if keeps_gates else 0].addmm_(h, weight_HX)
        a[:, 1:].sigmoid_()
        if cell.candidate != "identity":
            a[:, 0] = phi(a[:, 0])
        gate = dict(zip(cell.gates, a.unbind(1), strict=True))
        fresh_c = _fresh_cell(cell, gate, static, h, c)
        if fresh.numel():
            fresh[t] = fresh_c
        if norm is not None:
            fresh_c = F.layer_norm(fresh_c, (units,), norm[0], norm[1], EPS)
        h_new = psi(fresh_c)
        if cell.output_gate:
            h_new = gate["output"] * h_new
        if hold is not None:
            fresh_c = torch.lerp(fresh_c, c, hold[0, t])
            h_new = torch.lerp(h_new, h, hold[1, t])
        if steps.is_whole(t):
            h, c = h_new, fresh_c
            output[t] = h
        else:
            real = steps.real(t)
            h, c = torch.where(real, h_new, h), torch.where(real, fresh_c, c)
            output[t] = torch.where(real, h_new, 0.0)
        if cells.numel():
            cells[t] = c
    return new._replace(h=h.clone(), c=c.clone())


def _fresh_cell(
    cell: Cell, gate: dict[str, Tensor], static: Tensor | None, h: Tensor, c: Tensor
) -> Tensor:
    candidate = gate["candidate"]
    memory = memory_of(cell, h, c)
    if cell.input_gate == "coupled":  # (1 - f) c~ + f m
        return torch.lerp(candidate, memory, gate["forget"])
    if cell.input_gate == "dynamic":
        written = gate["input"] * candidate
    else:
        assert static is not None
        written = static[0] * candidate
    if cell.forget_gate == "none":
        return written
    if cell.forget_gate == "dynamic":
        return written.addcmul_(gate["forget"], memory)
    assert static is not None
    return written.addcmul_(static[1], memory)


def memory_of(cell: Cell, h: Tensor, c: Tensor) -> Tensor:
    """Return m from the emission and the carried cell, of one step or of all."""
    if cell.memory == "output":
        return h
    return c if cell.memory == "cell" else torch.expm1(c)


# The parts of rkm_scan that are not sequential: gates, norms, and sums over all steps at once.
#
# Shapes: T time, B batch, I features, G pre-activations, R those that depend on h, H units.

JOINT = 128  # features and units up to which one product gives all gradients of weights


def normalize(fresh: Tensor) -> tuple[Tensor, Tensor]:
    """Return the cells normalized before gain and bias, and 1 / their standard deviation."""
    centered = fresh - fresh.mean(-1, keepdim=True)  # var_mean warns about an empty batch
    scale = (centered.square().mean(-1, keepdim=True) + EPS).rsqrt()
    return centered * scale, scale


def gates_of(p: Operands, kept: Results) -> Tensor:
    """Return the gates ``(T, B, G, H)``, recomputed if they were not kept."""
    if p.keep == ALL:
        return kept.gates
    if p.input_weight is None:
        gates = p.z.clone(memory_format=torch.contiguous_format)
    else:
        gates = input_products(p.z, p.input_weight, p.bias).contiguous()
    if p.weight is not None:  # in place: the gates are the largest array of the gradient
        h_before = previous(kept.output, p.h0, p.lengths, p.reverse).flatten(0, 1)
        weight = p.weight.flatten(0, 1)
        gates.flatten(2).flatten(0, 1)[:, -len(weight) :].addmm_(h_before, weight.t())
    gates[:, :, 1:].sigmoid_()
    gates[:, :, 0] = NONLINEARITIES[p.cell.candidate].value(gates[:, :, 0])
    return gates


def finish(
    p: Operands, kept: Results, dz: Tensor, candidate: Tensor, g_fresh: Tensor | None,
    g_normed: Tensor | None, needs_z: bool, multiply: Multiply = torch.mm,
    transpose: Transpose | None = transpose,
) -> dict[str, Tensor]:  # fmt: skip
    """Return the gradients that follow from those of the pre-activations and cells.

    ``dz`` is the gradient of the pre-activations ``(T, B, G, H)``; ``g_fresh`` and ``g_normed`` are
    those of the cells before their norm, for the static gates, and after it ``(T, B, H)``.
    ``candidate`` is c~ of every step ``(T, B, H)``, read with ``g_fresh`` only. Without
    ``transpose``, weights have one product each; without ``g_normed``, the norm has no gradient.

    Both directions of a layer have ``dz`` ``(T, B, 2 G, H)``, cells ``(T, B, 2, H)``, weights
    ``(2, …)`` and states ``(2, B, H)``.
    """
    results = {}
    if needs_z:
        weight = p.input_weight
        results["z"] = dz if weight is None else input_gradient(dz, weight, multiply)
    if transpose is not None and _is_joint(p, dz):
        results |= _joint_gradients(p, kept, dz, transpose)
    else:
        if p.input_weight is not None:
            results["input_weight"] = weight_gradient(dz, real(p.z, p.lengths), transpose, multiply)
        if p.bias is not None:
            results["bias"] = over_rows(dz.flatten(0, 1), multiply)
        if p.weight is not None:
            h_before = previous(kept.output, p.h0, p.lengths, p.reverse)
            if p.weight.dim() == 4:
                seen = dz.unflatten(2, (2, -1))[..., -p.weight.shape[1] :, :]
                rows = seen.flatten(0, 1).flatten(2).permute(1, 2, 0)
                with full_width_products(seen.numel() * h_before.shape[-1]):
                    product = rows @ h_before.flatten(0, 1).transpose(0, 1)
                results["weight"] = product.view(p.weight.shape)
            else:
                seen = dz[:, :, -len(p.weight) :]
                results["weight"] = weight_gradient(seen, h_before, transpose, multiply)
    if p.static is not None and g_fresh is not None:
        h_before = previous(kept.output, p.h0, p.lengths, p.reverse)
        c_before = previous(kept.cells, p.c0, p.lengths, p.reverse)
        memory = memory_of(p.cell, h_before, c_before)
        parts = [torch.zeros_like(p.static[..., 0, :])] * 2
        if p.cell.input_gate == "static":
            parts[0] = over_steps(g_fresh * candidate, p.lengths)
        if p.cell.forget_gate == "static":
            parts[1] = over_steps(g_fresh * memory, p.lengths)
        results["static"] = torch.stack(parts, dim=-2)
    if p.norm is not None and g_normed is not None:
        normed, _ = normalize(kept.fresh)
        parts = [over_steps(g_normed * normed, p.lengths), over_steps(g_normed, p.lengths)]
        results["norm"] = torch.stack(parts)
    return results


def _is_joint(p: Operands, dz: Tensor) -> bool:
    """Return True if every pre-activation depends on x and h, and most time goes to reading dz."""
    if p.input_weight is None or p.weight is None or len(p.weight) != dz.shape[2]:
        return False
    return p.z.shape[2] + dz.shape[3] <= JOINT and dz.shape[0] * dz.shape[1] > FEW_ROWS


def _joint_gradients(
    p: Operands, kept: Results, dz: Tensor, transpose: Transpose
) -> dict[str, Tensor]:
    """Return the gradients of input_weight, bias and weight as parts of that of [x 1 h]."""
    features, ones, units = p.z.shape[2], int(p.bias is not None), dz.shape[3]
    column = dz.new_ones(1).expand(*dz.shape[:2], ones)
    h_before = previous(kept.output, p.h0, p.lengths, p.reverse)
    seen = torch.cat((real(p.z, p.lengths), column, h_before), dim=2)
    with full_width_products(seen.numel() * dz.shape[2:].numel()):
        product = seen.flatten(0, 1).t() @ dz.flatten(2).flatten(0, 1)
    of_x, of_h = transpose(product[:features]), transpose(product[features + ones :])
    shape = dz.shape[2:]
    results = {"input_weight": of_x.view(*shape, features), "weight": of_h.view(*shape, units)}
    return results | {"bias": product[features].clone().view(shape)} if ones else results


# The gradient of rkm_scan over the whole sequence, in torch.
#
# With g the gradient of the cell c_t and e that of the emission h_t, for every step from the last
# to the first:
#
#     e  = dh_t + W' da_{t+1}                      g  = g_carried + e o_t psi'(c_t)
#     da_output    = e psi(c_t) o (1 - o)          da_candidate = g i_t phi'
#     da_input     = g c~_t i (1 - i)              da_forget    = g m_{t-1} f (1 - f)
#                                  (with i = 1 - f)             = g (m_{t-1} - c~_t) f (1 - f)
#     g_carried    = g f_t                         (into h_{t-1} where the memory is the output)
#
# The factors of g and e do not depend on later steps: they are computed for a block of steps at
# once, as many as stay in the cache. With layer norm, g passes through its gradient first.
#
# Shapes: T time, B batch, G pre-activations, R those that depend on h (the last ones), H units.

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
    factor_TBGH, to_cell, ts = gates, None, range(0)
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
        if t not in ts:
            ts = range(t, min(t + block, time)) if reverse else range(max(0, t - block + 1), t + 1)
            rows = slice(ts.start, ts.stop)
            factor_TBGH = _factors(cell, gates[rows], static, memory[rows], emitted[rows])
            to_cell = _slope_of_emission(cell, gates[rows], emitted[rows])
        i = t - ts.start
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

    grads = {"h0": to_h.clone(), "c0": to_c.clone()}
    return grads | finish(p, kept, dz, gate["candidate"], g_all, g_after_norm, "z" in requested)


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
