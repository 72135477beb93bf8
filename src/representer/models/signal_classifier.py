"""Signal classifier: wavelet filters in a recurrent cell, one linear layer on its states."""

from __future__ import annotations

from typing import Any

import torch.nn.functional as F
from torch import Tensor, nn

from representer.errors import ArgumentError, KindError, ShapeError
from representer.models.cells import build_cell
from representer.models.signal_classifier_config import SignalClassifierConfig


class SignalClassifier(nn.Module):
    r"""Classifies windows of a multichannel signal by a recurrent cell with wavelet filters.

    .. math::
        y = W \bar h + b, \qquad \bar h = \frac1S \sum_{s=1}^S h_s, \quad h_{1:S} = \mathrm{cell}(x)

    with S = T / stride steps, or with the last state instead of the mean. Channel dropout drops a
    channel for a whole window and scales the others up.

    Args:
        config: The configuration.

    Shape:
        - signal ``(B, C, T)``, T at least `stride`; samples at the start that do not fill a
          stride are skipped
        - output ``(B, classes)``

    References:
        Liang et al., Kernel-Based Approaches for Sequence Modeling, NeurIPS 2019,
        section 6, appendix A.
    """

    def __init__(self, config: SignalClassifierConfig) -> None:
        super().__init__()
        self.config = c = config
        options: dict[str, Any] = {
            "num_layers": c.num_layers,
            "filter_length": c.filter_length,
            "stride": c.stride,
            "filters": c.filters,
            "layer_norm": c.layer_norm,
            "initialization": "paper",
        }
        if c.filters == "wavelet":
            options |= {"free_phase": c.free_phase, "sampling_rate": float(c.sampling_rate)}
        elif c.free_phase:
            raise ArgumentError("free_phase", True, "False without filters='wavelet'")
        self.cell = build_cell(c.cell, c.num_channels, c.hidden_size, options, batch_first=False)
        self.head = nn.Linear(c.hidden_size, c.num_classes)

    def forward(self, signal: Tensor) -> Tensor:
        """Return the logits of each class.

        Args:
            signal: ``(B, C, T)``, standardized as in training.

        Raises:
            ShapeError: If a shape is wrong.
            KindError: If it is not a floating-point tensor.
        """
        return self.head(F.dropout(self.encode(signal), self.config.dropout, self.training))

    def encode(self, signal: Tensor) -> Tensor:
        """Return the pooled states ``(B, K)``, see `forward`."""
        c = self.config
        if not isinstance(signal, Tensor) or not signal.is_floating_point():
            kind = str(signal.dtype) if isinstance(signal, Tensor) else type(signal).__name__
            raise KindError("signal", kind, "a floating-point tensor (batch, channels, samples)")
        if signal.dim() != 3 or signal.shape[1] != c.num_channels or signal.shape[2] < c.stride:
            expected = f"(batch, {c.num_channels}, samples) with at least {c.stride} samples"
            raise ShapeError("signal", signal.shape, expected)
        if c.channel_dropout:
            mask = F.dropout(signal.new_ones(signal.shape[:2]), c.channel_dropout, self.training)
            signal = signal * mask[:, :, None]
        x = signal[:, :, signal.shape[2] % c.stride :].permute(2, 0, 1)
        outputs, _ = self.cell(x)
        return outputs.mean(0) if c.pooling == "mean" else outputs[-1]
