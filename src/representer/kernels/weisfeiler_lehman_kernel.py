"""The Weisfeiler-Lehman kernel with any base kernel and any relabeling, L17 (10), (11)."""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from scipy import sparse
from torch import Tensor, nn

from representer.checks import check_integer
from representer.errors import ArgumentError, KindError
from representer.kernels.graphs import (
    Batch,
    Graph,
    GraphList,
    Graphs,
    as_features,
    batches,
    read_graphs,
)
from representer.kernels.kernel import Kernel, OwnReference, Values
from representer.kernels.walk_kernels import (
    GraphKernel,
    RandomWalkKernel,
    count_products,
    count_squares,
    walk_counts,
)

# One round of color refinement, the Weisfeiler-Lehman test.
#
# Two nodes get the same new label if and only if their labels and the multisets of their neighbors'
# labels are equal. Labels are integers, which are compared and not hashed, so there are no
# collisions. Lei et al. 2017, section 3.4; Shervashidze et al. 2011.


def refined(labels: np.ndarray, edge_index: np.ndarray, edges: np.ndarray | None) -> np.ndarray:
    """Return the new labels.

    A node's neighbors are the sources of its incoming edges.
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
        kinds, index = np.unique(new[nodes] * base + seen[starts[nodes] + k], return_inverse=True)
        new[nodes] = index + used  # distinct from labels of nodes with fewer neighbors
        used += len(kinds)
    return np.unique(new, return_inverse=True)[1]


Sides = tuple[list[Graph], list[Graph] | None]


class WeisfeilerLehmanKernel(GraphKernel):
    r"""Sums a base kernel over relabelings of both graphs.

    .. math::
        K_{WL}(G, G') = \sum_{i=0}^{L} K(r^i(G), r^i(G')), \qquad r^0(G) = G

    With ``relabel="discrete"``, a new label encodes the old one and the multiset of neighbor labels
    (the Weisfeiler-Lehman test); features are then treated as labels. With a network for r, such as
    :class:`representer.nn.Relabeling`, its outputs are the labels. The neighbors of a node are the
    sources of its incoming edges.

    Args:
        base: K, any kernel of graphs, such as a sum; by default ``RandomWalkKernel(1)``, which
            counts equal labels (the subtree kernel).
        depth: L, for levels 0 … L.
        relabel: ``"discrete"``, or a module called as ``module(x, edge_index)``, or with
            ``edges=True`` as ``module(x, edge_index, edge_attr)``.
        edges: Include the labels or features of edges in the relabeling.
        repeat: Treat the graphs of a given Y as references, which are compared with every
            relabeling of those of X and are not relabeled themselves. A unit of ``nn.WLKernelNN``
            evaluates this kernel. ``k(X)`` and ``diag(X)`` compare graphs.

    Shape:
        - X and Y as in :class:`RandomWalkKernel`
        - returns ``(N, M)`` in float64: a differentiable tensor for ``Data``, else an array

    Raises:
        ArgumentError: If an argument is invalid, or an edge joins a node that does not exist.
        ShapeError: If features have the wrong shape.
        KindError: If a graph or an argument has the wrong type.

    References:
        Lei et al., Deriving Neural Architectures from Sequence and Graph Kernels, ICML 2017,
        (10), (11), section 3.4.
        Shervashidze et al., Weisfeiler-Lehman Graph Kernels, JMLR 2011.
    """

    def __init__(
        self, base: Kernel | None = None, depth: int = 3, relabel: str | nn.Module = "discrete",
        edges: bool = False, repeat: bool = False,
    ) -> None:  # fmt: skip
        self.base = base
        self.depth = depth
        self.relabel = relabel
        self.edges = edges
        self.repeat = repeat
        self.check()

    def __call__(self, X: Iterable[Any], Y: Iterable[Any] | None = None) -> Values:
        Y, is_repeated = OwnReference.inner(Y)
        return self.repeating()(X, Y) if is_repeated else super().__call__(X, Y)

    def no_network(self) -> str:
        if self.relabel == "discrete":
            return "A discrete relabeling is not differentiable in the features; use a module."
        return self.base_kernel.no_network()

    def shortest_reference(self) -> int:
        return self.base_kernel.shortest_reference()

    def counts(self, X: Iterable[Any]) -> sparse.csr_array:
        """Return the explicit features of the kernel, a sparse array ``(N, features)``.

        A linear model on them is equivalent to a kernel method and needs no Gram matrix. The
        columns depend on the occurring labels, so pass all graphs to be compared in one call.

        Args:
            X: The graphs.

        Raises:
            KindError: If the kernel has no such features, since the relabeling is a network or the
                base does not count walks.
            ArgumentError: If there are no graphs.
        """
        self.check()
        if self.relabel != "discrete" or not self._counts_walks:
            expected = "one with relabel='discrete' and a RandomWalkKernel that counts labels"
            raise KindError("kernel", repr(self), expected)
        assert isinstance(self.base_kernel, RandomWalkKernel)
        graphs = read_graphs(X).items
        if not graphs:
            raise ArgumentError("X", graphs, "at least one graph, whose labels are the columns")
        return self._counts(graphs) * math.sqrt(float(self.base_kernel.walk_weight))

    @property
    def base_kernel(self) -> Kernel:
        """The kernel of the graphs of each level: `base`, or walks of one step by default."""
        return RandomWalkKernel(1) if self.base is None else self.base

    def check(self) -> None:
        base = self.base_kernel
        if not isinstance(base, Kernel) or base.objects != "graphs":
            raise KindError("base", repr(base), "a kernel of graphs")
        self.base_kernel.check()
        check_integer("depth", self.depth, least=0)
        is_module = isinstance(self.relabel, nn.Module)
        if not is_module and self.relabel != "discrete":
            raise ArgumentError("relabel", self.relabel, "'discrete' or a module")
        for name, value in (("edges", self.edges), ("repeat", self.repeat)):
            if not isinstance(value, bool):
                raise ArgumentError(name, value, "True or False")
        if self.repeat and not is_module:
            hint = "Discrete labels of references cannot be relabeled separately from the graphs."
            raise ArgumentError("repeat", True, "False for relabel='discrete'", hint=hint)

    def _gram(self, X: Sequence[Graph], Y: Sequence[Graph] | None) -> Tensor:
        if self.repeat and Y is not None:
            values = [self._of_base(x, Y) for x, _ in self._levels(X, None)]
        elif self.relabel == "discrete" and self._counts_walks:
            return self._gram_of_counts(X, Y)
        else:
            values = [self._of_base(x, y) for x, y in self._levels(X, Y)]
        return torch.stack(values).sum(0)

    @property
    def _counts_walks(self) -> bool:
        """Return True if the base has sparse counts and uses edges only if the relabeling does."""
        base = self.base_kernel
        return isinstance(base, RandomWalkKernel) and base.sums_walks and base.edges <= self.edges

    def _gram_of_counts(self, X: Sequence[Graph], Y: Sequence[Graph] | None) -> Tensor:
        """Return the Gram matrix from the concatenated counts of all levels."""
        counts = self._counts([*X, *(Y or ())])
        left, right = counts[: len(X)], counts if Y is None else counts[len(X) :]
        assert isinstance(self.base_kernel, RandomWalkKernel)
        return self.base_kernel.walk_weight * count_products(left, right, X[0].edge_index.device)

    def _counts(self, graphs: Sequence[Graph]) -> sparse.csr_array:
        """Return the number of occurrences of each label sequence, for all levels."""
        base = self.base_kernel
        assert isinstance(base, RandomWalkKernel)
        joined, _ = batches(graphs, None, delta=True, edges=self.edges)
        edges = joined.edges if base.edges else None
        levels = [
            walk_counts(replace(joined, nodes=labels, edges=edges), base.order)
            for labels in self._labels(joined)
        ]
        return sparse.csr_array(sparse.hstack(levels))

    def _labels(self, joined: Batch) -> Iterator[Tensor]:
        """Yield the labels of every level."""
        labels, ends = joined.nodes.cpu(), joined.edge_index.cpu().numpy()
        edges = None if joined.edges is None else joined.edges.cpu().numpy()
        yield labels
        for _ in range(self.depth):
            labels = torch.from_numpy(refined(labels.numpy(), ends, edges))
            yield labels

    def _diag(self, X: Sequence[Graph]) -> Tensor:
        if self.relabel == "discrete" and self._counts_walks:
            assert isinstance(self.base_kernel, RandomWalkKernel)
            squares = count_squares(self._counts(X), X[0].edge_index.device)
            return self.base_kernel.walk_weight * squares
        values = [self._of_base(x, None, "diag") for x, _ in self._levels(X, None)]
        return torch.stack(values).sum(0)

    def _of_base(
        self, X: Sequence[Graph], Y: Sequence[Graph] | None, method: str = "__call__"
    ) -> Tensor:
        """Return the Gram matrix of the base kernel, or its ``"diag"``, with gradients."""
        graphs = [Graphs(GraphList(side), True) for side in (X, Y) if side is not None]
        return torch.as_tensor(getattr(self.base_kernel, method)(*graphs))

    def _levels(self, X: Sequence[Graph], Y: Sequence[Graph] | None) -> Iterator[Sides]:
        """Yield the graphs of every level, starting with the original labels."""
        if isinstance(self.relabel, nn.Module):
            return self._module_levels(self.relabel, X, Y)
        return self._discrete_levels(X, Y)

    def _discrete_levels(self, X: Sequence[Graph], Y: Sequence[Graph] | None) -> Iterator[Sides]:
        both = [*X, *(Y or ())]  # at once, since a new label is the number of a neighborhood
        joined, _ = batches(both, None, delta=True, edges=self.edges)
        for labels in self._labels(joined):
            graphs = _with_nodes(both, labels, joined.sizes)
            yield graphs[: len(X)], None if Y is None else graphs[len(X) :]

    def _module_levels(
        self, module: nn.Module, X: Sequence[Graph], Y: Sequence[Graph] | None
    ) -> Iterator[Sides]:
        read = as_features(*batches(X, Y, delta=False, edges=self.edges))
        sides: list[tuple[Batch, Sequence[Graph]]] = [(read[0], X)]
        if read[1] is not None:
            sides.append((read[1], Y or ()))
        labels = [batch.nodes for batch, _ in sides]
        for level in range(self.depth + 1):
            if level:
                labels = [
                    _relabeled(module, x, batch)
                    for x, (batch, _) in zip(labels, sides, strict=True)
                ]
            graphs = [
                _with_nodes(side, x, batch.sizes)
                for x, (batch, side) in zip(labels, sides, strict=True)
            ]
            yield graphs[0], graphs[1] if len(graphs) > 1 else None


def _with_nodes(graphs: Sequence[Graph], nodes: Tensor, sizes: Sequence[int]) -> list[Graph]:
    return [
        Graph(x, graph.edge_index, graph.edges)
        for graph, x in zip(graphs, nodes.split(list(sizes)), strict=True)
    ]


def _relabeled(module: nn.Module, x: Tensor, batch: Batch) -> Tensor:
    parameter = next(module.parameters(), x)
    arguments = [x.to(parameter), batch.edge_index.to(parameter.device)]
    if batch.edges is not None:
        arguments.append(batch.edges.to(parameter))
    labels = module(*arguments)
    if not isinstance(labels, Tensor) or labels.dim() != 2 or len(labels) != len(x):
        got = tuple(labels.shape) if isinstance(labels, Tensor) else type(labels).__name__
        raise ArgumentError("relabel's result", got, f"a tensor ({len(x)}, features)")
    return labels.double().to(x.device)
