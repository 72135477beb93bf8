"""Gated sums over the neighbors of every node of a graph.

    y[v] = sum_{e = (u, v)} g_e * tau(x[u] + B a_e) * (F a_e)
    g_e  = s sigma(p[u] + q[v] + G a_e),  or 1

a_e are the features of an edge, such as a bond; tau, the factor and the gate are optional. Messages
follow the edges, u -> v. With x = c_{j-1} this is the sum in L17 (6), with edge factors F and the
gate of section 4; with tau(V h_u + B a_e) it is the sum of the relabeling (10).

Lei et al. 2017, (6), (8), (10), section 4. N nodes, E edges, K features of an edge, H units.
"""

from __future__ import annotations

import torch
from torch import Tensor

from representer.functional.nonlinearities import NONLINEARITIES


def walk_aggregate(
    nodes: Tensor,
    edge_index: Tensor,
    *,
    edge_attr: Tensor | None = None,
    shift: Tensor | None = None,
    factor: Tensor | None = None,
    source_gate: Tensor | None = None,
    target_gate: Tensor | None = None,
    edge_gate: Tensor | None = None,
    scale: float = 1.0,
    activation: str = "identity",
) -> Tensor:
    """Sum the messages to each node.

    Args:
        nodes: x ``(N, H)``.
        edge_index: u and v of each edge ``(2, E)``.
        edge_attr: a ``(E, K)``.
        shift: B ``(H, K)``.
        factor: F ``(H, K)``.
        source_gate: p ``(N, H)``; None, with q, for no gate.
        target_gate: q ``(N, H)``.
        edge_gate: G ``(H, K)``.
        scale: s, the value of an open gate.
        activation: tau, a name of ``NONLINEARITIES``.

    Returns:
        y ``(N, H)``.
    """
    source, target = edge_index
    messages = walk_messages(
        nodes[source],
        edge_attr,
        shift,
        factor,
        None if source_gate is None else source_gate[source],
        None if target_gate is None else target_gate[target],
        edge_gate,
        scale,
        activation,
    )
    return torch.zeros_like(nodes).index_add(0, target, messages)


def walk_messages(
    sources: Tensor,
    edge_attr: Tensor | None,
    shift: Tensor | None,
    factor: Tensor | None,
    source_gate: Tensor | None,
    target_gate: Tensor | None,
    edge_gate: Tensor | None,
    scale: float,
    activation: str,
) -> Tensor:
    """Return the message of each edge ``(E, H)``, from x, p and q of its ends ``(E, H)``."""
    messages = sources
    if shift is not None:
        assert edge_attr is not None
        messages = messages + edge_attr @ shift.T
    messages = NONLINEARITIES[activation].value(messages)
    if factor is not None:
        assert edge_attr is not None
        messages = messages * (edge_attr @ factor.T)
    if source_gate is not None:
        assert target_gate is not None
        z = source_gate + target_gate
        if edge_gate is not None:
            assert edge_attr is not None
            z = z + edge_attr @ edge_gate.T
        messages = scale * torch.sigmoid(z) * messages
    return messages


def walk_aggregate_definition(
    nodes: Tensor,
    edge_index: Tensor,
    *,
    edge_attr: Tensor | None = None,
    shift: Tensor | None = None,
    factor: Tensor | None = None,
    source_gate: Tensor | None = None,
    target_gate: Tensor | None = None,
    edge_gate: Tensor | None = None,
    scale: float = 1.0,
    activation: str = "identity",
) -> Tensor:
    """Evaluate the sum as written. An oracle; arguments as in ``walk_aggregate``."""

    def product(weight: Tensor | None, e: int, h: int) -> Tensor:
        if weight is None:
            return nodes.new_zeros(())
        assert edge_attr is not None
        return sum(
            (w * a for w, a in zip(weight[h], edge_attr[e], strict=True)), nodes.new_zeros(())
        )

    tau = NONLINEARITIES[activation].value
    y = [[nodes.new_zeros(()) for _ in range(nodes.shape[1])] for _ in range(len(nodes))]
    for e, (u, v) in enumerate(edge_index.T.tolist()):
        for h in range(nodes.shape[1]):
            message = tau(nodes[u, h] + product(shift, e, h))
            if factor is not None:
                message = message * product(factor, e, h)
            if source_gate is not None and target_gate is not None:
                z = source_gate[u, h] + target_gate[v, h] + product(edge_gate, e, h)
                message = message * scale / (1 + torch.exp(-z))
            y[v][h] = y[v][h] + message
    rows = [torch.stack(row) if row else nodes.new_zeros(0) for row in y]
    return torch.stack(rows) if rows else torch.zeros_like(nodes)
