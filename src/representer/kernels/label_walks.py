"""Counts of label sequences, the explicit feature map of the random-walk kernel on labels.

    phi_n(G)[l_1 .. l_n] = number of walks of G whose nodes (and edges) have these labels

The counts are sparse, so the cost depends on the number of walks and not of labels. Lei et al.
2017, (5).
"""

from __future__ import annotations

from typing import cast

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from representer.kernels.graph_batch import Batch

_ENTRIES = 2**24  # of a dense block of counts on a device


def walk_counts(batch: Batch, order: int) -> sparse.csr_array:
    """Count the label sequences of the walks of every graph.

    Args:
        batch: Graphs with labels. Graphs to be compared must be in one batch, since label sequences
            are numbered by occurrence.
        order: n, nodes of a walk.

    Returns:
        ``(G, number of different walks)``, float64.
    """
    labels = batch.nodes.cpu().numpy()
    nodes, codes = np.arange(len(labels)), _renumber(labels)
    counts = np.ones(len(labels))
    source, target = batch.edge_index.cpu().numpy()
    by_source = np.argsort(source, kind="stable")
    starts = np.searchsorted(source[by_source], np.arange(len(labels) + 1))
    target = target[by_source]
    steps = labels[target]
    if batch.edges is not None and len(target):
        of_edges = batch.edges.cpu().numpy()[by_source]
        steps = steps + (int(labels.max()) + 1) * of_edges
    base = int(steps.max()) + 1 if len(steps) else 1
    for _ in range(order - 1):
        out = starts[nodes + 1] - starts[nodes]
        walk = np.repeat(np.arange(len(nodes)), out)
        taken = np.arange(len(walk)) - np.repeat(np.cumsum(out) - out, out) + starts[nodes[walk]]
        codes = _renumber(codes[walk] * base + steps[taken])
        nodes, counts = target[taken], counts[walk]
        # walks with the same labels and the same last node are merged
        size = int(codes.max()) + 1 if len(codes) else 1
        kept, place = np.unique(nodes * size + codes, return_inverse=True)
        nodes, codes = np.divmod(kept, size)
        counts = np.bincount(place, counts, len(kept))
    of_graph = np.repeat(np.arange(len(batch.sizes)), batch.sizes)[nodes]
    shape = (len(batch.sizes), int(codes.max()) + 1 if len(codes) else 1)
    return sparse.csr_array(sparse.coo_array((counts, (of_graph, codes)), shape))


def count_products(left: sparse.csr_array, right: sparse.csr_array, device: torch.device) -> Tensor:
    """Return the inner products of the counts of graphs ``(G, G')``, computed on a device.

    The CPU multiplies sparse arrays. Another device multiplies dense blocks of columns; both are
    exact, since counts are integers.
    """
    if device.type == "cpu":
        return torch.from_numpy((left @ right.T).toarray())
    (graphs, features), (others, _) = (cast(tuple[int, int], x.shape) for x in (left, right))
    total = torch.zeros(graphs, others, dtype=torch.float64, device=device)
    width = max(1, _ENTRIES // max(1, graphs + others))
    sides = [(sparse.csc_array(left), graphs), (sparse.csc_array(right), others)]
    for start in range(0, features, width):
        a, b = (
            _dense(side[:, start : start + width].tocoo(), (rows, width), device)
            for side, rows in sides
        )
        total = total + a @ b.mT
    return total


def count_squares(counts: sparse.csr_array, device: torch.device) -> Tensor:
    """Return the inner product of the counts of each graph with themselves ``(G,)``."""
    return torch.from_numpy(np.asarray(counts.multiply(counts).sum(1)).ravel()).to(device)


def _dense(counts: sparse.coo_array, shape: tuple[int, int], device: torch.device) -> Tensor:
    rows, columns = (torch.from_numpy(one.astype(np.int64)).to(device) for one in counts.coords)
    dense = torch.zeros(shape, dtype=torch.float64, device=device)
    dense[rows, columns] = torch.from_numpy(counts.data).to(device)
    return dense


def _renumber(codes: np.ndarray) -> np.ndarray:
    return np.unique(codes, return_inverse=True)[1]
