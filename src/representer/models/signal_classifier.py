"""Signal classifier: wavelet filters in a recurrent cell, one linear layer on its states."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from representer.errors import ArgumentError, KindError, ShapeError
from representer.models.cells import SIGNAL_CELLS, build_cell
from representer.models.hub import HubModel
from representer.models.signal_classifier_config import SignalClassifierConfig
from representer.models.signal_pooling import pooled

_MOMENTUM = 0.1  # of the running mean over batches


class SignalClassifier(HubModel):
    r"""Classifies windows of a multichannel signal by a recurrent cell with wavelet filters.

    .. math::
        y = W \bar h + b, \qquad \bar h = \frac1S \sum_{s=1}^S h_s, \quad h_{1:S} = \mathrm{cell}(x)

    with S = T / stride steps, or another summary of the states than the mean, see
    `SignalClassifierConfig`. With ``pooling="power"``, the logarithm of the power of each unit
    follows its mean,

    .. math::
        y = W \begin{pmatrix} \bar h \\ \log(p + 10^{-4}) \end{pmatrix} + b, \qquad
        p = \frac1S \sum_{s=1}^S h_s^2

    since the mean of an oscillation is near 0 whatever its amplitude. Channel dropout drops a
    channel for a whole window and scales the others up.

    Args:
        config: The configuration.

    Attributes:
        typical: With ``pooling="power"``, a running mean over training batches of the logarithms
            of the powers ``(K,)``. Explanations are relative to it; the output does not depend on
            it.

    Shape:
        - signal ``(B, C, T)``, T at least `stride`, and `window_length` with
          ``pooling="flatten"``; samples at the start that do not fill a stride are skipped
        - output ``(B, classes)``

    References:
        Liang et al., Kernel-Based Approaches for Sequence Modeling, NeurIPS 2019,
        section 6, appendix A. SyncNet, with ``cell="syncnet", stride=1, pooling="flatten",
        pool_length=40``, is that of Li et al., Targeting EEG/LFP Synchrony with Neural Nets,
        NeurIPS 2017. The logarithm of the power is that of Schirrmeister et al., Deep
        Learning with Convolutional Neural Networks for EEG Decoding and Visualization, Human Brain
        Mapping 2017, for their shallow network.
    """

    typical: Tensor

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
        self.cell = build_cell(
            c.cell, c.num_channels, c.hidden_size, options, batch_first=False, cells=SIGNAL_CELLS
        )
        if c.pooling == "power":
            self.register_buffer("typical", torch.zeros(c.hidden_size))
        self.attention = None
        if c.pooling == "attention":
            self.attention = nn.Linear(c.hidden_size, 1, bias=False)
            nn.init.zeros_(self.attention.weight)
        self.head = nn.Linear(c.pooled_size, c.num_classes)

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
        """Return the features of the last layer ``(B, config.pooled_size)``; see `forward`."""
        outputs = self.read(signal)
        features = pooled(outputs, self.config, self.scores(outputs))
        if self.training and self.config.pooling == "power":
            powers = features.detach()[:, self.config.hidden_size :]
            self.typical.lerp_(powers.mean(0), _MOMENTUM)
        return features

    def read(self, signal: Tensor) -> Tensor:
        """Return the outputs of the cell ``(S, B, K)``; see `forward`."""
        c = self.config
        if not isinstance(signal, Tensor) or not signal.is_floating_point():
            kind = str(signal.dtype) if isinstance(signal, Tensor) else type(signal).__name__
            raise KindError("signal", kind, "a floating-point tensor (batch, channels, samples)")
        if signal.dim() != 3 or signal.shape[1] != c.num_channels or signal.shape[2] < c.stride:
            expected = f"(batch, {c.num_channels}, samples) with at least {c.stride} samples"
            raise ShapeError("signal", signal.shape, expected)
        if c.pooling == "flatten" and signal.shape[2] != c.window_length:
            expected = f"(batch, {c.num_channels}, {c.window_length}), as in training"
            raise ShapeError("signal", signal.shape, f"{expected}: pooling is 'flatten'")
        if c.channel_dropout:
            mask = F.dropout(signal.new_ones(signal.shape[:2]), c.channel_dropout, self.training)
            signal = signal * mask[:, :, None]
        outputs, _ = self.cell(signal[:, :, signal.shape[2] % c.stride :].permute(2, 0, 1))
        return outputs

    def scores(self, outputs: Tensor) -> Tensor | None:
        """Return the scores of steps ``(S, B)`` with attention, None without."""
        return None if self.attention is None else self.attention(outputs.tanh())[..., 0]
