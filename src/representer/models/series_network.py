"""The network of series: a cell on the values of the channels, and the mean of its outputs."""

from __future__ import annotations

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from representer.checks import require_fractions
from representer.errors import ShapeError
from representer.models.cells import build_cell, resolve_cell
from representer.models.config import require_sizes
from representer.models.hub import HubModel


@dataclass(frozen=True)
class SeriesNetworkConfig:
    """The configuration of `SeriesNetwork`.

    Args:
        num_channels: C.
        outputs: Number of outputs.
        cell: A key of ``models.CELLS``.
        hidden_size: Units of the cell.
        filter_length: Slots of a filter.
        dilation: Steps between two slots.
        num_layers: Layers of the cell.
        dropout: Before the last layer.

    Raises:
        ArgumentError: If a value is out of range.
    """

    num_channels: int
    outputs: int
    cell: str = "gated-cnn"
    hidden_size: int = 64
    filter_length: int = 9
    dilation: int = 1
    num_layers: int = 2
    dropout: float = 0.0

    def __post_init__(self) -> None:
        resolve_cell(self.cell)
        require_sizes(
            self, "num_channels", "outputs", "hidden_size", "filter_length", "dilation",
            "num_layers",
        )  # fmt: skip
        require_fractions(self, "dropout")


class SeriesNetwork(HubModel):
    r"""Predicts numbers for a series from the mean of a cell's outputs over its true length.

    .. math:: y = W \frac1T \sum_{t=1}^T h_t + b, \qquad h_{1:T} = \mathrm{cell}(x_{1:T})

    Args:
        config: The configuration.

    Shape:
        - series ``(B, T, C)``, padded at the end; lengths ``(B,)``
        - output ``(B, outputs)``
    """

    def __init__(self, config: SeriesNetworkConfig) -> None:
        super().__init__()
        self.config = c = config
        options = {"num_layers": c.num_layers}
        if c.filter_length > 1 or c.dilation > 1:
            options |= {"filter_length": c.filter_length, "dilation": c.dilation}
        self.cell = build_cell(c.cell, c.num_channels, c.hidden_size, options)
        self.head = nn.Linear(c.hidden_size, c.outputs)

    def forward(self, series: Tensor, lengths: Tensor) -> Tensor:
        """Return the outputs.

        Raises:
            ShapeError: If a shape is wrong.
        """
        if series.dim() != 3 or series.shape[2] != self.config.num_channels:
            raise ShapeError("series", series.shape, f"(batch, time, {self.config.num_channels})")
        outputs, _ = self.cell(series)  # causal: padding does not affect earlier outputs
        is_step = torch.arange(series.shape[1], device=series.device) < lengths[:, None]
        mean = (outputs * is_step[..., None]).sum(1) / lengths[:, None]
        return self.head(F.dropout(mean, self.config.dropout, self.training))
