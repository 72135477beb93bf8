"""One round of color refinement, the Weisfeiler-Lehman test.

Two nodes get the same new label if and only if their labels and the multisets of their neighbors'
labels are equal. Labels are integers, which are compared and not hashed, so there are no
collisions. Lei et al. 2017, section 3.4; Shervashidze et al. 2011.
"""

from __future__ import annotations

import numpy as np


def refined(labels: np.ndarray, edge_index: np.ndarray, edges: np.ndarray | None) -> np.ndarray:
    """Return the new labels.

    Args:
        labels: Non-negative labels of the nodes ``(N,)``.
        edge_index: ``(2, E)``; a node's neighbors are the sources of its incoming edges.
        edges: Labels of the edges ``(E,)``, or None to ignore them.
    """
    source, target = edge_index
    seen = labels[source]
    if edges is not None and len(edges):
        seen = seen * (int(edges.max()) + 1) + edges
    order = np.lexsort((seen, target))
    seen, degrees = seen[order], np.bincount(target, minlength=len(labels))
    starts = np.cumsum(degrees) - degrees
    new, used = labels.astype(np.int64), int(labels.max(initial=0)) + 1
    base = int(seen.max(initial=0)) + 1
    for k in range(int(degrees.max(initial=0))):  # append the k-th neighbor
        nodes = np.flatnonzero(degrees > k)
        kinds, place = np.unique(new[nodes] * base + seen[starts[nodes] + k], return_inverse=True)
        new[nodes] = place + used  # distinct from labels of nodes with fewer neighbors
        used += len(kinds)
    return np.unique(new, return_inverse=True)[1]
