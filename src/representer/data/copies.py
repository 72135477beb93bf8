"""Equal objects, so that no copy of a training object is in another part of a split."""

from __future__ import annotations

from hashlib import blake2b
from typing import Any

import numpy as np
from numpy.typing import NDArray

TRAINED = "trained_on"  # the key of digests in the file SPLITS of a run
SPLITS = "splits.json"
FEW_DIFFER = "so few objects differ that equal ones are in several parts: figures are too good"
MOST = 2**20  # digests in a file, 16 MiB


def digest(content: bytes) -> int:
    """Return 64 bits of a hash."""
    return int.from_bytes(blake2b(content, digest_size=8).digest(), signed=True)


def as_hex(digests: NDArray[np.int64]) -> str:
    """Return different digests as text; of very many, the smallest, which are a random part."""
    return np.unique(digests)[:MOST].tobytes().hex()


def digest_of(one: Any) -> int:
    """Return the digest of a text, but for case and the width of spaces, or of an array."""
    if isinstance(one, str):
        return digest(" ".join(one.split()).casefold().encode("utf-8", "surrogatepass"))
    array = np.asarray(one)
    return digest(repr((array.shape, array.dtype)).encode() + array.tobytes())


def digest_of_graph(count: int, edge_index: NDArray[np.int64], nodes: Any, edges: Any) -> int:
    """Return the digest of a graph, the same for each order of its nodes and edges.

    A node's color is refined by the colors of its incoming edges and their sources, as in the
    Weisfeiler-Lehman test, so that graphs that no such kernel can tell apart are equal. Nodes and
    edges have a label or a row of numbers each, or None.
    """
    source, target = edge_index
    colors, of_edges = _colors(nodes, count), _colors(edges, len(source))
    for _ in range(1 + count.bit_length()):
        received = np.zeros(count, np.uint64)
        np.add.at(received, target, _mixed(colors[source] ^ of_edges))
        colors = _mixed(_mixed(colors) + received)
    return digest(np.sort(colors).tobytes())


def _mixed(numbers: NDArray[np.uint64]) -> NDArray[np.uint64]:
    """Return pseudorandom numbers for numbers: the finalizer of SplitMix64."""
    for shift, factor in ((30, 0xBF58476D1CE4E5B9), (27, 0x94D049BB133111EB)):
        numbers = (numbers ^ (numbers >> np.uint64(shift))) * np.uint64(factor)
    return numbers ^ (numbers >> np.uint64(31))


def _colors(values: Any, count: int) -> NDArray[np.uint64]:
    if values is None:
        return np.ones(count, np.uint64)
    texts = [row.tobytes() if isinstance(row, np.ndarray) else repr(row).encode() for row in values]
    numbers = {text: digest(text) for text in set(texts)}
    return np.array([numbers[text] for text in texts], np.int64).view(np.uint64)
