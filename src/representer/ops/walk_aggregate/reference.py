"""walk_aggregate in torch, with its gradient written out.

    d t_e = dy[v] * g_e * (F a_e),  dx[u] = sum_e tau' d t_e,  dB = sum_e (tau' d t_e) a_e^T
    d f_e = dy[v] * g_e * t_e,      dF = sum_e d f_e a_e^T
    d z_e = d f_e * (F a_e) * (1 - sigma_e),  dp[u] = sum_e d z_e,  dq[v] = sum_e d z_e,
                                    dG = sum_e d z_e a_e^T
    d a_e = B^T (tau' d t_e) + F^T d f_e + G^T d z_e

Nothing of the size of the edges is kept for the gradient.
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from representer.functional.nonlinearities import NONLINEARITIES
from representer.functional.walk_aggregate import walk_aggregate
from representer.ops.walk_aggregate.arguments import Backward, Forward, Gradients, check_ends


def forward(*operands: Any) -> Tensor:
    """Return the sums over the neighbors ``(N, H)``."""
    p = Forward(*operands)
    check_ends(p.edge_index, len(p.nodes))
    named = p._asdict()
    return walk_aggregate(named.pop("nodes"), named.pop("edge_index"), **named)


def add_sums(p: Forward, output: Tensor) -> None:
    """Add the sums to ``output``."""
    output.add_(forward(*p))


def add_gradients(p: Backward, into: Gradients) -> None:
    """Add the gradients; those of weights are ``(K, H)``, empty ones are not wanted."""
    for name, found in backward(*p)._asdict().items():
        to = getattr(into, name)
        if to.numel() and found.numel():
            to.add_(found.mT if name in ("shift", "factor", "edge_gate") else found)


def backward(*operands: Any) -> Gradients:
    """Return the gradients."""
    p = Backward(*operands)
    source, target = p.edge_index
    tau, a = NONLINEARITIES[p.activation], p.edge_attr

    def none() -> Tensor:
        return p.grad_output.new_empty(0)

    def of(weight: Tensor | None) -> Tensor:
        assert a is not None
        return torch.zeros((), dtype=a.dtype) if weight is None else a @ weight.T

    def summed(messages: Tensor, ends: Tensor) -> Tensor:
        return torch.zeros_like(p.grad_output).index_add(0, ends, messages)

    def of_weight(messages: Tensor, weight: Tensor | None) -> Tensor:
        return none() if weight is None or a is None else messages.T @ a

    dy = p.grad_output[target]
    z = p.nodes[source] if p.shift is None else p.nodes[source] + of(p.shift)
    t = tau.value(z)
    f = None if p.factor is None else of(p.factor)
    dt = dy if f is None else dy * f
    d_gate = None
    if p.source_gate is not None and p.target_gate is not None:
        gate = p.source_gate[source] + p.target_gate[target]
        gate = torch.sigmoid(gate if p.edge_gate is None else gate + of(p.edge_gate))
        d_gate = dt * t * p.scale * gate * (1 - gate)
        dy, dt = dy * p.scale * gate, dt * p.scale * gate
    dz = dt * tau.derivative(z, t)
    df = dy * t
    d_edges = none()
    if p.needs_edges and a is not None:
        d_edges = torch.zeros_like(a)
        for part, weight in ((dz, p.shift), (df, p.factor), (d_gate, p.edge_gate)):
            if weight is not None and part is not None:
                d_edges = d_edges + part @ weight
    return Gradients(
        summed(dz, source),
        d_edges,
        of_weight(dz, p.shift),
        of_weight(df, p.factor),
        none() if d_gate is None else summed(d_gate, source),
        none() if d_gate is None else summed(d_gate, target),
        none() if d_gate is None else of_weight(d_gate, p.edge_gate),
    )
