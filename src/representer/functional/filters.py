"""The n-gram input of a filter, and its product with the filter.

    X~ . X_t = X~_0 x_t + X~_1 x_{t-d} + ... + X~_{n-1} x_{t-(n-1)d}

Liang et al. 2019, (12)-(14) and section 4.2 (d is the dilation). Steps before the first are zeros
at the start of a sequence. Shapes: T time, B batch, I features, n filter length, P = (n-1)d
preceding steps of a window, O filters.
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor


def ngram_product_definition(x: Tensor, filters: Tensor, dilation: int = 1) -> Tensor:
    """Evaluate X~ . X_t as written, with zeros before the first step. An oracle.

    Args:
        x: Sequence ``(T, B, I)``.
        filters: ``(O, I, n)``; slot s multiplies x_{t - s d}.
        dilation: d, steps between the slots.

    Returns:
        ``(T, B, O)``.
    """
    products = x.new_zeros(*x.shape[:2], len(filters))
    for t in range(len(x)):
        for s in range(filters.shape[-1]):
            if t - s * dilation >= 0:
                products[t] += x[t - s * dilation] @ filters[:, :, s].T
    return products


def ngram_product(
    x_extended: Tensor, filters: Tensor, dilation: int = 1, *, reverse: bool = False
) -> Tensor:
    """Multiply every window with every filter, as one matrix product.

    Args:
        x_extended: The sequence with the P steps before it ``(P + T, B, I)``; with ``reverse``,
            with the P steps after it.
        filters: ``(O, I, n)``; slot s multiplies x_{t - s d}, or x_{t + s d} with ``reverse``.
        dilation: d, steps between the slots.
        reverse: Read the sequence from its end.

    Returns:
        ``(T, B, O)``.
    """
    windows = ngram_windows(x_extended, filters.shape[-1], dilation, reverse=reverse)
    return F.linear(windows, filters.movedim(2, 1).flatten(1))


def ngram_windows(
    x_extended: Tensor, n: int, dilation: int = 1, *, reverse: bool = False
) -> Tensor:
    """Return X_t of every step ``(T, B, n I)``, newest slot first; see `ngram_product`."""
    if n == 1:
        return x_extended
    reach = (n - 1) * dilation
    time = x_extended.shape[0] - reach
    starts = range(0, reach + 1, dilation)
    shifted = [x_extended[start : start + time] for start in (starts if reverse else starts[::-1])]
    return torch.cat(shifted, dim=-1)


# Wavelet filters: an oscillation with a Gaussian window.
#
#     x~(t) = alpha cos(omega t + phi) exp(-beta t^2)
#
# Liang et al. 2019, (21) and appendix A. The time t of a slot is counted in samples from the middle
# of the window: of n samples, oldest first, t = -floor(n/2), ..., n-1-floor(n/2). Shapes: O
# filters, I features (channels), n filter length.


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


# A convolution over time with filters of low rank, separable into channels and slots.
#
#     y_t[o] = sum_r sum_k taps_r[o, k] z_r[t stride + k dilation, o],    z_r[s] = mix_r x_s
#
# Wavelets of one frequency for all channels (Liang et al. 2019, (21)) have rank R = 2: a cosine and
# a sine, weighted by channel. Shapes: S samples, I channels, O filters, n slots.


def separable_convolution(
    x: Tensor, mix: Tensor, taps: Tensor, *, stride: int = 1, dilation: int = 1
) -> Tensor:
    """Convolve with separable filters, whose slot 0 is the oldest sample as in ``F.conv1d``.

    Args:
        x: ``(S, B, I)``.
        mix: ``(R, O, I)``.
        taps: ``(R, O, n)``.
        stride: Samples between two steps.
        dilation: Samples between two slots.

    Returns:
        y ``(T, B, O)`` with T = floor((S - (n - 1) dilation - 1) / stride) + 1.
    """
    filters = torch.einsum("roi,ron->oin", mix, taps)
    product = F.conv1d(x.permute(1, 2, 0), filters, stride=stride, dilation=dilation)
    return product.permute(2, 0, 1)


def separable_convolution_definition(
    x: Tensor, mix: Tensor, taps: Tensor, *, stride: int = 1, dilation: int = 1
) -> Tensor:
    """Evaluate the sum as written. An oracle; arguments as in ``separable_convolution``."""
    rank, outputs, n = taps.shape
    steps = (x.shape[0] - (n - 1) * dilation - 1) // stride + 1
    y = x.new_zeros(steps, x.shape[1], outputs)
    for t in range(steps):
        for b in range(x.shape[1]):
            for o in range(outputs):
                for r in range(rank):
                    for k in range(n):
                        mixed = torch.dot(mix[r, o], x[t * stride + k * dilation, b])
                        y[t, b, o] += taps[r, o, k] * mixed
    return y
