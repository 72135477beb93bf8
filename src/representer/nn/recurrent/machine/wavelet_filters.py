"""Wavelet filters of all gates of a cell, L19 (21) and appendix A."""

from __future__ import annotations

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from representer import ops
from representer.functional import wavelet_factors, wavelet_filters

AMPLITUDE = 0.05  # initially alpha ~ U(-AMPLITUDE, AMPLITUDE)
FREQUENCY = 1.0  # omega ~ U(0, FREQUENCY), radians per sample
PHASE = 0.05  # phi ~ N(0, PHASE^2)
DECAY = 0.05  # beta ~ U(0, DECAY), per squared sample
LOWEST_DECAY = 1e-4  # initially; below it, the gradient of the softplus vanishes


class Wavelets(NamedTuple):
    """The wavelets of a gate.

    Attributes:
        amplitude: α ``(H, I)``.
        frequency: ω ``(H,)`` in rad/s, or in radians per sample without a sampling rate.
        phase: φ ``(H, I)`` in radians.
        decay: β ``(H,)`` in 1/s², or per squared sample without a sampling rate; non-negative.
    """

    amplitude: Tensor
    frequency: Tensor
    phase: Tensor
    decay: Tensor


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
        self,
        gates: int,
        input_size: int,
        hidden_size: int,
        n: int,
        *,
        dilation: int = 1,
        stride: int = 1,
        free_phase: bool = False,
        sampling_rate: float | None = None,
        device: torch.device | str | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
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
        amplitude, frequency, phase, decay = (part[gate].detach() for part in self.parts())
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
        mix, taps = (part.flatten(1, 2) for part in wavelet_factors(*self.parts(), self.n))
        return ops.separable_convolution(
            windowed,
            mix.to(windowed.dtype),
            (taps if reverse else taps.flip(-1)).to(windowed.dtype),
            stride=self.stride,
            dilation=self.dilation,
        )
