"""The n-gram filters of all gates of a cell.

L19 (12), (18), (19): each gate has its own filters X~; section 4.1: the units of a memory cell may
have different filter lengths.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from representer.errors import ArgumentError
from representer.functional import ngram_product, ngram_windows
from representer.numbers import is_number
from representer.requirements import check_integer


@dataclass(frozen=True)
class FilterBank:
    """The options of the filters of one layer.

    A dense filter has one coefficient for every feature and slot. The weights of one length are a
    matrix ``(G·H, n·I)``, with rows ordered by gate and columns by slot, that of the current step
    first.
    """

    filters: str  # "dense" or "wavelet"
    lengths: dict[int, int]  # units of each filter length, in the order of the units
    dilation: int = 1
    stride: int = 1
    unit_norm: bool = False  # scale filters and windows to length 1 (L19 footnote 2)
    free_phase: bool = False
    sampling_rate: float | None = None  # in Hz

    @classmethod
    def read(cls, hidden_size: int, options: Any, *, unit_norm: bool) -> FilterBank:
        """Check the filter options of a layer.

        Raises:
            ArgumentError: If an option has an invalid value.
        """
        o, rate = options, options.sampling_rate
        if o.filters not in ("dense", "wavelet"):
            raise ArgumentError("filters", o.filters, "'dense' or 'wavelet'")
        lengths = units_by_length(o.filter_length, hidden_size)
        if o.filters == "wavelet":
            if len(lengths) > 1:
                hint = "The decay β already gives wavelets different lengths."
                raise ArgumentError(
                    "filter_length", o.filter_length, "one length for wavelets", hint=hint
                )
            if unit_norm:
                raise ArgumentError("filters", o.filters, "'dense' for q='gaussian'")
        elif o.free_phase or rate is not None:
            name = "free_phase" if o.free_phase else "sampling_rate"
            value = o.free_phase or rate
            raise ArgumentError(name, value, "its default without filters='wavelet'")
        if rate is not None and not (is_number(rate) and 0 < rate < math.inf):
            raise ArgumentError("sampling_rate", rate, "a positive number of Hz")
        check_integer("dilation", o.dilation)
        check_integer("stride", o.stride)
        return cls(o.filters, lengths, o.dilation, o.stride, unit_norm, o.free_phase, rate)

    def of_layer(self, layer: int) -> FilterBank:
        """Return the options of a layer; wavelets and strides are only for the first.

        Further layers have dense filters, of length 1 if the first has wavelets.
        """
        if not layer:
            return self
        if self.filters == "dense":
            return replace(self, stride=1)
        return FilterBank("dense", {1: sum(self.lengths.values())}, unit_norm=self.unit_norm)

    @property
    def reach(self) -> int:
        """Number of previous steps in a window of the longest filter."""
        return (max(self.lengths) - 1) * self.dilation

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the weights of dense filters, one per length."""
        if len(self.lengths) == 1:
            return ("weight_ih",)
        return tuple(f"weight_ih_n{n}" for n in self.lengths)

    @property
    def is_plain(self) -> bool:
        """True if the products are a single matrix times the result of ``windows``."""
        return self.filters == "dense" and len(self.lengths) == 1 and not self.unit_norm

    def reset(self, weights: Sequence[Tensor], bound: float) -> None:
        """Draw every coefficient from U(−bound, bound), slot by slot for each feature."""
        for weight, n in zip(weights, self.lengths, strict=True):
            nn.init.uniform_(weight, -bound, bound)
            if n > 1:
                with torch.no_grad():
                    weight.copy_(weight.unflatten(1, (-1, n)).transpose(1, 2).flatten(1))

    def effective(self, weights: Sequence[Tensor], gates: int) -> Tensor:
        """Return the effective filters ``(G, H, I, n)``, zero-padded to the longest."""
        longest = max(self.lengths)
        padded = [
            F.pad(w, (0, longest - w.shape[-1])).unflatten(0, (gates, -1))
            for w in self._scaled(weights)
        ]
        return torch.cat(padded, dim=1)

    def windows(self, extended: Tensor, *, reverse: bool = False) -> Tensor:
        """Return the windows ``(T / stride, B, n·I)`` for plain filters."""
        (n,) = self.lengths
        return ngram_windows(extended, n, self.dilation, reverse=reverse)[self._steps(reverse)]

    def product(
        self, weights: Sequence[Tensor], extended: Tensor, gates: int, *, reverse: bool = False
    ) -> Tensor:
        """Multiply the windows of ``(P + T, B, I)`` by the filters: ``(T / stride, B, G, H)``."""
        products = []
        for weight in self._scaled(weights):
            n = weight.shape[-1]
            excess = self.reach - (n - 1) * self.dilation
            windows_slice = extended[: extended.shape[0] - excess] if reverse else extended[excess:]
            product = ngram_product(windows_slice, weight, self.dilation, reverse=reverse)
            products.append(product.unflatten(-1, (gates, -1)))
            if self.unit_norm:
                products[-1] = products[-1] / _window_norm(windows_slice, n, self.dilation, reverse)
        product = products[0] if len(products) == 1 else torch.cat(products, dim=-1)
        return product[self._steps(reverse)]

    def _steps(self, reverse: bool) -> slice:
        """Return the slice of the last step of each stride, where windows end."""
        return slice(0 if reverse else self.stride - 1, None, self.stride)

    def _scaled(self, weights: Sequence[Tensor]) -> list[Tensor]:
        """Return the filters of each length ``(G·H, I, n)``."""
        slots = [
            w.unflatten(1, (n, -1)).transpose(1, 2)
            for w, n in zip(weights, self.lengths, strict=True)
        ]
        if not self.unit_norm:
            return slots
        norms = [w.flatten(1).norm(dim=-1)[:, None, None] for w in slots]
        return [w / torch.where(n == 0, 1.0, n) for w, n in zip(slots, norms, strict=True)]


def units_by_length(filter_length: int | dict[int, int], hidden_size: int) -> dict[int, int]:
    """Convert ``filter_length`` to the number of units of each length, in the order of the units.

    Raises:
        ArgumentError: If a length is not a positive integer, or the units do not sum to
            ``hidden_size``.
    """
    lengths = filter_length if isinstance(filter_length, dict) else None
    if lengths is None and type(filter_length) is int:
        lengths = {filter_length: hidden_size}
    if not lengths or any(type(n) is not int or n < 1 for n in lengths):
        raise ArgumentError(
            "filter_length", filter_length, "a positive integer, or a dict {length: units}"
        )
    expected = f"positive numbers of units that sum to hidden_size = {hidden_size}"
    if any(type(u) is not int or u < 1 for u in lengths.values()):
        raise ArgumentError("filter_length", filter_length, expected)
    if sum(lengths.values()) != hidden_size:
        hint = f"They sum to {sum(lengths.values())}."
        raise ArgumentError("filter_length", filter_length, expected, hint=hint)
    return dict(lengths)


def _window_norm(extended: Tensor, n: int, dilation: int, reverse: bool) -> Tensor:
    """Return the length of every window ``(T, B, 1, 1)``; 1 where the window is all zeros."""
    squares = extended.square().sum(-1, keepdim=True)
    ones = torch.ones(1, 1, n, dtype=squares.dtype, device=squares.device)
    square = ngram_product(squares, ones, dilation, reverse=reverse)
    # replaced before the root, whose derivative at 0 is infinite
    return torch.where(square == 0, 1.0, square).sqrt()[..., None]
