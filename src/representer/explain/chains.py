"""The chains of a tree, and their contributions to the outputs of a tree-kernel network."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from representer.functional.trees import tree_levels

if TYPE_CHECKING:
    from representer.nn import TreeKernelNN

Chain = tuple[int, ...]
Terms = tuple[list[Chain], Tensor]  # chains, and their contributions to each unit (M, H)


@torch.no_grad()
def chain_terms(
    net: TreeKernelNN, data: Any, units: slice = slice(None), k: int | None = None
) -> Terms:
    r"""Return the chains of a tree and the contribution of each to the units before an activation.

    .. math::
        h_T = \sum_{v_1 < \dots < v_n} \prod_{j=1}^n \langle w_j, x_{v_j} \rangle
              \prod_{j=2}^n a_j \prod_{e} \lambda_e

    where the last product is over the edges to the nodes on the way to the root that the chain
    skips, :math:`a_j` is 1 unless the network compares positions, and a gate is treated as a
    constant: its value for this tree.

    Args:
        net: The network.
        data: Trees with ``x`` and ``edge_index``.
        units: The units.
        k: Only the k largest terms of a single unit.
    """
    x, edges = data.x, data.edge_index
    lam = net.edge_decays(x, edges)[:, units]
    factors = net.edge_factors(edges, len(x))
    products = torch.einsum("vd,hjd->vjh", x, net.references()[units])
    below: dict[int, list[Terms]] = {}
    roots: list[int] = []
    into: list[list[tuple[int, int]]] = [[] for _ in x]
    for e, (u, v) in enumerate(edges.T.tolist()):
        into[v].append((u, e))
    for level in tree_levels(edges, len(x)):
        roots = level.nodes.tolist()  # those of the last level
        for v in roots:
            rows = []
            for j, own in enumerate(products[v]):
                chains, values = (
                    ([(v,)], [own[None]]) if j == 0 else ([], [own.new_zeros(0, len(own))])
                )
                for u, e in into[v]:
                    kept, terms = below[u][j]
                    chains, values = chains + kept, [*values, lam[e] * terms]
                    if j:
                        shorter, terms = below[u][j - 1]
                        step = own if factors is None else own * factors[e, j - 1, units]
                        chains, values = (
                            chains + [(*c, v) for c in shorter],
                            [*values, step * terms],
                        )
                rows.append(_largest(chains, torch.cat(values), k))
            for u, _ in into[v]:
                del below[u]
            below[v] = rows
    every = [below[v][-1] for v in roots]
    none = products.new_zeros(0, lam.shape[1])
    chains = [chain for own, _ in every for chain in own]
    return _largest(chains, torch.cat([none, *(values for _, values in every)]), k)


def _largest(chains: list[Chain], values: Tensor, k: int | None) -> Terms:
    """Return the k largest terms: all of a node are extended by the same factors."""
    if k is None:
        return chains, values
    best = values[:, 0].abs().topk(min(k, len(chains))).indices
    return [chains[i] for i in best.tolist()], values[best]
