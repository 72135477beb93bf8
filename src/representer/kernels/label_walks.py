"""Counts of label sequences, the explicit feature map of the random-walk kernel on labels.

    phi_n(G)[l_1 .. l_n] = number of walks of G whose nodes (and edges) have these labels

The counts are sparse, so the cost depends on the number of walks and not of labels. Lei et al.
2017, (5).
"""

from __future__ import annotations

import numpy as np
from scipy import sparse

from representer.kernels.graph_batch import Batch


def walk_counts(batch: Batch, order: int) -> sparse.csr_array:
    """Count the label sequences of the walks of every graph.

    Args:
        batch: Graphs with labels. Graphs to be compared must be in one batch, since label sequences
            are numbered by occurrence.
        order: n, nodes of a walk.

    Returns:
        ``(G, number of different walks)``, float64.
    """
    labels = batch.nodes.numpy()
    nodes, codes = np.arange(len(labels)), _renumber(labels)
    counts = np.ones(len(labels))
    source, target = batch.edge_index.numpy()
    by_source = np.argsort(source, kind="stable")
    starts = np.searchsorted(source[by_source], np.arange(len(labels) + 1))
    target = target[by_source]
    steps = labels[target]
    if batch.edges is not None and len(target):
        of_edges = batch.edges.numpy()[by_source]
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


def _renumber(codes: np.ndarray) -> np.ndarray:
    return np.unique(codes, return_inverse=True)[1]
