"""Graph regressor: a graph-kernel network, a hidden layer, outputs."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from representer.checks import require, require_choices, require_fractions
from representer.errors import MissingExtraError
from representer.models.base import HubModel, require_sizes

# Configuration of a graph regressor.

NETWORKS = ("wl", "random-walk", "tree", "gine")
DECAYS = ("learned", "gated", "state")
READOUTS = ("sum", "last", "levels")
INITIALS = ("authors", "fan-in")
_SIZES = ("in_channels", "outputs", "hidden_size", "depth", "order")


@dataclass(frozen=True)
class GraphRegressorConfig:
    """The configuration of `GraphRegressionNetwork`; the defaults are those of L17's code.

    Args:
        in_channels: Features of a node.
        outputs: Number of outputs per graph.
        edge_dim: Features of an edge; None to ignore edge features.
        network: ``"wl"``, ``"random-walk"``, ``"tree"`` for trees with edges from child to
            parent, or the baseline ``"gine"``.
        hidden_size: H, units of the network and of the hidden layer.
        depth: L, levels of ``"wl"`` and layers of ``"gine"``.
        order: n, nodes of a walk or chain.
        decay: λ, a non-negative number, ``"learned"`` or ``"gated"``; for ``"tree"`` also
            ``"state"``.
        readout: For ``"wl"``: ``"sum"`` over the levels (the paper), the ``"last"`` (the code), or
            the ``"levels"`` side by side, so that the hidden layer weighs each of them.
        gate_scale: Value of an open gate; 1 in the paper.
        share_references: For ``"wl"``: the same references at all levels (the code), or separate
            ones (the paper), which ``readout="last"`` has not.
        initial: ``"authors"`` draws weights from N(0, min(1/√fan_in, 1/10)²), with biases of 0;
            ``"fan-in"`` keeps the initialization of the layers, N(0, 1/fan_in).
        dropout: Dropout before the last layer.
        compress: Apply asinh to h_G before the hidden layer: sums over neighbors grow with a power
            of the degree, so that dense graphs would make the outputs and the loss huge.
        normalize: For ``"wl"``: standardize the labels of each level, and what the hidden layer
            reads, over each batch.

    Raises:
        ArgumentError: If a value is out of range.
    """

    in_channels: int
    outputs: int = 1
    edge_dim: int | None = 6
    network: str = "wl"
    hidden_size: int = 175
    depth: int = 4
    order: int = 2
    decay: float | str = "gated"
    readout: Literal["sum", "last", "levels"] = "last"
    gate_scale: float = 10.0
    share_references: bool = True
    initial: str = "authors"
    dropout: float = 0.0
    compress: bool = False
    normalize: bool = False

    def __post_init__(self) -> None:
        require_sizes(self, *_SIZES)
        is_size = self.edge_dim is None or (type(self.edge_dim) is int and self.edge_dim >= 1)
        require(self, "edge_dim", is_size, "a positive integer, or None")
        require_choices(self, network=NETWORKS, readout=READOUTS, initial=INITIALS)
        is_decay = is_gate(self.decay, self.network) or (
            isinstance(self.decay, int | float) and 0 <= self.decay < math.inf
        )
        require(self, "decay", is_decay, "a non-negative number, 'learned' or 'gated'")
        for name in ("share_references", "compress", "normalize"):
            require(self, name, type(getattr(self, name)) is bool, "True or False")
        can_differ = self.share_references or (self.network == "wl" and self.readout != "last")
        expected = "True, except for network='wl' with readout='sum' or 'levels'"
        require(self, "share_references", can_differ, expected)
        is_scale = 0 < self.gate_scale < math.inf
        require(self, "gate_scale", is_scale, "a positive number")
        require_fractions(self, "dropout")


def is_gate(decay: Any, network: str) -> bool:
    """Return True for the name of a decay that a network has."""
    return decay in DECAYS and (decay != "state" or network == "tree")


_BIASES = ("bias", "gate_bias", "decay_logit")


class GraphRegressionNetwork(HubModel):
    r"""Predicts numbers for a graph from its similarity to learned references.

    .. math::
        y = W_2\, \mathrm{relu}(W_1 h_G + b_1) + b_2

    with :math:`h_G` of :class:`~representer.nn.WLKernelNN`, as in L17 for molecules,
    :class:`~representer.nn.RandomWalkKernelNN` or :class:`~representer.nn.TreeKernelNN`, or
    asinh(h_G) with ``compress``. The network ``"gine"`` is a baseline. For classification, the
    outputs are logits.

    Args:
        config: The configuration.

    Shape:
        - x ``(N, d)``; edge_index ``(2, E)``; edge_attr ``(E, K)``; batch ``(N,)``
        - output ``(num_graphs, outputs)``

    Raises:
        MissingExtraError: If torch_geometric is not installed.

    References:
        Lei et al., Deriving Neural Architectures from Sequence and Graph Kernels, ICML 2017,
        section 6.3.
    """

    norm: nn.Module | None

    def __init__(self, config: GraphRegressorConfig) -> None:
        super().__init__()
        self.config = config
        c = config
        self.network = _network(c)
        width = c.hidden_size * (c.depth if self.reads_levels else 1)
        self.norm = _standardization(width) if c.normalize and c.network == "wl" else None
        self.head = nn.Sequential(
            nn.Linear(width, c.hidden_size), nn.ReLU(), nn.Dropout(c.dropout),
            nn.Linear(c.hidden_size, c.outputs),
        )  # fmt: skip
        if c.initial == "authors" and c.network != "gine":
            draw_as_authors(self)

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
        batch_size: int | None = None,
    ) -> Tensor:
        """Return the outputs of each graph; arguments and errors as in ``WLKernelNN``."""
        h = self.encode(x, edge_index, edge_attr, batch, batch_size)
        h = torch.asinh(h) if self.config.compress else h
        return self.head(h if self.norm is None else self.norm(h))

    @property
    def reads_levels(self) -> bool:
        """True if h_G has a part of each level."""
        return self.config.network == "wl" and self.config.readout == "levels"

    def encode(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
        batch_size: int | None = None,
    ) -> Tensor:
        """Return h_G of each graph ``(num_graphs, H)``, or ``(num_graphs, levels · H)``."""
        if self.reads_levels:
            network: Any = self.network
            return network.by_level(x, edge_index, edge_attr, batch, batch_size)
        if self.config.network == "tree":  # which has no features of edges
            return self.network(x, edge_index, batch, batch_size)
        return self.network(x, edge_index, edge_attr, batch, batch_size)


class GraphEnsemble(nn.Module):
    """An ensemble of graph regressors that differ only in their initial weights.

    Args:
        config: The configuration of each member.
        size: Number of members.

    Shape:
        - input as in :class:`GraphRegressionNetwork`
        - output ``(size, num_graphs, outputs)``

    References:
        Lakshminarayanan et al., Simple and Scalable Predictive Uncertainty Estimation using Deep
        Ensembles, NeurIPS 2017.
    """

    # of a loss that is not finite
    remedy = "; sums over the walks of dense graphs are smaller with a lower order or depth"

    def __init__(self, config: GraphRegressorConfig, size: int = 1) -> None:
        super().__init__()
        self.config = config
        self.members = nn.ModuleList(GraphRegressionNetwork(config) for _ in range(size))

    def forward(self, *graphs: Any) -> Tensor:
        """Return the outputs of every member; arguments as in ``GraphRegressionNetwork``."""
        return torch.stack([member(*graphs) for member in self.members])


def draw_as_authors(model: nn.Module) -> None:
    """Draw all weights from N(0, min(1/√fan_in, 1/10)²) as in L17's code, and set biases to 0.

    fan_in is that of the authors' matrices. Those of the relabeling are U_1 [h_v, sum] and
    U_2 [h_u, e], each of which is stored in two parts here. Batch normalization is not changed.

    Args:
        model: The network, which is changed in place.
    """
    model.apply(_draw)


def _draw(module: nn.Module) -> None:
    """Draw the weights of a module, without its children."""
    if isinstance(module, nn.BatchNorm1d):
        return
    from representer.nn import Relabeling

    for name, parameter in module.named_parameters(recurse=False):
        if name in _BIASES:
            nn.init.zeros_(parameter)
        elif isinstance(module, Relabeling):
            V, U_1 = module.weight.chunk(2)
            U_2, B = module.neighbors, module.edge_weight
            _draw_from(2 * module.channels, U_1, U_2)
            _draw_from(module.channels + (0 if B is None else B.shape[1]), V, B)
        else:
            _draw_from(parameter.shape[-1], parameter)


def _draw_from(fan_in: int, *weights: Tensor | None) -> None:
    for weight in weights:
        if weight is not None:
            nn.init.normal_(weight, std=min(fan_in**-0.5, 0.1))


def _standardization(width: int) -> nn.Module:
    from representer.nn.graph.wl_kernel_nn import RowBatchNorm

    return RowBatchNorm(width)


def _network(c: GraphRegressorConfig) -> nn.Module:
    sizes: dict[str, Any] = {
        "in_channels": c.in_channels,
        "hidden_channels": c.hidden_size,
        "edge_dim": c.edge_dim,
    }
    if c.network == "gine":
        return GINE(**sizes, depth=c.depth)
    if c.network == "tree":
        del sizes["edge_dim"]
    sizes |= {"order": c.order, "decay": c.decay, "gate_scale": c.gate_scale}
    from representer import nn as layers

    if c.network == "tree":
        return layers.TreeKernelNN(**sizes)
    if c.network == "random-walk":
        return layers.RandomWalkKernelNN(**sizes)
    return layers.WLKernelNN(
        **sizes, depth=c.depth, readout="sum" if c.readout == "levels" else c.readout,
        label_channels=c.hidden_size, sigma="relu", share_references=c.share_references,
        normalize=c.normalize,
    )  # fmt: skip


# The graph isomorphism network with edge features from PyG, as a baseline.


class GINE(nn.Module):
    r"""Layers of PyG's ``GINEConv``, summed over the nodes.

    .. math::
        h_v \leftarrow \mathrm{relu}\,\mathrm{MLP}\Big(
            h_v + \sum_{u \to v} \mathrm{relu}(h_u + E e_{uv}) \Big)

    Args:
        in_channels: Features of a node.
        hidden_channels: Number of units.
        depth: Number of layers.
        edge_dim: Features of an edge; None if there are none.

    Shape:
        - as in ``representer.nn.WLKernelNN``

    Raises:
        MissingExtraError: If torch_geometric is not installed.

    References:
        Hu et al., Strategies for Pre-training Graph Neural Networks, ICLR 2020.
    """

    def __init__(
        self, in_channels: int, hidden_channels: int, depth: int = 4, edge_dim: int | None = None
    ) -> None:
        super().__init__()
        try:
            from torch_geometric.nn import GINConv, GINEConv
        except ImportError as error:
            raise MissingExtraError("the network gine", "torch_geometric", "graph") from error
        H = hidden_channels
        self.embedding = nn.Linear(in_channels, H)
        mlps = [nn.Sequential(nn.Linear(H, H), nn.ReLU(), nn.Linear(H, H)) for _ in range(depth)]
        self.layers = nn.ModuleList(
            GINConv(mlp) if edge_dim is None else GINEConv(mlp, edge_dim=edge_dim) for mlp in mlps
        )
        self.edge_dim = edge_dim

    def forward(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
        batch_size: int | None = None,
    ) -> Tensor:
        """Return the sum over the nodes of each graph ``(num_graphs, H)``."""
        from torch_geometric.nn import global_add_pool

        from representer.nn.graph.walks import refuse_edges

        if self.edge_dim is None:
            refuse_edges(edge_attr)
        h = self.embedding(x)
        edges = () if self.edge_dim is None else (edge_attr,)
        for layer in self.layers:
            h = torch.relu(layer(h, edge_index, *edges))
        return global_add_pool(h, batch, batch_size)
