"""The random-walk kernel between graphs, L17 (5), (7), section 3.2."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from representer.kernels.graph_batch import Batch, as_features, batches, side_by_side
from representer.kernels.graph_kernel import (
    GraphKernel,
    activation_of,
    check_walks,
    compare_nodes,
)
from representer.kernels.graphs import Graph
from representer.kernels.label_walks import count_products, count_squares, walk_counts
from representer.kernels.local_kernels import Local, diagonal, gram
from representer.kernels.point_kernels import PointKernel
from representer.kernels.walk_features import features_count, walk_features
from representer.requirements import check_integer

if TYPE_CHECKING:
    from torch import nn


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
        self,
        order: int = 2,
        decay: float = 1.0,
        combine: str = "multiply",
        nonlinear: bool | str | PointKernel = False,
        base: str | PointKernel = "linear",
        edges: bool = False,
    ) -> None:
        self.order = order
        self.decay = decay
        self.combine = combine
        self.nonlinear = nonlinear
        self.base = base
        self.edges = edges
        self._check()

    def network(self, in_channels: int, hidden_channels: int, **options: Any) -> nn.Module:
        """Return a layer whose units evaluate this kernel against learned walks.

        The layer's output for a graph is this kernel of the graph and ``nn.path_graph`` of each of
        its ``references()``; ``network.kernel`` returns the kernel.

        Args:
            in_channels: d, features of a node.
            hidden_channels: Number of references.
            options: Other arguments of ``representer.nn.RandomWalkKernelNN``.
        """
        self._check()
        return self._network(in_channels, hidden_channels, options)

    def _check(self) -> None:
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
        if x.is_discrete and self._sums_walks:
            counts = walk_counts(side_by_side(x, y), self.order)
            left, right = counts[: len(X)], counts[len(X) :] if Y is not None else counts
            return self._power * count_products(left, right, x.nodes.device)
        x, y = as_features(x, y)
        if self._is_linear and self._has_features(x, y):
            of_x = walk_features(x, self.order, self.combine)
            of_y = of_x if y is None else walk_features(y, self.order, self.combine)
            products = [a @ b.mT for a, b in zip(of_x, of_y, strict=True)]
            return sum((self._lam(i) * p for i, p in enumerate(products)), torch.zeros(()))
        return gram(self._local(), x, y)

    def _diag(self, X: Sequence[Graph]) -> Tensor:
        x, _ = batches(X, None, delta=self.base == "delta", edges=self.edges)
        if x.is_discrete and self._sums_walks:
            return self._power * count_squares(walk_counts(x, self.order), x.nodes.device)
        x, _ = as_features(x, None)
        if self._is_linear and self._has_features(x, None):
            blocks = walk_features(x, self.order, self.combine)
            squares = [block.square().sum(1) for block in blocks]
            return sum((self._lam(i) * s for i, s in enumerate(squares)), torch.zeros(()))
        return diagonal(self._local(), x)

    @property
    def _is_linear(self) -> bool:
        return self.nonlinear is False and not isinstance(self.base, PointKernel)

    @property
    def _sums_walks(self) -> bool:
        return self._is_linear and self.combine == "multiply"

    @property
    def _power(self) -> Tensor:
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
