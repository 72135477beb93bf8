"""string_scan in torch: a loop over the sequential part alone.

The products with the input, and the gates that do not depend on h, are computed for all steps at
once. The gradient is that of the whole sequence, written by hand (no autograd graph per step).

Shapes: T time, B batch, n order, P = n plus the gates, S = n or 2 n with the masses, H units.
"""

from __future__ import annotations

import torch
from torch import Tensor

from representer.functional.nonlinearities import NONLINEARITIES
from representer.functional.string_chain import StringChain
from representer.functional.string_scan import string_states
from representer.ops.products import input_products
from representer.ops.sequence import Steps
from representer.ops.string_scan.arguments import Operands, Results


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
