"""The configuration of the signal classifier."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

from representer.errors import ArgumentError
from representer.models.cells import resolve_cell

POOLINGS = ("power", "mean", "last")
_SIZES = ("num_channels", "hidden_size", "filter_length", "stride", "num_layers")


@dataclass(frozen=True)
class SignalClassifierConfig:
    """The configuration of `SignalClassifier`; the defaults are those of L19 section 6.

    Args:
        num_channels: C.
        num_classes: Number of classes.
        cell: A key of ``models.CELLS`` whose layer has wavelet filters.
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
        pooling: ``"mean"`` of all steps, or the ``"last"`` one, or ``"power"``: the mean and the
            logarithm of the mean square.

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
    pooling: Literal["power", "mean", "last"] = "mean"

    def __post_init__(self) -> None:
        resolve_cell(self.cell)
        for name in _SIZES:
            self._require(name, _is_integer(getattr(self, name), 1), "a positive integer")
        self._require("num_classes", _is_integer(self.num_classes, 2), "an integer of at least 2")
        for name in ("channel_dropout", "dropout"):
            self._require(name, 0 <= getattr(self, name) < 1, "a number in [0, 1)")
        is_rate = 0 < self.sampling_rate < math.inf
        self._require("sampling_rate", is_rate, "a positive number of Hz")
        self._require("filters", self.filters in ("dense", "wavelet"), "'dense' or 'wavelet'")
        self._require("pooling", self.pooling in POOLINGS, f"one of {', '.join(POOLINGS)}")

    def _require(self, name: str, is_valid: bool, expected: str) -> None:
        if not is_valid:
            raise ArgumentError(name, getattr(self, name), expected)


def _is_integer(value: Any, minimum: int) -> bool:
    return type(value) is int and value >= minimum
