"""The configuration of the signal classifier."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from representer.models.cells import SIGNAL_CELLS, resolve_cell
from representer.models.config import require_sizes
from representer.requirements import require, require_choices, require_fractions

POOLINGS = ("power", "mean", "last", "max", "flatten", "attention")
_SIZES = ("num_channels", "hidden_size", "filter_length", "stride", "num_layers")


@dataclass(frozen=True)
class SignalClassifierConfig:
    """The configuration of `SignalClassifier`; the defaults are those of L19 section 6.

    Args:
        num_channels: C.
        num_classes: Number of classes.
        cell: A key of ``models.CELLS`` whose layer has wavelet filters, or ``"syncnet"``.
        hidden_size: K, units of the cell and filters of each gate.
        filters: ``"wavelet"`` or ``"dense"``.
        filter_length: n, samples of a filter.
        stride: Samples between two steps of the cell.
        sampling_rate: Sampling rate of the signal in Hz.
        num_layers: Layers of the cell.
        layer_norm: Normalize the cell state.
        free_phase: Learn the phase of the first channel of a wavelet, too.
        channel_dropout: Probability of setting a channel to 0 for a whole window in training.
        dropout: Dropout before the last layer.
        pooling: Of the outputs of all steps: their ``"mean"``; the ``"last"`` one; the largest of
            each unit, ``"max"``; ``"power"``: the mean and the logarithm of the mean square;
            ``"attention"``: a weighted mean, whose weights are the softmax of a learned linear
            function of the tanh of an output; ``"flatten"``: the largest of each unit in every part
            of `pool_length` samples, all parts side by side.
        pool_length: Samples of a part for ``"flatten"``; None for `filter_length`.
        window_length: Samples of a window, which ``"flatten"`` needs.

    Raises:
        ArgumentError: If a value is out of range.
    """

    num_channels: int
    num_classes: int
    sampling_rate: float
    cell: str = "rkm-lstm"
    hidden_size: int = 30
    filters: Literal["dense", "wavelet"] = "wavelet"
    filter_length: int = 40
    stride: int = 20
    num_layers: int = 1
    layer_norm: bool = False
    free_phase: bool = False
    channel_dropout: float = 0.0
    dropout: float = 0.0
    pooling: Literal["power", "mean", "last", "max", "flatten", "attention"] = "mean"
    pool_length: int | None = None
    window_length: int | None = None

    def __post_init__(self) -> None:
        resolve_cell(self.cell, SIGNAL_CELLS)
        require_sizes(self, *_SIZES)
        require_sizes(self, "num_classes", least=2)
        require_fractions(self, "channel_dropout", "dropout")
        is_rate = 0 < self.sampling_rate < math.inf
        require(self, "sampling_rate", is_rate, "a positive number of Hz")
        require(self, "filters", self.filters in ("dense", "wavelet"), "'dense' or 'wavelet'")
        require_choices(self, pooling=POOLINGS)
        for name in ("pool_length", "window_length"):
            value = getattr(self, name)
            is_length = value is None or (type(value) is int and value >= self.stride)
            require(
                self, name, is_length, f"None, or an integer of at least {self.stride}, a stride"
            )
        needs_length = self.pooling == "flatten" and self.window_length is None
        expected = "the samples of a window with pooling='flatten'"
        require(self, "window_length", not needs_length, expected)

    @property
    def pool_steps(self) -> int:
        """Steps of the cell in a part, with ``pooling="flatten"``."""
        return max(1, (self.pool_length or self.filter_length) // self.stride)

    @property
    def pooled_size(self) -> int:
        """Number of features of the last layer."""
        if self.pooling == "power":
            return 2 * self.hidden_size
        if self.pooling != "flatten":
            return self.hidden_size
        assert self.window_length is not None
        return math.ceil(self.window_length // self.stride / self.pool_steps) * self.hidden_size
