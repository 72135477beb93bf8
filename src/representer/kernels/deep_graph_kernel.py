"""The deep graph kernel, L17 section 3.3, Theorem 4."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial

from torch import Tensor

from representer.kernels.graph_batch import as_features, batches
from representer.kernels.graph_kernel import (
    GraphKernel,
    activation_of,
    check_walks,
    compare_nodes,
)
from representer.kernels.graphs import Graph
from representer.kernels.local_kernels import Local, diagonal, gram
from representer.kernels.point_kernels import Gaussian, PointKernel
from representer.requirements import check_integer


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
        self,
        order: int = 2,
        num_layers: int = 2,
        decay: float = 1.0,
        combine: str = "multiply",
        activation: PointKernel | str | None = None,
        base: str | PointKernel = "linear",
        edges: bool = False,
    ) -> None:
        self.order = order
        self.num_layers = num_layers
        self.decay = decay
        self.combine = combine
        self.activation = activation
        self.base = base
        self.edges = edges
        self._check()

    def _check(self) -> None:
        check_integer("order", self.order)
        check_integer("num_layers", self.num_layers)
        check_walks(self.decay, self.combine, self.base, self.edges)
        self._local()

    def _local(self) -> Local:
        return Local(
            self.order,
            self.decay,
            self.combine,
            activation_of("activation", self.activation or Gaussian()),
            partial(compare_nodes, self.base),
            self.num_layers,
        )

    def _gram(self, X: Sequence[Graph], Y: Sequence[Graph] | None) -> Tensor:
        sides = batches(X, Y, delta=self.base == "delta", edges=self.edges)
        return gram(self._local(), *as_features(*sides), activated=True)

    def _diag(self, X: Sequence[Graph]) -> Tensor:
        x, _ = batches(X, None, delta=self.base == "delta", edges=self.edges)
        return diagonal(self._local(), as_features(x, None)[0], activated=True)
