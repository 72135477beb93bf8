"""The Weisfeiler-Lehman subtree kernel through features that are learned once: counts of colors."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray
from scipy import sparse
from sklearn.utils.validation import check_is_fitted

from representer.errors import ArgumentError
from representer.kernels.graphs import Graph, read_graphs
from representer.kernels.kernel import Kernel, Objects
from representer.kernels.ngram_kernel import dense, unit_rows

UNKNOWN = -1
Colors = dict[str, int]


class Subtree(NamedTuple):
    """The part of a graph's features that one node makes up at one level.

    Attributes:
        column: Its color's feature.
        level: Number of relabelings.
        node: The root of the subtree.
        value: Its part of the feature's value.
    """

    column: int
    level: int
    node: int
    value: float


class SubtreeKernel(Kernel):
    r"""``WeisfeilerLehmanKernel(depth=…).cosine()``, with features for graphs that come later.

    A color stands for a node's label and, level by level, the colors of its neighbors: the subtree
    of the paths that lead to it. `fit` numbers the colors of the training graphs; a color that it
    has not seen has no feature.

    Args:
        depth: L, number of relabelings.
        edges: Relabel with the labels of the edges, too.
        damped: Count log(1 + c) instead of c.

    References:
        Lei et al., Deriving Neural Architectures from Sequence and Graph Kernels, ICML 2017, (10).
        Shervashidze et al., Weisfeiler-Lehman Graph Kernels, JMLR 2011.
    """

    def __init__(self, depth: int = 3, edges: bool = False, damped: bool = False) -> None:
        self.depth = depth
        self.edges = edges
        self.damped = damped
        self._check()

    @property
    def objects(self) -> Objects:
        """Return the kind of objects that the kernel compares."""
        return "graphs"

    def __call__(self, X: Iterable[Any], Y: Iterable[Any] | None = None) -> NDArray[np.float64]:
        """Return the Gram matrix of X with Y, or of X with itself."""
        check_is_fitted(self)
        left = self.transform(X)
        return dense(left @ (left if Y is None else self.transform(Y)).T)

    def diag(self, X: Iterable[Any]) -> NDArray[np.float64]:
        """Return k(x, x) of each graph: 1 if one of its colors is known."""
        check_is_fitted(self)
        return np.asarray(self.transform(X).power(2).sum(axis=1)).ravel()

    def fit(
        self, X: Iterable[Any], labels: NDArray[np.int64] | None = None, classes: int = 0
    ) -> Self:
        """Number the colors of some graphs; their classes have no influence."""
        self._check()
        self.colors_: list[Colors] = [{} for _ in range(self.depth + 1)]
        for graph in read_graphs(X).items:
            for _ in self._levels(graph, is_learning=True):
                pass
        return self

    @property
    def width(self) -> int:
        """Number of features."""
        return sum(map(len, self.colors_))

    def transform(self, X: Iterable[Any]) -> sparse.csr_array:
        """Return the features ``(N, F)``, whose inner products are the kernel."""
        graphs = read_graphs(X).items
        columns = [self._columns(graph) for graph in graphs]
        rows = np.repeat(np.arange(len(graphs)), [len(own) for own in columns])
        joined = np.concatenate(columns) if columns else np.zeros(0, np.int64)
        entries = np.ones(len(joined)), (rows, joined)
        counts = sparse.coo_array(entries, shape=(len(graphs), self.width)).tocsr()
        if self.damped:
            counts.data = np.log1p(counts.data)
        return unit_rows(sparse.csr_array(counts))

    def occurrences(self, X: Any) -> list[Subtree]:
        """Return each node's part of the features of a graph, level by level."""
        values = self.transform([X])
        own = dict(zip(values.indices.tolist(), values.data.tolist(), strict=True))
        (graph,) = read_graphs([X]).items
        counts = np.bincount(self._columns(graph), minlength=self.width)
        start, result = 0, []
        for level, colors in enumerate(self._levels(graph)):
            for node, color in enumerate(colors):
                if color != UNKNOWN:
                    column = start + color
                    result.append(Subtree(column, level, node, own[column] / int(counts[column])))
            start += len(self.colors_[level])
        return result

    def fitted(self) -> tuple[dict[str, list[str]], dict[str, NDArray[Any]]]:
        """Return what `fit` found as plain values and arrays, for `restore`."""
        return {f"level {i}": list(own) for i, own in enumerate(self.colors_)}, {}

    def restore(self, tokens: dict[str, Sequence[str]], arrays: dict[str, NDArray[Any]]) -> Self:
        """Set what `fit` finds.

        Raises:
            ValueError: A color stands twice.
            KeyError: A level is missing.
        """
        self.colors_ = []
        for level in range(self.depth + 1):
            known = tokens[f"level {level}"]
            self.colors_.append({key: number for number, key in enumerate(known)})
            if len(self.colors_[-1]) != len(known):
                raise ValueError(f"colors of level {level} are repeated")
        return self

    def _columns(self, graph: Graph) -> NDArray[np.int64]:
        start, columns = 0, []
        for level, colors in enumerate(self._levels(graph)):
            columns.append(start + colors[colors != UNKNOWN])
            start += len(self.colors_[level])
        return np.concatenate(columns)

    def _levels(self, graph: Graph, *, is_learning: bool = False) -> Iterator[NDArray[np.int64]]:
        """Yield the colors of the nodes at every level, `UNKNOWN` if they are new."""
        keys = [repr(label) for label in graph.nodes]
        sources, targets = graph.edge_index.tolist()
        kinds = [repr(label) for label in graph.edges] if self.edges and graph.edges else None
        for level in range(self.depth + 1):
            known = self.colors_[level]
            if is_learning:
                for key in keys:
                    known.setdefault(key, len(known))
            colors = [known.get(key, UNKNOWN) for key in keys]
            yield np.array(colors, np.int64)
            neighbors: list[list[str]] = [[] for _ in keys]
            for edge, (source, target) in enumerate(zip(sources, targets, strict=True)):
                kind = f":{kinds[edge]}" if kinds else ""
                neighbors[target].append(f"{colors[source]}{kind}")
            # the number of an unknown color stands for many, so what contains it is unknown, too
            keys = [
                ""
                if color == UNKNOWN or any(n.startswith("-1") for n in around)
                else f"{color}|{','.join(sorted(around))}"
                for color, around in zip(colors, neighbors, strict=True)
            ]

    def _check(self) -> None:
        if type(self.depth) is not int or self.depth < 0:
            raise ArgumentError("depth", self.depth, "0 or more")
