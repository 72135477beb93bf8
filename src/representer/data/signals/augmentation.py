"""Windows changed at random in training, in what does not matter to oscillations and lags."""

from __future__ import annotations

import torch
from torch import Tensor

GAIN = 0.2  # deviation of the logarithm of a channel's gain: electrodes differ by about that
NOISE = 0.3  # deviation of white noise; a standardized channel has 1


def augmented(signals: Tensor) -> Tensor:
    """Return the windows upside down or not, turned round in time, with other gains and noise.

    All channels of a window share its sign, and all windows the turn, so that the lags of channels
    stay as they are. The end of a window that is turned round meets its start.

    Args:
        signals: Standardized windows ``(B, C, T)``.

    Returns:
        As many windows, drawn with torch's own generator.
    """
    windows, channels, samples = signals.shape
    options = {"device": signals.device, "dtype": signals.dtype}
    signs = torch.randint(2, (windows, 1, 1), device=signals.device) * 2 - 1
    gains = torch.exp(GAIN * torch.randn(windows, channels, 1, **options))
    turned = torch.roll(signals, int(torch.randint(samples, ())), dims=2)
    return turned * signs * gains + NOISE * torch.randn(windows, channels, samples, **options)
