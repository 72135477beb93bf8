"""One round of the Weisfeiler-Lehman test: new labels from old ones and those of the neighbors.

Two nodes get the same new label if and only if their labels are the same and their neighbors have
the same labels equally often. Labels are numbers, compared and not hashed, so that nothing
collides. Lei et al. 2017, section 3.4; Shervashidze et al. 2011.
"""

from __future__ import annotations

import numpy as np


def refined(labels: np.ndarray, edge_index: np.ndarray, edges: np.ndarray | None) -> np.ndarray:
    """Return the new labels.

    Args:
        labels: Of the nodes ``(N,)``, from 0 on.
        edge_index: ``(2, E)``; a node sees those from which an edge leads to it.
        edges: Labels of the edges ``(E,)``, if they are seen too.
    """
    source, target = edge_index
    seen = labels[source]
    if edges is not None and len(edges):
        seen = seen * (int(edges.max()) + 1) + edges
    order = np.lexsort((seen, target))
    seen, degrees = seen[order], np.bincount(target, minlength=len(labels))
    starts = np.cumsum(degrees) - degrees
    fresh, used = labels.astype(np.int64), int(labels.max(initial=0)) + 1
    base = int(seen.max(initial=0)) + 1
    for k in range(int(degrees.max(initial=0))):  # join the k-th neighbor to what came before
        nodes = np.flatnonzero(degrees > k)
        kinds, place = np.unique(fresh[nodes] * base + seen[starts[nodes] + k], return_inverse=True)
        fresh[nodes] = place + used  # unlike all numbers given to fewer neighbors
        used += len(kinds)
    return np.unique(fresh, return_inverse=True)[1]
