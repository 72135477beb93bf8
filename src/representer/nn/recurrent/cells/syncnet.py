"""The filters of SyncNet, the row CNN of L19 Table 4."""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from representer.errors import ArgumentError
from representer.nn.recurrent.machine.wavelet_filters import WaveletFilters, Wavelets


class SyncNet(nn.Module):
    r"""Wavelet filters over a whole signal, centered on their sample, with a bias and relu.

    .. math::
        h_{t,k} = \max\Bigl(0, b_k + \sum_c \sum_{s=-n/2}^{n/2-1}
        \alpha_{ck} \cos(\omega_k s + \phi_{ck}) e^{-\beta_k s^2} x_{t+s,c}\Bigr)

    The signal is 0 outside of the window. Unlike the cells of Table 1, it has no gate and reads
    samples after t; the filters themselves are theirs.

    Args:
        input_size: Channels C.
        hidden_size: Filters K.
        filter_length: n, samples of a filter.
        stride: Samples between two outputs.
        filters: ``"wavelet"``.
        free_phase: Learn the phase of the first channel, too.
        sampling_rate: In Hz; None for samples.
        batch_first: Input and output are ``(B, T, …)``.

    Shape:
        - input ``(T, B, C)``
        - output ``(T / stride, B, K)``, and None in place of a state

    Raises:
        ArgumentError: If the filters are no wavelets.

    References:
        Li et al., Targeting EEG/LFP Synchrony with Neural Nets, NeurIPS 2017.
        Liang et al., Kernel-Based Approaches for Sequence Modeling, NeurIPS 2019, section 6.
    """

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        *,
        filter_length: int = 40,
        stride: int = 1,
        filters: str = "wavelet",
        free_phase: bool = False,
        sampling_rate: float | None = None,
        batch_first: bool = False,
    ) -> None:
        super().__init__()
        if filters != "wavelet":
            raise ArgumentError("filters", filters, "'wavelet' for SyncNet")
        self.hidden_size, self.stride, self.batch_first = hidden_size, stride, batch_first
        self.convolution = WaveletFilters(
            1, input_size, hidden_size, filter_length,
            stride=stride, free_phase=free_phase, sampling_rate=sampling_rate,
        )  # fmt: skip
        self.bias = nn.Parameter(torch.zeros(hidden_size))
        self.convolution.reset_parameters()

    def forward(self, input: Tensor) -> tuple[Tensor, None]:
        """Return the outputs of all filters; see the class."""
        x = input.transpose(0, 1) if self.batch_first else input
        n = self.convolution.n
        product = self.convolution(F.pad(x, (0, 0, 0, 0, n // 2, n - 1 - n // 2)))[:, :, 0]
        output = F.relu(product + self.bias.to(product.dtype))
        return output.transpose(0, 1) if self.batch_first else output, None

    def wavelets(self) -> dict[str, Wavelets]:
        """Return the wavelets; ω/2π is in Hz if there is a sampling rate."""
        return {"candidate": self.convolution.wavelets(0)}

    def filters(self) -> dict[str, Tensor]:
        """Return the filters ``(K, C, n)``."""
        return {"candidate": self.convolution.effective()[0].detach()}
