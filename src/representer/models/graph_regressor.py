"""Graph regressor: a graph-kernel network, a hidden layer, outputs."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor, nn

from representer.models.graph_regressor_config import GraphRegressorConfig
from representer.models.hub import HubModel

_BIASES = ("bias", "gate_bias", "decay_logit")


class GraphRegressor(HubModel):
    r"""Predicts numbers for a graph from its similarity to learned references.

    .. math::
        y = W_2\, \mathrm{relu}(W_1 h_G + b_1) + b_2

    with :math:`h_G` of :class:`~representer.nn.WLKernelNN` or
    :class:`~representer.nn.RandomWalkKernelNN`, as in L17 for molecules, or asinh(h_G) with
    ``compress``. The network ``"gine"`` is a baseline. For classification, the outputs are logits.

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

    def __init__(self, config: GraphRegressorConfig) -> None:
        super().__init__()
        self.config = config
        c = config
        self.network = _network(c)
        self.head = nn.Sequential(
            nn.Linear(c.hidden_size, c.hidden_size),
            nn.ReLU(),
            nn.Dropout(c.dropout),
            nn.Linear(c.hidden_size, c.outputs),
        )
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
        return self.head(torch.asinh(h) if self.config.compress else h)

    def encode(
        self,
        x: Tensor,
        edge_index: Tensor,
        edge_attr: Tensor | None = None,
        batch: Tensor | None = None,
        batch_size: int | None = None,
    ) -> Tensor:
        """Return h_G of each graph ``(num_graphs, H)``."""
        return self.network(x, edge_index, edge_attr, batch, batch_size)


class GraphEnsemble(nn.Module):
    """An ensemble of graph regressors that differ only in their initial weights.

    Args:
        config: The configuration of each member.
        size: Number of members.

    Shape:
        - input as in :class:`GraphRegressor`
        - output ``(size, num_graphs, outputs)``

    References:
        Lakshminarayanan et al., Simple and Scalable Predictive Uncertainty Estimation using Deep
        Ensembles, NeurIPS 2017.
    """

    def __init__(self, config: GraphRegressorConfig, size: int = 1) -> None:
        super().__init__()
        self.config = config
        self.members = nn.ModuleList(GraphRegressor(config) for _ in range(size))

    def forward(self, *graphs: Any) -> Tensor:
        """Return the outputs of every member; arguments as in ``GraphRegressor``."""
        return torch.stack([member(*graphs) for member in self.members])


def draw_as_authors(model: nn.Module) -> None:
    """Draw all weights from N(0, min(1/√fan_in, 1/10)²) as in L17's code, and set biases to 0.

    fan_in is that of the authors' matrices. Those of the relabeling are U_1 [h_v, sum] and
    U_2 [h_u, e], each of which is stored in two parts here. Batch normalization is not changed.
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


def _network(c: GraphRegressorConfig) -> nn.Module:
    sizes: dict[str, Any] = {
        "in_channels": c.in_channels,
        "hidden_channels": c.hidden_size,
        "edge_dim": c.edge_dim,
    }
    if c.network == "gine":
        from representer.models.gine import GINE

        return GINE(**sizes, depth=c.depth)
    sizes |= {"order": c.order, "decay": c.decay, "gate_scale": c.gate_scale}
    from representer import nn as layers

    if c.network == "random-walk":
        return layers.RandomWalkKernelNN(**sizes)
    return layers.WLKernelNN(
        **sizes, depth=c.depth, readout=c.readout, label_channels=c.hidden_size, sigma="relu",
        share_references=c.share_references,
    )  # fmt: skip
