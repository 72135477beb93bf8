"""The kernels of graphs by random walks, L17 (5), (7), section 3.2, and the deep one, 3.3."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import numpy as np
import torch
from scipy import sparse
from torch import Tensor

from representer.checks import check_integer
from representer.errors import ArgumentError
from representer.functional import nonlinearity
from representer.kernels.composition import mercer_violation
from representer.kernels.graphs import (
    Batch,
    Graph,
    Graphs,
    as_features,
    batches,
    read_graphs,
    side_by_side,
)
from representer.kernels.kernel import Kernel, Objects, value_of
from representer.kernels.point_kernels import Gaussian, PointKernel
from representer.kernels.sequences import check_base, why_not_smooth
from representer.ops import walk_aggregate

# The local kernels of all pairs of nodes of two batches, L17 (7), sections 3.2, 3.3, appendix E.
#
#     K^{l,1}(v, v') = S^l(v, v'),          S^1 = <f_v, f_v'>,   S^l = K_sigma^{l-1,n}
#     K^{l,j}(v, v') = S^l(v, v') o lam sum_{u -> v} sum_{u' -> v'} <e, e'> K_sigma^{l,j-1}(u, u')
#     K^{l,j}(v, v') = 0  where no walk of j nodes ends          add, or with an activation
#
# The double sum is computed as sums over neighbors of the rows and of the columns of a matrix.

Activate = Callable[[Tensor, Tensor, Tensor], Tensor]
Compare = Callable[[Tensor, Tensor], Tensor]
Own = list[Tensor]
NODES = 512  # per block of graphs, so that the local kernels of two blocks fit in the cache


@dataclass(frozen=True)
class Local:
    """The parameters of a local kernel."""

    order: int  # n, nodes of a walk
    decay: float | Tensor  # lam, a number or a tensor ()
    combine: str  # o, "multiply" or "add"
    activate: Activate | None  # k_sigma from K(v, v'), K(v, v) and K(v', v'); None for K itself
    compare: Compare  # the base kernel of two nodes, S^1
    layers: int = 1  # L

    @property
    def is_masked(self) -> bool:
        """Return True if values at nodes where no walk ends must be set to 0."""
        return self.combine == "add" or self.activate is not None


def gram(local: Local, x: Batch, y: Batch | None, *, activated: bool = False) -> Tensor:
    """Sum the local kernels of all pairs of graphs ``(G, G')``, in blocks.

    Args:
        local: The local kernel.
        x: Graphs.
        y: Graphs, or None for x itself.
        activated: Sum K_sigma instead of K.
    """
    return in_blocks(
        x, y, partial(own_kernels, local),
        lambda a, b, own_a, own_b: _last(local, a, b, own_a, own_b, activated),
    )  # fmt: skip


def in_blocks(
    x: Batch, y: Batch | None, prepare: Callable[[Batch], Any],
    pairs: Callable[[Batch, Batch, Any, Any], Tensor], nodes: int | None = None,
) -> Tensor:  # fmt: skip
    """Sum values of pairs of nodes over all pairs of graphs ``(G, G')``, block by block.

    ``prepare`` returns what is computed once for a part of the graphs, ``pairs`` the values of all
    pairs of nodes of two parts, given that of both.
    """
    nodes = nodes or NODES
    rows = [(batch, prepare(batch)) for batch in x.parts(nodes)]
    columns = rows if y is None else [(batch, prepare(batch)) for batch in y.parts(nodes)]
    blocks: dict[tuple[int, int], Tensor] = {}
    for i, (a, own_a) in enumerate(rows):
        for j, (b, own_b) in enumerate(columns):
            if y is None and j < i:
                blocks[i, j] = blocks[j, i].T
                continue
            blocks[i, j] = b.summed(a.summed(pairs(a, b, own_a, own_b)).T).T
    return torch.cat(
        [torch.cat([blocks[i, j] for j in range(len(columns))], dim=1) for i in range(len(rows))]
    )


def diagonal(local: Local, x: Batch, *, activated: bool = False) -> Tensor:
    """Sum the local kernels of every graph with itself ``(G,)``."""
    sums = []
    for graph in x.parts(0):  # one graph each
        of = own_kernels(local, graph)
        sums.append(_last(local, graph, graph, of, of, activated).sum())
    return torch.stack(sums)


def own_kernels(local: Local, x: Batch) -> Own:
    """Return K^{l,j}(v, v) of every node ``(N,)``, for all l and j; [] without an activation."""
    if local.activate is None:
        return []
    per_graph: list[Own] = []
    # graph by graph: a node is needed with itself alone, for which other graphs do not matter
    for graph in x.parts(0):
        diagonals: Own = []
        K = _levels(local, graph, graph, diagonals, diagonals, grow=True)
        assert K.shape == (len(graph.nodes),) * 2
        per_graph.append(diagonals)
    return [torch.cat(parts) for parts in zip(*per_graph, strict=True)]


def _last(local: Local, a: Batch, b: Batch, own_a: Own, own_b: Own, activated: bool) -> Tensor:
    K = _levels(local, a, b, own_a, own_b)
    if activated and local.activate is not None:
        return local.activate(K, own_a[-1][:, None], own_b[-1])
    return K


def _levels(
    local: Local, a: Batch, b: Batch, own_a: Own, own_b: Own, *, grow: bool = False
) -> Tensor:
    """Return K^{L,n} ``(N, N')``; with ``grow``, append the diagonal of all levels to ``own_a``."""
    ends_a, ends_b = a.ends(local.order), b.ends(local.order)
    S = local.compare(a.nodes, b.nodes)
    level = 0
    K = S
    for layer in range(local.layers):
        if layer:
            S = _activated(local, K, own_a, own_b, level - 1)
        K = S
        for j in range(local.order):
            if j:
                below = _activated(local, K, own_a, own_b, level - 1)
                sums = local.decay * neighbor_sums(below, a, b)
                K = S * sums if local.combine == "multiply" else S + sums
                if local.is_masked:
                    K = torch.where(ends_a[:, j, None] & ends_b[:, j], K, 0.0)
            if grow:
                own_a.append(K.diagonal())
            level += 1
    return K


def _activated(local: Local, K: Tensor, own_a: Own, own_b: Own, level: int) -> Tensor:
    if local.activate is None:
        return K
    return local.activate(K, own_a[level][:, None], own_b[level])


def neighbor_sums(K: Tensor, a: Batch, b: Batch) -> Tensor:
    """Return the sum over the neighbors of both nodes, weighted by the similarity of the edges."""
    if a.edges is None or b.edges is None:
        columns = walk_aggregate(K.T, b.edge_index).T
        return walk_aggregate(columns, a.edge_index)
    total = torch.zeros_like(K)
    ones_a, ones_b = (K.new_ones(size, 1) for size in K.shape)
    for k in range(a.edges.shape[1]):
        own_a, own_b = a.edges[:, k : k + 1], b.edges[:, k : k + 1]
        columns = walk_aggregate(K.T, b.edge_index, edge_attr=own_b, factor=ones_a).T
        total = total + walk_aggregate(columns, a.edge_index, edge_attr=own_a, factor=ones_b)
    return total


# The base class of graph kernels, and checks of their arguments.


class GraphKernel(Kernel):
    """Base class of kernels of two graphs, computed in float64."""

    @property
    def objects(self) -> Objects:
        return "graphs"

    def __call__(self, X: Iterable[Any], Y: Iterable[Any] | None = None) -> Tensor | np.ndarray:
        self.check()
        x = self._read(X)
        y = None if Y is None else self._read(Y, "Y")
        if not x.items or (y is not None and not y.items):
            like = x if y is None or x.items else y
            shape = len(x.items), len((y or x).items)
            return self._values(like, lambda: torch.zeros(shape, dtype=torch.float64))
        return self._values(x, lambda: self._gram(x.items, None if y is None else y.items))

    def diag(self, X: Iterable[Any]) -> Tensor | np.ndarray:
        self.check()
        x = self._read(X)
        none = torch.zeros(0, dtype=torch.float64)
        return self._values(x, lambda: self._diag(x.items) if x.items else none)

    def _read(self, X: Iterable[Any], name: str = "X") -> Graphs:
        """Read a list of objects; `read_graphs` lists the errors."""
        return read_graphs(X, name)

    @abstractmethod
    def check(self) -> None:
        """Check the arguments, which ``set_params`` may have changed."""

    @abstractmethod
    def _gram(self, X: Sequence[Graph], Y: Sequence[Graph] | None) -> Tensor:
        """Return the Gram matrix, float64."""

    @abstractmethod
    def _diag(self, X: Sequence[Graph]) -> Tensor:
        """Return k(x, x) of each graph, float64."""


def check_walks(decay: Any, combine: Any, base: Any, edges: Any) -> None:
    """Check the arguments common to all walk kernels."""
    if not 0 <= value_of(decay) < float("inf"):
        raise ArgumentError("decay", decay, "a non-negative number")
    if combine not in ("multiply", "add"):
        raise ArgumentError("combine", combine, "'multiply' or 'add'")
    check_base(base)
    if not isinstance(edges, bool):
        raise ArgumentError("edges", edges, "True or False")


def activation_of(name: str, activation: PointKernel | str | None) -> Activate | None:
    """Return K_sigma as a function of K(v, v'), K(v, v) and K(v', v').

    A name is that of a Mercer q of ``NONLINEARITIES``, for which K_sigma is q(K).
    """
    if activation is None:
        return None
    if isinstance(activation, PointKernel):
        activation.check()
        return activation.of_products
    if not isinstance(activation, str):
        raise ArgumentError(name, activation, "a kernel of vectors, or the name of a q")
    q = nonlinearity(activation, name)
    violation = mercer_violation(activation)
    if violation:
        expected = "a q with a power series without negative coefficients, or a kernel of vectors"
        raise ArgumentError(name, activation, expected, hint=f"{violation}.")
    return lambda inner, xx, yy: q.value(inner)


def compare_nodes(base: str | Kernel, x: Tensor, y: Tensor) -> Tensor:
    """Return the base kernel of all pairs of nodes ``(N, N')``."""
    if not isinstance(base, Kernel):
        return x @ y.mT
    if not len(x) * len(y):
        return x.new_zeros(len(x), len(y))
    values = base(x, y)
    assert isinstance(values, Tensor)
    return values


# The deep graph kernel, L17 section 3.3, Theorem 4.


class DeepGraphKernel(GraphKernel):
    r"""The kernel of a stack of graph-kernel layers, independent of their references.

    .. math::
        K^{(l,1)}(v, v') &= K_\sigma^{(l-1,n)}(v, v'), \qquad
            K^{(1,1)}(v, v') = \langle f_v, f_{v'} \rangle \\
        K^{(l,j)}(v, v') &= K^{(l,1)}(v, v') \circ \lambda \sum_{u \to v} \sum_{u' \to v'}
            K_\sigma^{(l,j-1)}(u, u') \\
        K(G, G') &= \sum_v \sum_{v'} K_\sigma^{(L,n)}(v, v')

    and 0 where no walk of j nodes ends. :math:`K_\sigma` is the activation kernel in the feature
    space of K. If its space contains σ, the space of this kernel contains the outputs of every
    ``nn.DeepGraphKernelNN`` of L layers, as functions of the graph (Theorem 4, with the σ of
    appendix E).

    Args:
        order: n, nodes of a walk in each layer.
        num_layers: L.
        decay: λ, non-negative.
        combine: ∘, ``"multiply"`` or ``"add"``.
        activation: :math:`K_\sigma`: a kernel of vectors, or a q as in ``RandomWalkKernel``;
            by default ``kernels.Gaussian()``, which is defined for all values.
        base: As in :class:`RandomWalkKernel`.
        edges: As in :class:`RandomWalkKernel`, for all layers.

    Shape:
        - X and Y as in :class:`RandomWalkKernel`
        - returns ``(N, M)`` in float64: a differentiable tensor for ``Data``, else an array

    Raises:
        ArgumentError: If an argument is invalid, or an edge joins a node that does not exist.
        ShapeError: If features have the wrong shape.
        KindError: If a graph has an unsupported type, or no features.

    References:
        Lei et al., Deriving Neural Architectures from Sequence and Graph Kernels, ICML 2017,
        section 3.3, Theorem 4, appendix E.
    """

    def __init__(
        self, order: int = 2, num_layers: int = 2, decay: float = 1.0, combine: str = "multiply",
        activation: PointKernel | str | None = None, base: str | Kernel = "linear",
        edges: bool = False,
    ) -> None:  # fmt: skip
        self.order = order
        self.num_layers = num_layers
        self.decay = decay
        self.combine = combine
        self.activation = activation
        self.base = base
        self.edges = edges
        self.check()

    def no_network(self) -> str:
        return why_not_smooth(self.base, "labels of nodes")

    def shortest_reference(self) -> int:
        """Return 1 + L(n − 1) nodes: the walks of a layer end at n nodes of the layer below."""
        return 1 + self.num_layers * (self.order - 1)

    def check(self) -> None:
        check_integer("order", self.order)
        check_integer("num_layers", self.num_layers)
        check_walks(self.decay, self.combine, self.base, self.edges)
        self._local()

    def _local(self) -> Local:
        return Local(
            self.order, self.decay, self.combine,
            activation_of("activation", self.activation or Gaussian()),
            partial(compare_nodes, self.base), self.num_layers,
        )  # fmt: skip

    def _gram(self, X: Sequence[Graph], Y: Sequence[Graph] | None) -> Tensor:
        sides = batches(X, Y, delta=self.base == "delta", edges=self.edges)
        return gram(self._local(), *as_features(*sides), activated=True)

    def _diag(self, X: Sequence[Graph]) -> Tensor:
        x, _ = batches(X, None, delta=self.base == "delta", edges=self.edges)
        return diagonal(self._local(), as_features(x, None)[0], activated=True)


# Counts of label sequences, the explicit feature map of the random-walk kernel on labels.
#
#     phi_n(G)[l_1 .. l_n] = number of walks of G whose nodes (and edges) have these labels
#
# The counts are sparse, so the cost depends on the number of walks and not of labels. Lei et al.
# 2017, (5).

_ENTRIES = 2**24  # of a dense block of counts on a device


def walk_counts(batch: Batch, order: int) -> sparse.csr_array:
    """Count the label sequences of the walks of every graph.

    They are ``(G, number of different walks)``, float64. Graphs to be compared must be in one
    batch, since label sequences are numbered by occurrence.
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
    # a walk is its last node and the code of its labels; codes are numbered again after each step,
    # so that they stay below the number of walks, whose products with the base do not overflow
    for _ in range(order - 1):
        out = starts[nodes + 1] - starts[nodes]
        walk = np.repeat(np.arange(len(nodes)), out)
        taken = np.arange(len(walk)) - np.repeat(np.cumsum(out) - out, out) + starts[nodes[walk]]
        codes = _renumber(codes[walk] * base + steps[taken])
        nodes, counts = target[taken], counts[walk]
        # walks with the same labels and the same last node are merged
        size = int(codes.max()) + 1 if len(codes) else 1
        kept, index = np.unique(nodes * size + codes, return_inverse=True)
        nodes, codes = np.divmod(kept, size)
        counts = np.bincount(index, counts, len(kept))
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
    rows, columns = (torch.from_numpy(x.astype(np.int64)).to(device) for x in counts.coords)
    dense = torch.zeros(shape, dtype=torch.float64, device=device)
    dense[rows, columns] = torch.from_numpy(counts.data).to(device)
    return dense


def _renumber(codes: np.ndarray) -> np.ndarray:
    return np.unique(codes, return_inverse=True)[1]


# The feature map of the random-walk kernel with inner products.
#
#     phi_1(v) = f_v,    phi_j(v) = (sum_{u -> v} phi_{j-1}(u) (x) e_uv) (x) f_v            multiply
#     phi_j(v) = (f_v, sqrt(lam) sum_{u -> v} phi_{j-1}(u) (x) e_uv), or 0               add
#     phi(G)   = sum_v phi_n(v),        K_n(G, G') = lam^(n-1) <phi(G), phi(G')>         (5)
#
# The powers of lam are applied in the Gram matrix, so that a decay of 0 has a gradient. For few
# features this is faster than the local kernels of all pairs of nodes. Lei et al. 2017, appendices
# D and E.


def walk_features(x: Batch, order: int, combine: str) -> list[Tensor]:
    """Return the features of every graph, separately for each power of lam.

    They are ``(G, D)`` for the powers 0, 1, … n - 1 of lam; for ``"multiply"``, only the last is
    not empty.
    """
    f, ends = x.nodes, x.ends(order)
    blocks = [f]
    for j in range(1, order):
        sums = [_neighbor_features(block, x) for block in blocks]
        if combine == "multiply":
            blocks = [(sums[0][:, :, None] * f[:, None]).flatten(1)]
        else:
            blocks = [torch.where(ends[:, j, None], block, 0.0) for block in (f, *sums)]
    result = [x.summed(block) for block in blocks]
    if combine == "multiply":
        result = [f.new_zeros(len(x.sizes), 0)] * (order - 1) + result
    return result


def features_count(x: Batch, order: int, combine: str) -> float:
    """Return the number of features of a node."""
    d, k = float(x.nodes.shape[1]), 1.0 if x.edges is None else max(1.0, x.edges.shape[1])
    if combine == "multiply":
        return d**order * k ** (order - 1)
    return sum(d * k**i for i in range(order))


def _neighbor_features(block: Tensor, x: Batch) -> Tensor:
    """Return the sum over neighbors, with the outer product by edge features, if any."""
    if x.edges is None:
        return walk_aggregate(block, x.edge_index)
    ones = block.new_ones(block.shape[1], 1)
    parts = [
        walk_aggregate(block, x.edge_index, edge_attr=x.edges[:, k : k + 1], factor=ones)
        for k in range(x.edges.shape[1])
    ]
    return torch.cat(parts, dim=1) if parts else block.new_zeros(len(block), 0)


class RandomWalkKernel(GraphKernel):
    r"""Compares all walks of n nodes of two graphs.

    .. math::
        K_n(G, G') = \lambda^{n-1} \sum_{x \in P_n(G)} \sum_{y \in P_n(G')}
            \prod_{i=1}^n \langle f_{x_i}, f_{y_i} \rangle

    A walk follows the edges and may visit a node several times. Equivalently, the kernel is the sum
    over all pairs of nodes of a local kernel of the walks that end there,

    .. math::
        K^1(v, v') = \langle f_v, f_{v'} \rangle, \qquad
        K^j(v, v') = \langle f_v, f_{v'} \rangle \circ \lambda \sum_{u \to v} \sum_{u' \to v'}
            K_\sigma^{j-1}(u, u')

    with the product for ∘ and :math:`K_\sigma = K`; ``combine`` and ``nonlinear`` replace these.
    :math:`K^j(v, v')` is then 0 where no walk of j nodes ends (appendix E).

    Args:
        order: n, nodes of a walk.
        decay: λ, non-negative; :math:`0^0 = 1`. A tensor ``()`` may require a gradient.
        combine: ∘, ``"multiply"`` or ``"add"``.
        nonlinear: :math:`K_\sigma`: False for none; a kernel of vectors such as
            ``kernels.InversePolynomial()``; or a q of ``functional.NONLINEARITIES`` with a power
            series without negative coefficients, for which it is q(K).
        base: Kernel of two nodes: ``"linear"``, the inner product of features, or equality of
            labels; ``"delta"``, equality of features or labels; or a kernel of vectors such as
            ``kernels.Gaussian()``.
        edges: Compare edges, too, with a factor in the inner sum: the inner product of their
            features, or equality of their labels.

    Shape:
        - X a list of N graphs: PyG ``Data`` with ``x`` and ``edge_index``, networkx graphs with the
          node attribute ``x`` (numbers or a label), or SMILES; Y the same, of M. Undirected edges
          are edges in both directions
        - returns ``(N, M)`` in float64: a differentiable tensor on their device for ``Data``, else
          an array

    Raises:
        ArgumentError: If an argument is invalid, or an edge joins a node that does not exist.
        ShapeError: If features have the wrong shape.
        KindError: If a graph has an unsupported type, or no features.

    References:
        Lei et al., Deriving Neural Architectures from Sequence and Graph Kernels, ICML 2017,
        (5)-(8), appendices D and E.
        Gärtner et al., On Graph Kernels: Hardness Results and Efficient Alternatives, COLT 2003.
    """

    def __init__(
        self, order: int = 2, decay: float = 1.0, combine: str = "multiply",
        nonlinear: bool | str | PointKernel = False, base: str | Kernel = "linear",
        edges: bool = False,
    ) -> None:  # fmt: skip
        self.order = order
        self.decay = decay
        self.combine = combine
        self.nonlinear = nonlinear
        self.base = base
        self.edges = edges
        self.check()

    def no_network(self) -> str:
        return why_not_smooth(self.base, "labels of nodes")

    def shortest_reference(self) -> int:
        """Return the order: a shorter path has no walk of n nodes."""
        return self.order

    def check(self) -> None:
        check_integer("order", self.order)
        check_walks(self.decay, self.combine, self.base, self.edges)
        self._local()

    def _local(self) -> Local:
        nonlinear = None if self.nonlinear is False else self.nonlinear
        return Local(
            self.order,
            self.decay,
            self.combine,
            activation_of("nonlinear", nonlinear),  # pyright: ignore
            partial(compare_nodes, self.base),
        )

    def _gram(self, X: Sequence[Graph], Y: Sequence[Graph] | None) -> Tensor:
        x, y = batches(X, Y, delta=self.base == "delta", edges=self.edges)
        if x.is_discrete and self.sums_walks:
            counts = walk_counts(side_by_side(x, y), self.order)
            left, right = counts[: len(X)], counts[len(X) :] if Y is not None else counts
            return self.walk_weight * count_products(left, right, x.nodes.device)
        x, y = as_features(x, y)
        if self._is_linear and self._has_features(x, y):
            of_x = walk_features(x, self.order, self.combine)
            of_y = of_x if y is None else walk_features(y, self.order, self.combine)
            products = [a @ b.mT for a, b in zip(of_x, of_y, strict=True)]
            return sum((self._lam(i) * p for i, p in enumerate(products)), torch.zeros(()))
        return gram(self._local(), x, y)

    def _diag(self, X: Sequence[Graph]) -> Tensor:
        x, _ = batches(X, None, delta=self.base == "delta", edges=self.edges)
        if x.is_discrete and self.sums_walks:
            return self.walk_weight * count_squares(walk_counts(x, self.order), x.nodes.device)
        x, _ = as_features(x, None)
        if self._is_linear and self._has_features(x, None):
            blocks = walk_features(x, self.order, self.combine)
            squares = [block.square().sum(1) for block in blocks]
            return sum((self._lam(i) * s for i, s in enumerate(squares)), torch.zeros(()))
        return diagonal(self._local(), x)

    @property
    def _is_linear(self) -> bool:
        return self.nonlinear is False and not isinstance(self.base, Kernel)

    @property
    def sums_walks(self) -> bool:
        """True if the kernel of discrete labels is a product of counts of walks."""
        return self._is_linear and self.combine == "multiply"

    @property
    def walk_weight(self) -> Tensor:
        """The decay of a walk of the kernel's order, which multiplies those products."""
        return self._lam(self.order - 1)

    def _lam(self, power: int) -> Tensor:
        return torch.as_tensor(self.decay, dtype=torch.float64) ** power

    def _has_features(self, x: Batch, y: Batch | None) -> bool:
        """Return True if the explicit feature map is cheaper than all pairs of nodes."""
        count = features_count(x, self.order, self.combine)
        nodes, graphs = len(x.nodes), len(x.sizes)
        others, columns = (nodes, graphs) if y is None else (len(y.nodes), len(y.sizes))
        pairs = nodes * others * (x.nodes.shape[1] + 8 * self.order)
        features = (nodes + others + graphs * columns) * count
        return features < pairs * (0.5 if y is None else 1.0)
