"""The recurrence of the string-kernel networks, step by step.

    lam_t  = given,  or  sigma(a_t),  or  sigma(a_t + V (k * h_{t-1}))          section 4
    w_t    = 1,      or  1 - lam_t                           normalized="paper", Table 4
    c_j[t] = lam_t c_j[t-1] + w_t ( c_{j-1}[t-1] * p_j[t] )         multiply     (4), c_0 = 1
    c_j[t] = lam_t c_j[t-1] + w_t ( c_{j-1}[t-1] + p_j[t] )         add          c_0 = 0
    c_j[t] = lam_t c_j[t-1] + w_t ( c_{j-1}[t-1] + m_{j-1}[t-1] p_j[t] )    add_exact
    m_j[t] = lam_t m_j[t-1] + w_t m_{j-1}[t-1],                     m_0 = 1      the mass
    s_t    = r_n[t]  or  r_1[t] + ... + r_n[t],    r_j = c_j,  or  c_j / m_j (0 while t < j)
    h_t    = sigma(s_t),  or with highway  g_t (k * sigma(s_t)) + (1 - g_t) x_t     section 6.1

Lei et al. 2017, (3), (4), Tables 4 and 5; p_j[t] = W^(j) x_t; a_t and the argument of g_t are also
products with x_t; k is a mask of the hidden state, constant over time (variational dropout). This
is the reference implementation, in plain torch and differentiable by autograd.

Shapes: T time, B batch, n order, P = n plus the gates, S = n or 2 n with the masses, H units.
"""

from __future__ import annotations

import torch
from torch import Tensor

from representer.functional.nonlinearities import NONLINEARITIES
from representer.functional.string_chain import StringChain


def string_scan(
    z: Tensor,
    h0: Tensor,
    c0: Tensor,
    *,
    chain: StringChain,
    decay: Tensor | None = None,
    weight: Tensor | None = None,
    carry: Tensor | None = None,
    mask: Tensor | None = None,
    lengths: Tensor | None = None,
    reverse: bool = False,
) -> tuple[Tensor, Tensor, Tensor]:
    """Run the chain over a sequence.

    Args:
        z: Products with the input, in the order of ``chain.products`` ``(T, B, P, H)``.
        h0: Output before the first step ``(B, H)``.
        c0: States before the first step ``(B, S, H)``; zeros at the start of a sequence.
        chain: The cell.
        decay: lam ``()`` or ``(H,)``, if it is not a gate.
        weight: V, output by input ``(H, H)``, if the gate depends on h.
        carry: Input x_t of the highway ``(T, B, H)``.
        mask: k ``(B, H)``.
        lengths: True lengths ``(B,)``; beyond them the state does not change and the output is 0.
        reverse: Run from the last true step to the first.

    Returns:
        h of every step ``(T, B, H)``, the last h ``(B, H)`` and the last states ``(B, S, H)``.
    """
    outputs: list[Tensor] = [h0] * len(z)
    h, c = h0, c0
    for t in reversed(range(len(z))) if reverse else range(len(z)):
        c_new = _advance(chain, z[t], _decay(chain, z[t], h, decay, weight, mask), c)
        h_new = NONLINEARITIES[chain.activation].value(_read(chain, c_new))
        if chain.highway:
            assert carry is not None
            gate = torch.sigmoid(z[t, :, -1])
            masked = h_new if mask is None else mask * h_new
            h_new = gate * masked + (1 - gate) * carry[t]
        if lengths is None:
            h, c, outputs[t] = h_new, c_new, h_new
        else:
            is_real = (t < lengths)[:, None]
            h, c = torch.where(is_real, h_new, h), torch.where(is_real[:, None], c_new, c)
            outputs[t] = torch.where(is_real, h_new, torch.zeros_like(h))
    return torch.stack(outputs), h, c


def string_states(chain: StringChain, c: Tensor) -> Tensor:
    """Return the kernel values r_1..r_n ``(…, n, H)`` of states ``(…, S, H)``."""
    states = c[..., : chain.order, :]
    if chain.normalized != "exact":
        return states
    mass = c[..., chain.order :, :]
    return torch.where(mass == 0, 0.0, states / torch.where(mass == 0, 1.0, mass))


def _decay(
    chain: StringChain,
    z_t: Tensor,
    h: Tensor,
    decay: Tensor | None,
    weight: Tensor | None,
    mask: Tensor | None,
) -> Tensor:
    """Return lam_t, broadcastable to ``(B, 1, H)``."""
    if not chain.is_gated:
        assert decay is not None
        return decay
    a = z_t[:, chain.order]
    if weight is not None:
        a = a + (h if mask is None else mask * h) @ weight.T
    return torch.sigmoid(a)[:, None]


def _advance(chain: StringChain, z_t: Tensor, lam: Tensor, c: Tensor) -> Tensor:
    """Return the states of step t from those of step t - 1, ``(B, S, H)``."""
    n, p = chain.order, z_t[:, : chain.order]
    w = 1 - lam if chain.normalized == "paper" else torch.ones_like(lam)
    one = torch.ones_like(c[:, :1])
    shorter = torch.cat((one if chain.combine == "multiply" else 0 * one, c[:, : n - 1]), dim=1)
    if chain.combine == "multiply":
        joined = shorter * p
    elif chain.combine == "add":
        joined = shorter + p
    else:
        joined = shorter + torch.cat((one, c[:, n : 2 * n - 1]), dim=1) * p
    c_new = lam * c[:, :n] + w * joined
    if not chain.has_mass:
        return c_new
    lighter = torch.cat((one, c[:, n : 2 * n - 1]), dim=1)
    return torch.cat((c_new, lam * c[:, n:] + w * lighter), dim=1)


def _read(chain: StringChain, c: Tensor) -> Tensor:
    states = string_states(chain, c)
    return states[:, -1] if chain.readout == "last" else states.sum(1)
