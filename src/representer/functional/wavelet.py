r"""Wavelet filters: an oscillation with a Gaussian window.

    x~(t) = alpha cos(omega t + phi) exp(-beta t^2)

Liang et al. 2019, (21) and appendix A. The time t of a slot is counted in samples from the middle
of the window: of n samples, oldest first, t = -floor(n/2), ..., n-1-floor(n/2). Shapes: O filters,
I features (channels), n filter length.
"""

from __future__ import annotations

import math

import torch
from torch import Tensor


def wavelet_times(n: int, *, like: Tensor) -> Tensor:
    """Return t of each slot ``(n,)`` in samples, newest slot first: slot s multiplies x_{t-s}."""
    newest = n - 1 - n // 2
    return torch.arange(newest, newest - n, -1, device=like.device, dtype=like.dtype)


def wavelet_filters(
    amplitude: Tensor, frequency: Tensor, phase: Tensor, decay: Tensor, n: int
) -> Tensor:
    """Return the coefficients of wavelet filters.

    Args:
        amplitude: alpha ``(…, O, I)``.
        frequency: omega ``(…, O)``, radians per sample; one oscillation for all channels.
        phase: phi ``(…, O, I)``, radians.
        decay: beta ``(…, O)``, per squared sample, non-negative.
        n: Slots of a filter.

    Returns:
        ``(…, O, I, n)``; slot s multiplies x_{t - s}.
    """
    t = wavelet_times(n, like=amplitude)
    angle = frequency[..., None, None] * t + phase[..., None]
    window = torch.exp(-decay[..., None, None] * t.square())
    return amplitude[..., None] * torch.cos(angle) * window


def wavelet_factors(
    amplitude: Tensor, frequency: Tensor, phase: Tensor, decay: Tensor, n: int
) -> tuple[Tensor, Tensor]:
    """Factor wavelet filters into channels and slots; arguments as in ``wavelet_filters``.

    alpha cos(omega t + phi) = (alpha cos phi) cos(omega t) + (alpha sin phi) (-sin(omega t))

    Returns:
        Weights of the channels ``(2, …, O, I)``, and the windowed cosine and sine
        ``(2, …, O, n)``; slot s multiplies x_{t - s}.
    """
    t = wavelet_times(n, like=amplitude)
    angle = frequency[..., None] * t
    window = torch.exp(-decay[..., None] * t.square())
    mix = torch.stack((amplitude * phase.cos(), amplitude * phase.sin()))
    return mix, torch.stack((angle.cos(), -angle.sin())) * window


def wavelet_filters_definition(
    amplitude: Tensor, frequency: Tensor, phase: Tensor, decay: Tensor, n: int
) -> Tensor:
    """Evaluate (21) entry by entry for ``(O, I)`` filters. An oracle."""
    filters = amplitude.new_zeros(*amplitude.shape, n)
    for o in range(amplitude.shape[0]):
        for c in range(amplitude.shape[1]):
            for position in range(n):  # from the oldest sample
                t = position - n // 2
                wave = math.cos(float(frequency[o]) * t + float(phase[o, c]))
                window = math.exp(-float(decay[o]) * t**2)
                filters[o, c, n - 1 - position] = float(amplitude[o, c]) * wave * window
    return filters
