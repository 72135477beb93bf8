"""Rounds of relabeling with a sum over the walks of every round, for Weisfeiler-Lehman networks.

    P_l     = W h_l + c = (inner, own, p_1 .. p_n, source, target),  l = 0 .. L - 1
    c_1     = p_1,  c_j[v] = p_j[v] o sum_{e = (u, v)} g_e * c_{j-1}[u] * (F_j a_e)
    g_e     = s sigma(source[u] + target[v] + G a_e),  or 1
    h_{l+1} = sigma(own + U sum_{u -> v} sigma(inner[u] + B a_e))
    y[v]    = sum_{l >= first} c_n[v]

W stacks V, U_1, the references and the two weights of the gate, so the labels of a round are
multiplied once. Lei et al. 2017, (6), (9)-(11), section 4. N nodes, E edges, K features of an edge,
d of a label, H units.
"""

from __future__ import annotations

import torch.nn.functional as F
from torch import Tensor

from representer.functional.nonlinearities import NONLINEARITIES
from representer.functional.walk_aggregate import walk_aggregate


def walk_rounds(
    labels: Tensor,
    edge_index: Tensor,
    edge_attr: Tensor,
    weight: Tensor,
    bias: Tensor,
    neighbors: Tensor,
    shift: Tensor,
    factor: Tensor,
    edge_gate: Tensor | None = None,
    *,
    depth: int,
    first: int = 0,
    scale: float = 1.0,
    activation: str = "relu",
) -> Tensor:
    """Return the sum of c_n of every node over the rounds from ``first``.

    Args:
        labels: h_0 ``(N, d)``.
        edge_index: u and v of each edge ``(2, E)``.
        edge_attr: a ``(E, K)``.
        weight: W ``(2 d + n H, d)``, with a gate ``(2 d + (n + 2) H, d)``.
        bias: c, one entry per row of W.
        neighbors: U ``(d, d)``.
        shift: B ``(d, K)``.
        factor: F_2 … F_n ``(n - 1, H, K)``.
        edge_gate: G ``(H, K)``; None for no gate.
        depth: L.
        first: The first round in the sum.
        scale: s, the value of an open gate.
        activation: sigma of the relabeling, a name of ``NONLINEARITIES``.

    Returns:
        y ``(N, H)``.
    """
    d, H, sigma = labels.shape[1], factor.shape[1], NONLINEARITIES[activation].value
    h, y = labels, labels.new_zeros(labels.shape[0], H)
    for round_ in range(depth):
        inner, own, *p = F.linear(h, weight, bias).split(
            [d, d, *[H] * ((len(weight) - 2 * d) // max(1, H))], dim=1
        )
        gates = {}
        if edge_gate is not None:
            gates = {"source_gate": p[-2], "target_gate": p[-1], "edge_gate": edge_gate}
        if round_ >= first:
            c = p[0]
            for p_j, F_j in zip(p[1:], factor, strict=False):
                sums = walk_aggregate(
                    c, edge_index, edge_attr=edge_attr, factor=F_j, scale=scale, **gates
                )
                c = p_j * sums
            y = y + c
        if round_ < depth - 1:
            sums = walk_aggregate(
                inner, edge_index, edge_attr=edge_attr, shift=shift, activation=activation
            )
            h = sigma(own + sums @ neighbors.T)
    return y
