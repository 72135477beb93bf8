"""Streaming inference of a signal classifier, one stride at a time."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from representer.errors import KindError, ShapeError
from representer.models.signal_classifier import SignalClassifier
from representer.models.signal_pooling import with_power


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

    def __init__(self, model: SignalClassifier) -> None:
        c = model.config
        if c.pooling == "flatten" or not hasattr(model.cell, "step"):
            kind = f"one with cell={c.cell!r} and pooling={c.pooling!r}"
            raise KindError("the model of a stream", kind, "one that needs no whole window")
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
            kind = str(samples.dtype) if isinstance(samples, Tensor) else type(samples).__name__
            raise KindError("samples", kind, "a floating-point tensor (channels, stride)")
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
        kind = self._model.config.pooling
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
        if kind == "power":
            return with_power(mean, self._squares / self.steps)
        return {"last": state, "max": self._largest, "mean": mean}[kind]
