"""The filters of a layer: their options, and the bank built from them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import torch

from representer.errors import ArgumentError
from representer.nn.recurrent.filters import DenseFilters, units_by_length
from representer.nn.recurrent.options import check_size
from representer.nn.recurrent.wavelet_filters import WaveletFilters


@dataclass(frozen=True)
class FilterBank:
    """The filters of one layer of a machine.

    Attributes:
        filters: ``"dense"`` or ``"wavelet"``.
        lengths: Units of each filter length, in the order of the units.
        dilation: Steps between the slots of a filter.
        stride: Steps of the input between two of the cell.
        unit_norm: Whether filters and windows are scaled to length 1.
        free_phase: Whether the first channel of a wavelet has a phase of its own.
        sampling_rate: In Hz, or None.
    """

    filters: str
    lengths: dict[int, int]
    dilation: int
    stride: int
    unit_norm: bool
    free_phase: bool
    sampling_rate: float | None

    @classmethod
    def read(
        cls,
        hidden_size: int,
        filters: Any,
        filter_length: Any,
        *,
        dilation: int,
        stride: int,
        unit_norm: bool,
        free_phase: bool,
        sampling_rate: float | None,
    ) -> FilterBank:
        """Check the options of a bank.

        Raises:
            ArgumentError: If a choice is not one that there is.
        """
        if filters not in ("dense", "wavelet"):
            raise ArgumentError("filters", filters, "'dense' or 'wavelet'")
        lengths = units_by_length(filter_length, hidden_size)
        if filters == "wavelet":
            if len(lengths) > 1:
                hint = "The decay β already lets wavelets be of different lengths."
                raise ArgumentError(
                    "filter_length", filter_length, "one length for wavelets", hint=hint
                )
            if unit_norm:
                raise ArgumentError("filters", filters, "'dense' for q='gaussian'")
        elif free_phase or sampling_rate is not None:
            name = "free_phase" if free_phase else "sampling_rate"
            value = free_phase or sampling_rate
            raise ArgumentError(name, value, "its default without filters='wavelet'")
        is_rate = isinstance(sampling_rate, int | float) and not isinstance(sampling_rate, bool)
        if sampling_rate is not None and not (is_rate and 0 < sampling_rate < math.inf):
            raise ArgumentError("sampling_rate", sampling_rate, "a positive number of Hz")
        check_size("dilation", dilation)
        check_size("stride", stride)
        return cls(filters, lengths, dilation, stride, unit_norm, free_phase, sampling_rate)

    def of_layer(self, layer: int) -> FilterBank:
        """Return the bank of a layer: wavelets and strides are for the signal, not for what h is.

        Further layers have dense filters; of a wavelet layer, of length 1.
        """
        if not layer:
            return self
        is_dense = self.filters == "dense"
        lengths = self.lengths if is_dense else {1: sum(self.lengths.values())}
        dilation = self.dilation if is_dense else 1
        return FilterBank("dense", lengths, dilation, 1, self.unit_norm, False, None)

    @property
    def reach(self) -> int:
        """Steps before a step that its longest filter sees."""
        return (max(self.lengths) - 1) * self.dilation

    def build(
        self,
        gates: int,
        input_size: int,
        *,
        device: torch.device | str | None,
        dtype: torch.dtype | None,
    ) -> DenseFilters | WaveletFilters:
        """Make the bank of G gates."""
        if self.filters == "dense":
            return DenseFilters(
                gates,
                input_size,
                self.lengths,
                dilation=self.dilation,
                stride=self.stride,
                unit_norm=self.unit_norm,
                device=device,
                dtype=dtype,
            )
        ((n, units),) = self.lengths.items()
        return WaveletFilters(
            gates,
            input_size,
            units,
            n,
            dilation=self.dilation,
            stride=self.stride,
            free_phase=self.free_phase,
            sampling_rate=self.sampling_rate,
            device=device,
            dtype=dtype,
        )
