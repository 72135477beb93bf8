"""walk_aggregate in torch, with its gradient written out.

    d t_e = dy[v] * g_e * (F a_e),  dx[u] = sum_e tau' d t_e,  dB = sum_e (tau' d t_e) a_e^T
    d f_e = dy[v] * g_e * t_e,      dF = sum_e d f_e a_e^T
    d z_e = d f_e * (F a_e) * (1 - sigma_e),  dp[u] = sum_e d z_e,  dq[v] = sum_e d z_e,
                                    dG = sum_e d z_e a_e^T
    d a_e = B^T (tau' d t_e) + F^T d f_e + G^T d z_e

Nothing of the size of the edges is kept for the gradient.
"""

from __future__ import annotations

from collections.abc import Container

import torch
from torch import Tensor

from representer.functional.nonlinearities import NONLINEARITIES
from representer.functional.walk_aggregate import walk_aggregate
from representer.ops.walk_aggregate.arguments import Operands, Results


def forward(p: Operands, new: Results) -> Tensor:
    """Return the sums over the neighbors ``(N, H)``."""
    return evaluate(p)


def evaluate(p: Operands) -> Tensor:
    """Return the sums over the neighbors ``(N, H)``."""
    return walk_aggregate(**p._asdict())


def backward(
    p: Operands, kept: Results, grad: Results, requested: Container[str]
) -> dict[str, Tensor]:
    """Return the gradients of the operands, by name."""
    return gradients(p, grad.sums, requested)


def gradients(p: Operands, dy: Tensor, requested: Container[str]) -> dict[str, Tensor]:
    """Return the gradients of the operands, by name, from that of the sums."""
    source, target = p.edge_index
    tau, a = NONLINEARITIES[p.activation], p.edge_attr

    def of(weight: Tensor | None) -> Tensor:
        assert a is not None
        return torch.zeros((), dtype=a.dtype) if weight is None else a @ weight.T

    def summed(messages: Tensor, ends: Tensor) -> Tensor:
        return torch.zeros_like(dy).index_add(0, ends, messages)

    upstream = dy[target]
    z = p.nodes[source] if p.shift is None else p.nodes[source] + of(p.shift)
    t = tau.value(z)
    f = None if p.factor is None else of(p.factor)
    dt = upstream if f is None else upstream * f
    messages: dict[str, Tensor] = {}  # gradients of the products with edge features
    found: dict[str, Tensor] = {}
    if p.source_gate is not None and p.target_gate is not None:
        gate = p.source_gate[source] + p.target_gate[target]
        gate = torch.sigmoid(gate if p.edge_gate is None else gate + of(p.edge_gate))
        messages["edge_gate"] = d_gate = dt * t * p.scale * gate * (1 - gate)
        upstream, dt = upstream * p.scale * gate, dt * p.scale * gate
        found["source_gate"] = summed(d_gate, source)
        found["target_gate"] = summed(d_gate, target)
    messages["shift"] = dz = dt * tau.derivative(z, t)
    messages["factor"] = upstream * t
    found["nodes"] = summed(dz, source)
    if a is None:
        return found
    weights = {name: x for name in ("shift", "factor", "edge_gate")
               if (x := getattr(p, name)) is not None}  # fmt: skip
    if "edge_attr" in requested:
        parts = (messages[name] @ weight for name, weight in weights.items())
        found["edge_attr"] = sum(parts, torch.zeros_like(a))
    return found | {name: messages[name].T @ a for name in weights}
