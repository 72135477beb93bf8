"""Augmentation of training windows that preserves oscillations and phase lags."""

from __future__ import annotations

import torch
from torch import Tensor

GAIN = 0.2  # standard deviation of a channel's log gain, similar to that of electrodes
NOISE = 0.3  # standard deviation of white noise; a standardized channel has 1


def augmented(signals: Tensor) -> Tensor:
    """Return windows with random signs, circular shifts in time, gains and noise.

    All channels of a window have the same sign, and all windows the same circular shift, so the
    lags between channels stay the same.

    Args:
        signals: Standardized windows ``(B, C, T)``.

    Returns:
        The augmented windows, drawn with the global generator of torch.
    """
    windows, channels, samples = signals.shape
    options = {"device": signals.device, "dtype": signals.dtype}
    signs = torch.randint(2, (windows, 1, 1), device=signals.device) * 2 - 1
    gains = torch.exp(GAIN * torch.randn(windows, channels, 1, **options))
    shifted = torch.roll(signals, int(torch.randint(samples, ())), dims=2)
    return shifted * signs * gains + NOISE * torch.randn(windows, channels, samples, **options)
