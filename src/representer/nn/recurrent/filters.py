"""The n-gram filters of all gates of a cell, learned freely or as wavelets, L19 (21).

L19 (12), (18), (19): each gate has its own filters X~; section 4.1: the units of a memory cell may
have different filter lengths.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from representer import ops
from representer.checks import check_integer, is_number
from representer.errors import ArgumentError
from representer.functional import ngram_product, ngram_windows, wavelet_factors, wavelet_filters


@dataclass(frozen=True)
class FilterBank:
    """The options of the filters of one layer.

    A dense filter has one coefficient for every feature and slot. The weights of one length are a
    matrix ``(G·H, n·I)``, with rows ordered by gate and columns by slot, that of the current step
    first.
    """

    filters: str  # "dense", "wavelet", or "layer": a module in place of filters
    lengths: dict[int, int]  # units of each filter length, in the order of the units
    dilation: int = 1
    stride: int = 1
    distance: bool = False  # -||x~ - X||^2 / 2 in place of the product (L19, Gaussian footnote)
    unit_norm: bool = False  # of filters and windows scaled to length 1
    free_phase: bool = False
    sampling_rate: float | None = None  # in Hz

    @classmethod
    def read(cls, hidden_size: int, options: Any, *, distance: bool, unit_norm: bool) -> FilterBank:
        """Check the filter options of a layer."""
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
            if distance:
                raise ArgumentError("filters", o.filters, "'dense' for q='gaussian'")
        elif o.free_phase or rate is not None:
            name = "free_phase" if o.free_phase else "sampling_rate"
            value = o.free_phase or rate
            raise ArgumentError(name, value, "its default without filters='wavelet'")
        if rate is not None and not (is_number(rate) and 0 < rate < math.inf):
            raise ArgumentError("sampling_rate", rate, "a positive number of Hz")
        check_integer("dilation", o.dilation)
        check_integer("stride", o.stride)
        filters = o.filters
        if o.input_layer is not None:
            makes = callable(o.input_layer) and not isinstance(o.input_layer, nn.Module)
            if not makes or filters != "dense" or distance or len(lengths) > 1:
                expected = "a layer's class, in place of dense filters of one length"
                raise ArgumentError("input_layer", o.input_layer, expected)
            filters = "layer"
        sizes = lengths, o.dilation, o.stride
        return cls(filters, *sizes, distance, distance and unit_norm, o.free_phase, rate)

    def of_layer(self, layer: int) -> FilterBank:
        """Return the options of a layer; wavelets and strides are only for the first.

        Further layers have dense filters, of length 1 if the first has wavelets.
        """
        if not layer:
            return self
        if self.filters != "wavelet":
            return replace(self, stride=1)
        return FilterBank("dense", {1: sum(self.lengths.values())})  # a distance has no wavelets

    @property
    def reach(self) -> int:
        """Number of previous steps in a window of the longest filter."""
        return (max(self.lengths) - 1) * self.dilation

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the weights of dense filters, one per length."""
        if self.filters != "dense":
            return ()
        if len(self.lengths) == 1:
            return ("weight_ih",)
        return tuple(f"weight_ih_n{n}" for n in self.lengths)

    @property
    def is_plain(self) -> bool:
        """True if the products are a single matrix times the result of ``windows``."""
        return (
            self.filters == "dense"
            and len(self.lengths) == 1
            and not (self.distance or self.unit_norm)
        )

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
        """Return the windows ``(T / stride, B, n·I)`` of one length."""
        (n,) = self.lengths
        return ngram_windows(extended, n, self.dilation, reverse=reverse)[self._steps(reverse)]

    def product(
        self, weights: Sequence[Tensor], extended: Tensor, gates: int, *, reverse: bool = False
    ) -> Tensor:
        """Multiply the windows of ``(P + T, B, I)`` by the filters: ``(T / stride, B, G, H)``.

        With ``distance``, minus half the squared distance is the product minus half both squares.
        """
        products = []
        for weight in self._scaled(weights):
            n = weight.shape[-1]
            excess = self.reach - (n - 1) * self.dilation
            windows_slice = extended[: extended.shape[0] - excess] if reverse else extended[excess:]
            product = ngram_product(windows_slice, weight, self.dilation, reverse=reverse)
            products.append(product.unflatten(-1, (gates, -1)))
            if not (self.distance or self.unit_norm):
                continue
            square = _window_square(windows_slice, n, self.dilation, reverse)
            if self.unit_norm:  # zeros are replaced before the root, infinitely steep at 0
                products[-1] = products[-1] / torch.where(square == 0, 1.0, square).sqrt()
            if self.distance:
                of_filters = weight.flatten(1).square().sum(1).unflatten(0, (gates, -1))
                halves = 1.0 if self.unit_norm else (square + of_filters) / 2
                products[-1] = products[-1] - halves
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
    """Convert ``filter_length`` to the units of each length, in the order of the units."""
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


def _window_square(extended: Tensor, n: int, dilation: int, reverse: bool) -> Tensor:
    """Return the squared length of every window ``(T, B, 1, 1)``."""
    squares = extended.square().sum(-1, keepdim=True)
    ones = torch.ones(1, 1, n, dtype=squares.dtype, device=squares.device)
    return ngram_product(squares, ones, dilation, reverse=reverse)[..., None]


# Wavelet filters of all gates of a cell, L19 (21) and appendix A.

AMPLITUDE = 0.05  # initially alpha ~ U(-AMPLITUDE, AMPLITUDE)
FREQUENCY = 1.0  # omega ~ U(0, FREQUENCY), radians per sample
PHASE = 0.05  # phi ~ N(0, PHASE^2)
DECAY = 0.05  # beta ~ U(0, DECAY), per squared sample
LOWEST_DECAY = 1e-4  # initially; below it, the gradient of the softplus vanishes


class Wavelets(NamedTuple):
    """The wavelets of a gate."""

    amplitude: Tensor  # α ``(H, I)``
    frequency: Tensor  # ω ``(H,)`` in rad/s, or in radians per sample without a sampling rate
    phase: Tensor  # φ ``(H, I)`` in radians
    decay: Tensor  # β ``(H,)`` in 1/s², or per squared sample without a sampling rate; non-negative


class WaveletFilters(nn.Module):
    r"""Filters :math:`\alpha \cos(\omega t + \phi) e^{-\beta t^2}`, with four parameters each.

    The parameters are in units of samples, which gives them a suitable scale for optimization; the
    sampling rate converts them to rad/s. β is the softplus of its parameter. The product with the
    input is a convolution, without copies of windows.

    Without ``free_phase``, the phase of the first channel is 0 and the others are relative to it.

    Attributes:
        amplitude: α ``(G·H, I)``, ordered by gate like all parameters.
        frequency: ω ``(G·H,)`` in radians per sample.
        phase: φ ``(G·H, I)``, or without that of the first channel.
        raw_decay: softplus^{−1} of β ``(G·H,)``.
    """

    def __init__(
        self, gates: int, input_size: int, hidden_size: int, n: int, *, dilation: int = 1,
        stride: int = 1, free_phase: bool = False, sampling_rate: float | None = None,
        device: torch.device | str | None = None, dtype: torch.dtype | None = None,
    ) -> None:  # fmt: skip
        super().__init__()
        self.n, self.dilation, self.stride = n, dilation, stride
        self.reach = (n - 1) * dilation
        self.free_phase, self.sampling_rate = free_phase, sampling_rate

        def parameter(*shape: int) -> nn.Parameter:
            return nn.Parameter(
                torch.empty(gates * hidden_size, *shape, device=device, dtype=dtype)
            )

        self.gates = gates
        self.amplitude = parameter(input_size)
        self.frequency = parameter()
        self.phase = parameter(input_size if free_phase else input_size - 1)
        self.raw_decay = parameter()

    def reset_parameters(self) -> None:
        """Draw the filters as in Li et al. (2017)."""
        nn.init.uniform_(self.amplitude, -AMPLITUDE, AMPLITUDE)
        nn.init.uniform_(self.frequency, 0, FREQUENCY)
        nn.init.normal_(self.phase, std=PHASE)
        nn.init.uniform_(self.raw_decay, LOWEST_DECAY, DECAY)
        with torch.no_grad():  # the inverse of the softplus
            self.raw_decay.copy_(self.raw_decay.expm1().log())

    def parts(self) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        """Return α ``(G, H, I)``, ω ``(G, H)``, φ ``(G, H, I)`` and β ``(G, H)`` per sample."""
        phase = self.phase if self.free_phase else F.pad(self.phase, (1, 0))
        parts = self.amplitude, self.frequency, phase, F.softplus(self.raw_decay)
        amplitude, frequency, phase, decay = (p.unflatten(0, (self.gates, -1)) for p in parts)
        return amplitude, frequency, phase, decay

    def wavelets(self, gate: int) -> Wavelets:
        """Return the filters of a gate in the units of the sampling rate."""
        amplitude, frequency, phase, decay = (p[gate].detach() for p in self.parts())
        rate = (self.sampling_rate or 1.0) / self.dilation  # ω and β are per slot
        return Wavelets(amplitude, frequency * rate, phase, decay * rate**2)

    def effective(self) -> Tensor:
        """Return the effective filters ``(G, H, I, n)``."""
        return wavelet_filters(*self.parts(), self.n)

    @property
    def is_separable(self) -> bool:
        """Return True if mixing the channels of a sample is cheaper than one filter per channel.

        Compares the numbers of multiplications, forward and backward, in agreement with timings.
        """
        channels = self.amplitude.shape[-1]
        return 3 * (channels * self.stride + self.n) < channels * self.n

    def forward(self, extended: Tensor, *, reverse: bool = False) -> Tensor:
        """Convolve the extended sequence ``(P + T, B, I)``: ``(T / stride, B, G, H)``."""
        windowed = extended if reverse else extended[self.stride - 1 :]
        if self.is_separable:
            product = self._by_factors(windowed, reverse)
        else:
            filters = self.effective().flatten(0, 1)
            kernel = (filters if reverse else filters.flip(-1)).to(windowed.dtype)
            product = F.conv1d(
                windowed.permute(1, 2, 0), kernel, stride=self.stride, dilation=self.dilation
            ).permute(2, 0, 1)
        return product.unflatten(-1, (self.gates, -1))

    def _by_factors(self, windowed: Tensor, reverse: bool) -> Tensor:
        mix, taps = (factor.flatten(1, 2) for factor in wavelet_factors(*self.parts(), self.n))
        return ops.separable_convolution(
            windowed, mix.to(windowed.dtype),
            (taps if reverse else taps.flip(-1)).to(windowed.dtype), stride=self.stride,
            dilation=self.dilation,
        )  # fmt: skip


# The inputs before a chunk of a sequence, for n-gram filters.
#
# L19 (14): X_t = (x_t, x_{t-1}, ..., x_{t-n+1}) with zeros before the first step. Streaming
# replaces the zeros by the last inputs of the previous chunk. For a reverse direction, the window
# follows the true end of each sequence.
#
# Shapes: T time, B batch, I features, P length of the window.


def extend(x: Tensor, window: Tensor, lengths: Tensor | None, reverse: bool) -> Tensor:
    """Prepend the window ``(B, P, I)``, oldest first, to the sequence ``(T, B, I)``.

    With ``reverse``, the window follows the true end of each sequence, its oldest input last.
    """
    if not window.shape[1]:
        return x
    window_PBI = window.transpose(0, 1)
    if not reverse:
        return torch.cat((window_PBI, x))
    if lengths is None:
        return torch.cat((x, window_PBI.flip(0)))
    extended = torch.cat((x, torch.zeros_like(window_PBI)))
    steps, batch = _after(lengths, window_PBI.shape[0]), torch.arange(x.shape[1], device=x.device)
    window_PBI = window_PBI.flip(0).to(extended.dtype)  # autocast allows another precision
    return extended.index_put((steps, batch.expand_as(steps)), window_PBI)


def last_inputs(extended: Tensor, reach: int, lengths: Tensor | None, reverse: bool) -> Tensor:
    """Return the window ``(B, P, I)`` for the next chunk, oldest input first."""
    if not reach:
        return extended.new_empty(extended.shape[1], 0, extended.shape[2])
    if reverse:
        window_PBI = extended[:reach].flip(0)
    elif lengths is None:
        window_PBI = extended[extended.shape[0] - reach :]
    else:
        steps = _after(lengths, reach)
        batch = torch.arange(extended.shape[1], device=extended.device)
        window_PBI = extended[steps, batch.expand_as(steps)]
    return window_PBI.transpose(0, 1).clone(memory_format=torch.contiguous_format)


def _after(lengths: Tensor, reach: int) -> Tensor:
    """Return the ``reach`` steps after the true end of each sequence ``(P, B)``."""
    return lengths + torch.arange(reach, device=lengths.device)[:, None]
