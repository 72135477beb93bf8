"""string_scan in torch: a loop over the sequential part alone.

The products with the input, and the gates that do not depend on h, are computed for all steps at
once. The gradient is that of the whole sequence, written by hand (no autograd graph per step).

Shapes: T time, B batch, n order, P = n plus the gates, S = n or 2 n with the masses, H units.
"""

from __future__ import annotations

from collections.abc import Container, Mapping
from typing import Annotated, Any, NamedTuple

import torch
from torch import Tensor

from representer.errors import ArgumentError, ShapeError
from representer.functional.activations import NONLINEARITIES
from representer.functional.strings import StringChain, string_states
from representer.ops.common import (
    Multiply,
    Steps,
    Transpose,
    input_gradient,
    input_products,
    over_rows,
    previous,
    real,
    transpose,
    weight_gradient,
)
from representer.ops.table import LENGTHS, Operand


def _has_filters(p: Any) -> bool:
    return p.input_weight is not None


def _needs_carry(p: Any) -> bool | None:
    if not p.chain.highway:
        return False
    return None if _has_filters(p) else True  # x is carried by default


def _keeps(p: Any) -> bool:
    return p.keep


def _restored(p: Any, kept: Mapping[str, Tensor]) -> Tensor:
    """Return the products, from those with gates after their sigmoid."""
    n = p.chain.order
    tokens, gates = kept["products"].split([n, kept["products"].shape[2] - n], dim=2)
    z = torch.cat((tokens, gates.logit()), dim=2)
    if p.weight is not None:
        fed = previous(kept["output"], p.h0, p.lengths, p.reverse)
        z[:, :, n] -= (fed if p.mask is None else p.mask * fed) @ p.weight.t()
    return z


class Operands(NamedTuple):
    """Operands of string_scan."""

    x: Annotated[
        Tensor,
        Operand(
            "time batch products units",
            instead=("time batch features", _has_filters),
            saved=_has_filters,
            restored=_restored,
            on_request=True,
        ),
    ]
    input_weight: Annotated[Tensor | None, Operand("products units features")]
    bias: Annotated[
        Tensor | None, Operand("biased units", needed=lambda p: None if _has_filters(p) else False)
    ]
    decay: Annotated[Tensor | None, Operand("units |", needed=lambda p: not p.chain.is_gated)]
    weight: Annotated[
        Tensor | None, Operand("units units", needed=lambda p: p.chain.is_state_gated)
    ]
    h0: Annotated[Tensor, Operand("batch units")]
    c0: Annotated[Tensor, Operand("batch states units")]
    carry: Annotated[Tensor | None, Operand("time batch units", needed=_needs_carry)]
    mask: Annotated[Tensor | None, Operand("batch units", differentiable=False)]
    lengths: Annotated[Tensor | None, LENGTHS]
    chain: StringChain
    reverse: bool
    keep: bool

    @property
    def carried(self) -> Tensor | None:
        """The input that the highway carries, or None."""
        return self.x if self.carry is None and self.chain.highway else self.carry


class Results(NamedTuple):
    """Results of string_scan: h of every step, the last h and states, and tensors for the gradient.

    The latter are the products with the input, gates after their sigmoid, and the states.
    """

    output: Annotated[Tensor, Operand("time batch units")]
    h: Annotated[Tensor, Operand("batch units", saved=False)]
    c: Annotated[Tensor, Operand("batch states units", saved=False)]
    products: Annotated[
        Tensor, Operand("time batch products units", needed=_keeps, differentiable=False)
    ]
    states: Annotated[
        Tensor, Operand("time batch states units", needed=_keeps, differentiable=False)
    ]


def sizes(p: Operands) -> dict[str, int]:
    """Return the sizes that the chain determines."""
    return {"products": len(p.chain.products), "states": p.chain.states}


def check(p: Operands, sizes: dict[str, int]) -> None:
    """Check the readout and the number of biases, and that the highway can carry the input."""
    if p.chain.readout == "weighted":
        hint = "Scale the references: c_j becomes its term of a plain sum."
        raise ArgumentError("readout", "weighted", "'last' or 'sum' for the operator", hint=hint)
    if p.bias is not None and not 1 <= sizes["biased"] <= sizes["products"]:
        wanted = f"(1 to {sizes['products']}, {sizes['units']})"
        raise ShapeError("bias", tuple(p.bias.shape), wanted)
    if p.chain.highway and p.carry is None and sizes["features"] != sizes["units"]:
        wanted = f"(time, batch, {sizes['units']}), as the highway carries it"
        raise ShapeError("x", tuple(p.x.shape), wanted)


def forward(p: Operands, new: Results) -> Results:
    """Return the results, in the memory of ``new`` as far as they are written step by step."""
    chain, n = p.chain, p.chain.order
    z_TBPH = _products(p)
    if chain.highway:
        z_TBPH[:, :, -1].sigmoid_()
    if chain.is_gated and not chain.is_state_gated:
        z_TBPH[:, :, n].sigmoid_()
    carried, weight_HH = p.carried, None if p.weight is None else p.weight.t()
    sigma = NONLINEARITIES[chain.activation].value
    output, *_, states = new

    h, c = p.h0, p.c0
    steps = Steps(len(output), p.lengths, p.reverse)
    for t in steps:
        z = z_TBPH[t]
        if weight_HH is not None:
            fed = h if p.mask is None else p.mask * h
            z[:, n] = torch.sigmoid(torch.addmm(z[:, n], fed, weight_HH))
        fresh_c = _advance(chain, z[:, :n], _decay(p, z), c)
        read = string_states(chain, fresh_c)
        h_new = sigma(read[:, -1] if chain.readout == "last" else read.sum(1))
        if carried is not None:
            kept_h = h_new if p.mask is None else p.mask * h_new
            h_new = torch.lerp(carried[t], kept_h, z[:, -1])
        if steps.is_whole(t):
            h, c = h_new, fresh_c
            output[t] = h
        else:
            real = steps.real(t)
            h, c = torch.where(real, h_new, h), torch.where(real[:, None], fresh_c, c)
            output[t] = torch.where(real, h_new, 0.0)
        if p.keep:
            states[t] = c
    products = z_TBPH if p.keep else new.products
    return new._replace(h=h.clone(), c=c.clone(), products=products)


def _products(p: Operands) -> Tensor:
    """Return z ``(T, B, P, H)``, in memory that nothing else reads."""
    if p.input_weight is None:
        return p.x.clone(memory_format=torch.contiguous_format)
    z = input_products(p.x, p.input_weight, None)
    if p.bias is not None:
        z[:, :, -len(p.bias) :] += p.bias
    return z


def _decay(p: Operands, z: Tensor) -> Tensor:
    """Return lam_t, broadcastable to ``(B, 1, H)``."""
    return z[:, p.chain.order, None] if p.decay is None else p.decay


def _advance(chain: StringChain, tokens: Tensor, lam: Tensor, c: Tensor) -> Tensor:
    """Return the states of step t from those of step t - 1, ``(B, S, H)``."""
    n, fresh = chain.order, lam * c
    w = 1 - lam if chain.normalized == "paper" else None
    mass = c[:, n:]
    if chain.combine == "multiply":
        joined = tokens.clone()
        joined[:, 1:] *= c[:, : n - 1]
    else:
        joined = tokens.clone()
        if chain.combine == "add_exact":
            joined[:, 1:] *= mass[:, : n - 1]
        joined[:, 1:] += c[:, : n - 1]
    if chain.has_mass:
        ones = torch.ones_like(mass[:, :1])
        joined = torch.cat((joined, ones, mass[:, : n - 1]), dim=1)
    return fresh + (joined if w is None else w * joined)


# The gradient of string_scan over the whole sequence, in torch.
#
# With e the gradient of the emission h_t, d that of the readout s_t, y = sigma(s_t), and g_j, q_j
# those of the state c_j and of the mass m_j after step t, for every step from the last to the
# first:
#
#     e      = dh_t + k * (V' da_{t+1})
#     d      = e sigma'(s_t),  or with highway  e gate k sigma'(s_t)
#     da_h   = e (k y - x_t) gate (1 - gate),        dx_t = e (1 - gate)              highway
#     g_j   += d,              or  d / m_j,          q_j -= d c_j / m_j^2             exact
#     dp_j   = w g_j * (c_{j-1},  1,  m_{j-1})                multiply, add, add_exact
#     dlam   = sum_j g_j (c_j + w' joined_j) + q_j (m_j + w' m_{j-1}),   w' = -1 or 0
#     g_j    = lam g_j + w g_{j+1} * (p_{j+1},  1,  1)               into step t - 1
#     q_j    = lam q_j + w q_{j+1}  [ + w g_{j+1} p_{j+1} ]                 add_exact
#     da     = dlam lam (1 - lam)                                    where it is a gate
#
# where on the right c and m are those before the step. What does not depend on later steps is
# computed for all steps at once.
#
# Shapes: T time, B batch, n order, P = n plus the gates, S = n or 2 n with the masses, H units.


def backward(
    p: Operands, kept: Results, grad: Results, requested: Container[str]
) -> dict[str, Tensor]:
    """Return the gradients of the operands, by name."""
    chain, n, z, states = p.chain, p.chain.order, kept.products, kept.states
    carried, mask = p.carried, p.mask
    to_read, of_gate = _slopes(p, kept)
    gate = z[:, :, -1] if chain.highway else None
    before = previous(states.flatten(2), p.c0.flatten(1), p.lengths, p.reverse)
    c_before = before.unflatten(2, p.c0.shape[1:])

    dz = torch.empty_like(z)
    d_carry = torch.empty_like(kept.output) if carried is not None else None
    d_decay = None if p.decay is None else torch.zeros_like(p.h0)
    to_h, to_c = grad.h, grad.c  # the gradients of h_t and the states from later steps
    steps = Steps(len(z), p.lengths, p.reverse)
    for t in steps.backwards():
        e = grad.output[t] + to_h
        if gate is not None and of_gate is not None and d_carry is not None:
            d_carry[t] = _where(steps, t, e * (1 - gate[t]))
            dz[t, :, -1] = e * of_gate[t]
        g = to_c + e[:, None] * to_read[t]
        lam = z[t, :, n, None] if p.decay is None else p.decay
        fresh_c, d_tokens, d_lam = _through_step(chain, z[t, :, :n], lam, c_before[t], g)
        dz[t, :, :n] = d_tokens
        if p.decay is None:
            gated = z[t, :, n]
            dz[t, :, n] = d_lam * gated * (1 - gated)
        elif d_decay is not None:
            d_decay += _where(steps, t, d_lam)
        if not steps.is_whole(t):
            dz[t] = torch.where(steps.real(t)[:, None], dz[t], 0.0)
        h_new = torch.zeros_like(e)
        if p.weight is not None:
            h_new = dz[t, :, n].mm(p.weight)
            h_new = h_new if mask is None else mask * h_new
        if steps.is_whole(t):
            to_h, to_c = h_new, fresh_c
        else:
            is_real = steps.real(t)
            to_h = torch.where(is_real, h_new, to_h)
            to_c = torch.where(is_real[:, None], fresh_c, to_c)
    results = {"h0": to_h.clone(), "c0": to_c.clone()}
    return results | finish(p, kept, dz, d_carry, d_decay, "x" in requested)


def _where(steps: Steps, t: int, x: Tensor) -> Tensor:
    return x if steps.is_whole(t) else torch.where(steps.real(t), x, 0.0)


def _slopes(p: Operands, kept: Results) -> tuple[Tensor, Tensor | None]:
    """Return the factors of e in g and q ``(T, B, S, H)``, and in da_h ``(T, B, H)``."""
    chain, n = p.chain, p.chain.order
    sigma = NONLINEARITIES[chain.activation]
    read = string_states(chain, kept.states)
    s = read[:, :, -1] if chain.readout == "last" else read.sum(2)
    y = sigma.value(s)
    slope, of_gate = sigma.derivative(s, y), None
    if chain.highway:
        gate, carried = kept.products[:, :, -1], p.carried
        assert carried is not None
        seen = y if p.mask is None else p.mask * y
        of_gate = (seen - carried) * gate * (1 - gate)
        slope = slope * gate if p.mask is None else slope * gate * p.mask
    to_read = slope[:, :, None].expand(*slope.shape[:2], n, slope.shape[2])
    if chain.normalized == "exact":
        mass = kept.states[:, :, n:]
        share = torch.where(mass == 0, 0.0, 1 / torch.where(mass == 0, 1.0, mass))
        to_read = torch.cat((to_read * share, -to_read * share * read), dim=2)
    elif chain.has_mass:
        to_read = torch.cat((to_read, torch.zeros_like(to_read)), dim=2)
    if chain.readout == "last":
        is_last = torch.arange(to_read.shape[2], device=s.device) % n == n - 1
        to_read = torch.where(is_last[:, None], to_read, 0.0)
    return to_read, of_gate


def _through_step(
    chain: StringChain, tokens: Tensor, lam: Tensor, c: Tensor, g: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of c, of the tokens p_j, and of lam ``(B, H)`` through one step.

    ``c`` are states and masses before the step ``(B, S, H)``, ``g`` is the gradient of those after.
    """
    n = chain.order
    w = 1 - lam if chain.normalized == "paper" else torch.ones_like(lam)
    of_c, shorter, ones = g[:, :n], c[:, : n - 1], torch.ones_like(c[:, :1])
    shorter_mass = c[:, n : 2 * n - 1]
    before, d_lam = lam * g, (g * c).sum(1)
    d_joined = w * of_c
    if chain.combine == "multiply":
        factor = torch.cat((ones, shorter), dim=1)
        joined = factor * tokens
        before[:, : n - 1] += d_joined[:, 1:] * tokens[:, 1:]
    elif chain.combine == "add":
        factor = torch.ones_like(tokens)
        joined = tokens + torch.cat((0 * ones, shorter), dim=1)
        before[:, : n - 1] += d_joined[:, 1:]
    else:
        factor = torch.cat((ones, shorter_mass), dim=1)
        joined = factor * tokens + torch.cat((0 * ones, shorter), dim=1)
        before[:, : n - 1] += d_joined[:, 1:]
        before[:, n : 2 * n - 1] += d_joined[:, 1:] * tokens[:, 1:]
    if chain.has_mass:
        before[:, n : 2 * n - 1] += w * g[:, n + 1 :]
        joined = torch.cat((joined, ones, shorter_mass), dim=1)
    if chain.normalized == "paper":
        d_lam = d_lam - (g * joined).sum(1)
    return before, d_joined * factor, d_lam


def finish(
    p: Operands, kept: Results, dz: Tensor, d_carry: Tensor | None, d_decay: Tensor | None,
    needs_x: bool, multiply: Multiply = torch.mm, transpose: Transpose | None = transpose,
) -> dict[str, Tensor]:  # fmt: skip
    """Return the gradients that follow from those of the products, dz ``(T, B, P, H)``.

    ``d_carry`` is the gradient of the input that the highway carries ``(T, B, H)``, ``d_decay``
    that of the given decay in each sequence ``(B, H)``.
    """
    results = {}
    if p.input_weight is not None:
        results["input_weight"] = weight_gradient(dz, real(p.x, p.lengths), transpose, multiply)
        if p.bias is not None:
            results["bias"] = over_rows(dz[:, :, -len(p.bias) :].flatten(0, 1), multiply)
    if needs_x:
        weight = p.input_weight
        results["x"] = dz if weight is None else input_gradient(dz, weight, multiply)
        if p.carry is None and d_carry is not None:
            results["x"] += d_carry
    if p.weight is not None:
        h_before = previous(kept.output, p.h0, p.lengths, p.reverse)
        fed = h_before if p.mask is None else p.mask * h_before
        order = p.chain.order
        d_first = dz[:, :, order : order + 1]
        results["weight"] = weight_gradient(d_first, fed, transpose, multiply)[0]
    if p.decay is not None and d_decay is not None:
        of_units = over_rows(d_decay, multiply)
        results["decay"] = of_units.sum_to_size(p.decay.shape)
    return results if p.carry is None or d_carry is None else results | {"carry": d_carry}
