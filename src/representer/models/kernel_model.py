"""The network of a kernel, and a linear head."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from representer.kernels.composition import from_plain
from representer.models.base import HubModel, require_sizes


@dataclass(frozen=True)
class KernelModelConfig:
    """The configuration of `KernelModel`."""

    kernel: Any
    input_size: int
    outputs: int = 1
    hidden_size: int = 64

    def __post_init__(self) -> None:
        require_sizes(self, "input_size", "outputs", "hidden_size")


class KernelModel(HubModel):
    r"""Predicts numbers for an object from its kernel values with learned references.

    .. math:: y = W \frac{k(x, r) - m}{s} + b

    The mean m and the deviation s of each value over the first batch of training are constants,
    since the values of kernels differ by orders of magnitude. Without a nonlinearity in the head,
    an output is a function :math:`\sum_i c_i k(x, r_i) + c_0` of the kernel's space, as that of a
    kernel machine is, so that both are explained by the same sum.
    """

    mean: Tensor
    scale: Tensor
    is_calibrated: Tensor

    def __init__(self, config: KernelModelConfig) -> None:
        super().__init__()
        self.config = config
        kernel = from_plain(config.kernel)
        self.network = kernel.network(config.input_size, config.hidden_size)
        self.register_buffer("mean", torch.zeros(config.hidden_size))
        self.register_buffer("scale", torch.ones(config.hidden_size))
        self.register_buffer("is_calibrated", torch.tensor(False))
        self.head = nn.Linear(config.hidden_size, config.outputs)

    def forward(
        self, x: Tensor, structure: Tensor, edge_attr: Tensor | None = None,
        batch: Tensor | None = None, count: int = 0,
    ) -> Tensor:  # fmt: skip
        """Return the outputs ``(B, outputs)``.

        Args:
            x: Padded sequences ``(B, T, d)``, or nodes ``(N, d)``.
            structure: The lengths of sequences ``(B,)``, or the edges of graphs ``(2, E)``.
            edge_attr: Features of edges ``(E, K)``.
            batch: The graph of each node ``(N,)``.
            count: Number of graphs.
        """
        if batch is None:
            values = self.network.evaluate(x, lengths=structure)
        else:
            values = self.network.evaluate(graphs_of(x, structure, edge_attr, batch, count))
        if self.training and not self.is_calibrated:
            self._calibrate(values.detach())
        return self.head((values - self.mean) / self.scale)

    def _calibrate(self, values: Tensor) -> None:
        """Set mean and deviation of the kernel values, from those of the first batch."""
        deviation = values.std(0, correction=0)
        self.mean.copy_(values.mean(0))
        self.scale.copy_(torch.where(deviation > 0, deviation, 1.0))
        self.is_calibrated.fill_(True)

    @torch.no_grad()
    def coefficients(self) -> tuple[Tensor, Tensor]:
        """Return c_i ``(outputs, H)`` and c_0 ``(outputs,)`` in float64."""
        weight = self.head.weight.double() / self.scale.double()
        return weight, self.head.bias.double() - weight @ self.mean.double()


def graphs_of(
    x: Tensor, edge_index: Tensor, edge_attr: Tensor | None, batch: Tensor, count: int
) -> list[Any]:
    """Return the graphs of a batch as PyG ``Data``, whose nodes and edges come graph by graph."""
    from torch_geometric.data import Data

    nodes = torch.bincount(batch, minlength=count)
    edges = torch.bincount(batch[edge_index[0]], minlength=count).tolist()
    first = nodes.cumsum(0) - nodes
    nodes = nodes.tolist()
    attributes = [None] * count if edge_attr is None else edge_attr.split(edges)
    return [
        Data(x=features, edge_index=ends - start, edge_attr=attribute)
        for features, ends, start, attribute in zip(
            x.split(nodes), edge_index.split(edges, dim=1), first, attributes, strict=True
        )
    ]
