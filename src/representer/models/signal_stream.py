"""Streaming inference of a signal classifier, one stride at a time."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from representer.errors import KindError, ShapeError
from representer.models.signal_classifier import SignalClassifier, with_power


class SignalStream:
    """Processes a signal stride by stride, with a prediction after each.

    After all strides of a window, the prediction equals that of the classifier for the window.
    Memory and time of a step do not depend on the number of previous steps.

    Args:
        model: The classifier, which is set to evaluation mode.

    Attributes:
        steps: Number of strides since the last reset.
    """

    def __init__(self, model: SignalClassifier) -> None:
        self._model = model.eval()
        self._parameter = next(model.parameters())
        self.reset()

    def reset(self) -> None:
        """Reset the state, to start a new signal."""
        self._state: Any = None
        self._sum = self._squares = self._parameter.new_zeros(())
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
            kind = str(samples.dtype) if isinstance(samples, Tensor) else type(samples).__name__
            raise KindError("samples", kind, "a floating-point tensor (channels, stride)")
        if samples.shape != (c.num_channels, c.stride):
            raise ShapeError("samples", samples.shape, f"({c.num_channels}, {c.stride})")
        x = samples.to(self._parameter).t()[:, None]
        if c.stride == 1:
            state, self._state = self._model.cell.step(x[0], self._state)  # type: ignore[operator]
        else:
            output, self._state = self._model.cell(x, self._state)
            state = output[-1]
        self.steps += 1
        self._sum = self._sum + state
        self._squares = self._squares + state.square()
        pooled = state if c.pooling == "last" else self._sum / self.steps
        if c.pooling == "power":
            pooled = with_power(pooled, self._squares / self.steps)
        return self._model.head(pooled)[0].softmax(dim=-1)
