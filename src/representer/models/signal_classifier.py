"""Signal classifier: wavelet filters in a recurrent cell, one linear layer on its states."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, Literal

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from representer.checks import require, require_choices, require_fractions
from representer.errors import ArgumentError, KindError, ShapeError
from representer.models.base import HubModel, require_sizes
from representer.models.cells import SIGNAL_CELLS, build_cell, resolve_cell

# The configuration of the signal classifier.

POOLINGS = ("power", "mean", "last", "max", "flatten", "attention")
_SIZES = ("num_channels", "hidden_size", "filter_length", "stride", "num_layers")


@dataclass(frozen=True)
class SignalClassifierConfig:
    """The configuration of `SignalNetwork`; the defaults are those of L19 section 6.

    Args:
        num_channels: C.
        num_classes: Number of classes.
        cell: A key of ``models.CELLS`` whose layer has wavelet filters, or ``"syncnet"``.
        hidden_size: K, units of the cell and filters of each gate.
        filters: ``"wavelet"`` or ``"dense"``.
        filter_length: n, samples of a filter.
        stride: Samples between two steps of the cell.
        sampling_rate: Sampling rate of the signal in Hz.
        num_layers: Layers of the cell.
        layer_norm: Normalize the cell state.
        free_phase: Learn the phase of the first channel of a wavelet, too.
        channel_dropout: Probability of setting a channel to 0 for a whole window in training.
        dropout: Dropout before the last layer.
        pooling: Of the outputs of all steps: their ``"mean"``; the ``"last"`` one; the largest of
            each unit, ``"max"``; ``"power"``: the mean and the logarithm of the mean square;
            ``"attention"``: a weighted mean, whose weights are the softmax of a learned linear
            function of the tanh of an output; ``"flatten"``: the largest of each unit in every part
            of `pool_length` samples, all parts side by side.
        pool_length: Samples of a part for ``"flatten"``; None for `filter_length`.
        window_length: Samples of a window, which ``"flatten"`` needs.

    Raises:
        ArgumentError: If a value is out of range.
    """

    num_channels: int
    num_classes: int
    sampling_rate: float
    cell: str = "rkm-lstm"
    hidden_size: int = 30
    filters: Literal["dense", "wavelet"] = "wavelet"
    filter_length: int = 40
    stride: int = 20
    num_layers: int = 1
    layer_norm: bool = False
    free_phase: bool = False
    channel_dropout: float = 0.0
    dropout: float = 0.0
    pooling: Literal["power", "mean", "last", "max", "flatten", "attention"] = "mean"
    pool_length: int | None = None
    window_length: int | None = None

    def __post_init__(self) -> None:
        resolve_cell(self.cell, SIGNAL_CELLS)
        require_sizes(self, *_SIZES)
        require_sizes(self, "num_classes", least=2)
        require_fractions(self, "channel_dropout", "dropout")
        is_rate = 0 < self.sampling_rate < math.inf
        require(self, "sampling_rate", is_rate, "a positive number of Hz")
        require(self, "filters", self.filters in ("dense", "wavelet"), "'dense' or 'wavelet'")
        require_choices(self, pooling=POOLINGS)
        for name in ("pool_length", "window_length"):
            value = getattr(self, name)
            is_length = value is None or (type(value) is int and value >= self.stride)
            require(
                self, name, is_length, f"None, or an integer of at least {self.stride}, a stride"
            )
        needs_length = self.pooling == "flatten" and self.window_length is None
        expected = "the samples of a window with pooling='flatten'"
        require(self, "window_length", not needs_length, expected)

    @property
    def pool_steps(self) -> int:
        """Steps of the cell in a part, with ``pooling="flatten"``."""
        return max(1, (self.pool_length or self.filter_length) // self.stride)

    @property
    def pooled_size(self) -> int:
        """Number of features of the last layer."""
        if self.pooling == "power":
            return 2 * self.hidden_size
        if self.pooling != "flatten":
            return self.hidden_size
        assert self.window_length is not None
        return math.ceil(self.window_length // self.stride / self.pool_steps) * self.hidden_size


# From the outputs of a cell over a window of a signal to the features of its last layer.
#
# Shapes: S steps, B batch, K units.

_LEAST_POWER = 1e-4  # of standardized signals; below it, powers are alike


def pooled(outputs: Tensor, config: SignalClassifierConfig, scores: Tensor | None) -> Tensor:
    """Return the features ``(B, config.pooled_size)``.

    Args:
        outputs: ``(S, B, K)``.
        config: Its `pooling`, see `SignalClassifierConfig`.
        scores: Of the steps ``(S, B)``, for ``pooling="attention"``.
    """
    pooling = config.pooling
    if pooling == "last":
        return outputs[-1]
    if pooling == "max":
        return outputs.amax(0)
    if pooling == "flatten":
        return _largest(outputs, config.pool_steps).flatten(1)
    if pooling == "attention":
        assert scores is not None
        return torch.einsum("sb,sbk->bk", scores.softmax(0), outputs)
    if pooling == "mean":
        return outputs.mean(0)
    return with_power(outputs.mean(0), outputs.square().mean(0))


def with_power(mean: Tensor, square: Tensor) -> Tensor:
    """Return means and the logarithms of mean squares ``(B, 2K)`` of states, each ``(B, K)``."""
    return torch.cat([mean, (square + _LEAST_POWER).log().to(mean.dtype)], dim=1)


@torch.enable_grad()
def step_weights(
    outputs: Tensor, config: SignalClassifierConfig, scores: Tensor | None, row: Tensor
) -> Tensor:
    """Return the weights ``(S, K)`` of the outputs in a linear function of their features.

    Given which outputs are the largest and the weights of the steps, features but powers are linear
    functions of the outputs ``(S, 1, K)``; `row` has the weights of these features.
    """
    held = outputs.detach().requires_grad_()
    features = pooled(held, config, None if scores is None else scores.detach())
    (weights,) = torch.autograd.grad(features[0, : len(row)] @ row, held)
    return weights[:, 0]


def _largest(outputs: Tensor, steps: int) -> Tensor:
    """Return the largest output of each unit in parts of so many steps ``(B, K, parts)``."""
    return F.max_pool1d(outputs.permute(1, 2, 0), steps, ceil_mode=True)


_MOMENTUM = 0.1  # of the running mean over batches


class SignalNetwork(HubModel):
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
        names = ("num_layers", "filter_length", "stride", "filters", "layer_norm")
        options = {name: getattr(c, name) for name in names} | {"initialization": "paper"}
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
            nn.init.zeros_(self.attention.weight)  # the mean of all steps, until it is trained
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
            got = str(signal.dtype) if isinstance(signal, Tensor) else type(signal).__name__
            raise KindError("signal", got, "a floating-point tensor (batch, channels, samples)")
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


# Streaming inference of a signal classifier, one stride at a time.


class SignalStream:
    """Processes a signal stride by stride, with a prediction after each.

    After all strides of a window, the prediction equals that of the classifier for the window.
    Memory and time of a step do not depend on the number of previous steps.

    Args:
        model: The classifier, which is set to evaluation mode.

    Raises:
        KindError: If its cell or its pooling needs a whole window.

    Attributes:
        steps: Number of strides since the last reset.
    """

    def __init__(self, model: SignalNetwork) -> None:
        c = model.config
        if c.pooling == "flatten" or not hasattr(model.cell, "step"):
            got = f"one with cell={c.cell!r} and pooling={c.pooling!r}"
            raise KindError("the model of a stream", got, "one that needs no whole window")
        self._model = model.eval()
        self._parameter = next(model.parameters())
        self.reset()

    def reset(self) -> None:
        """Reset the state, to start a new signal."""
        cell: Any = self._model.cell
        self._stream = cell.stream() if self._model.config.stride == 1 else None
        self._state: Any = None
        self._sum = self._squares = self._parameter.new_zeros(())
        self._total = self._sum
        self._largest = self._parameter.new_full((), -torch.inf)
        self.steps = 0

    @torch.no_grad()
    def step(self, samples: Tensor) -> Tensor:
        """Process the samples of one stride.

        Args:
            samples: ``(C, stride)``, standardized as in training.

        Returns:
            The probability of each class ``(classes,)``.

        Raises:
            ShapeError: If their shape is wrong.
            KindError: If they are not a floating-point tensor.
        """
        c = self._model.config
        if not isinstance(samples, Tensor) or not samples.is_floating_point():
            got = str(samples.dtype) if isinstance(samples, Tensor) else type(samples).__name__
            raise KindError("samples", got, "a floating-point tensor (channels, stride)")
        if samples.shape != (c.num_channels, c.stride):
            raise ShapeError("samples", samples.shape, f"({c.num_channels}, {c.stride})")
        x = samples.to(self._parameter).t()[:, None]
        if self._stream is not None:
            state = self._stream(x[0])
        else:
            output, self._state = self._model.cell(x, self._state)
            state = output[-1]
        self.steps += 1
        return self._model.head(self._pooled(state))[0].softmax(dim=-1)

    def _pooled(self, state: Tensor) -> Tensor:
        """Return the pooled states until this one ``(1, …)``."""
        pooling = self._model.config.pooling
        scores = self._model.scores(state)
        if scores is not None:  # a softmax with a running maximum
            largest = torch.maximum(self._largest, scores)
            kept, new = (self._largest - largest).exp(), (scores - largest).exp()
            self._total = self._total * kept + new
            self._sum, self._largest = self._sum * kept + new * state, largest
            return self._sum / self._total
        self._sum, self._largest = self._sum + state, torch.maximum(self._largest, state)
        self._squares = self._squares + state.square()
        mean = self._sum / self.steps
        if pooling == "power":
            return with_power(mean, self._squares / self.steps)
        return {"last": state, "max": self._largest, "mean": mean}[pooling]
