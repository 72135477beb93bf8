"""A reference walk as a graph."""

from __future__ import annotations

import torch
from torch import Tensor
from torch_geometric.data import Data

from representer.errors import ShapeError


def path_graph(reference: Tensor, edges: Tensor | None = None) -> Data:
    r"""Return the directed path :math:`v_1 \to \dots \to v_n` of a reference walk.

    The unit of that reference computes the random-walk kernel of a graph and this path.

    Args:
        reference: Features of its nodes ``(n, d)``, a row of ``layer.references()``.
        edges: Features of its edges ``(n - 1, K)``, a row of ``layer.edge_references()``.

    Returns:
        PyG ``Data`` with ``x``, ``edge_index`` and, with ``edges``, ``edge_attr``.

    Raises:
        ShapeError: If a shape is wrong.

    References:
        Lei et al., Deriving Neural Architectures from Sequence and Graph Kernels, ICML 2017,
        section 3.1, whose :math:`L_V` has one node too many.
    """
    if reference.dim() != 2 or not len(reference):
        raise ShapeError("reference", reference.shape, "(nodes, features) of at least one node")
    steps = torch.arange(len(reference) - 1, device=reference.device)
    path = Data(x=reference, edge_index=torch.stack((steps, steps + 1)))
    if edges is not None:
        if edges.dim() != 2 or len(edges) != len(steps):
            raise ShapeError("edges", edges.shape, f"({len(steps)}, features)")
        path.edge_attr = edges
    return path
