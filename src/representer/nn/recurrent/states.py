"""Reading and writing the state of a sequence layer, with messages for what does not fit."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from representer.errors import KindError, ShapeError
from representer.ops.checks import dtypes_meet


@dataclass(frozen=True)
class StateLayout:
    """The shape of a layer's state.

    Attributes:
        type: The NamedTuple of the state; its last field is ``window``.
        directions: L·D.
        shapes: For each other field, its axes between ``L·D`` and the batch.
        hidden_size: H.
        reaches: Length of each direction's window.
        features: I of each direction's layer.
    """

    type: type[Any]
    directions: int
    shapes: tuple[tuple[int, ...], ...]
    hidden_size: int
    reaches: tuple[int, ...]
    features: tuple[int, ...]

    def read(
        self, state: Any, batch: int, like: Tensor, is_batched: bool
    ) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        """Return the fields ``(L·D, …, B, H)`` and the windows ``(B, P, I)`` of a state.

        Raises:
            KindError: If the state is not such a tuple, or of another dtype or device.
            ShapeError: If a part of it has another shape.
        """
        if state is None:
            return self._zeros(batch, like)
        names = self.type._fields
        if isinstance(state, Tensor) or not isinstance(state, tuple):
            description = (
                f"one tensor {tuple(state.shape)}"
                if isinstance(state, Tensor)
                else type(state).__name__
            )
            raise KindError(
                "state", description, self._expected(batch, is_batched), hint=_PASS_IT_ON
            )
        if len(state) == len(self.shapes) and not any(self.reaches):
            state = (*state, self._zeros(batch, like)[1])  # (h, c), as torch.nn.LSTM takes it
        if len(state) != len(names):
            raise KindError(
                "state",
                f"a tuple of {len(state)}",
                self._expected(batch, is_batched),
                hint=_PASS_IT_ON,
            )
        *fields, windows = state
        middle = (batch,) if is_batched else ()
        for name, field, inner in zip(names, fields, self.shapes, strict=False):
            shape = (self.directions, *inner, *middle, self.hidden_size)
            _check(f"state.{name}", field, shape, like)
        if not isinstance(windows, (tuple, list)) or len(windows) != self.directions:
            is_tuple = isinstance(windows, (tuple, list))
            raise KindError(
                "state.window",
                f"a tuple of {len(windows)}" if is_tuple else type(windows).__name__,
                f"a tuple of {self.directions}, one tensor a layer and direction",
                hint=_PASS_IT_ON,
            )
        for k, window in enumerate(windows):
            shape = (*middle, self.reaches[k], self.features[k])
            _check(f"state.window[{k}]", window, shape, like)
        if not is_batched:
            fields, windows = [f.unsqueeze(-2) for f in fields], [w[None] for w in windows]
        # under autocast a state of another precision may come; the recurrence is not halved
        return tuple(f.to(like.dtype) for f in fields), tuple(windows)

    def write(
        self, fields: list[tuple[Tensor, ...]], windows: list[Tensor], is_batched: bool
    ) -> Any:
        """Return the state made of each direction's fields and window."""
        stacked = [torch.stack(field) for field in zip(*fields, strict=True)]
        if not is_batched:
            stacked = [field.squeeze(-2) for field in stacked]
            windows = [window[0] for window in windows]
        return self.type(*stacked, tuple(windows))

    def _zeros(self, batch: int, like: Tensor) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        fields = tuple(
            like.new_zeros(self.directions, *inner, batch, self.hidden_size)
            for inner in self.shapes
        )
        windows = tuple(
            like.new_zeros(batch, reach, features)
            for reach, features in zip(self.reaches, self.features, strict=True)
        )
        return fields, windows

    def _expected(self, batch: int, is_batched: bool) -> str:
        middle = (batch,) if is_batched else ()
        parts = [
            f"{name} {(self.directions, *inner, *middle, self.hidden_size)}"
            for name, inner in zip(self.type._fields, self.shapes, strict=False)
        ]
        return f"{self.type.__name__}({', '.join((*parts, 'window'))})"


_PASS_IT_ON = "Pass on what an earlier call returned, whole."


def _check(name: str, tensor: object, shape: tuple[int, ...], like: Tensor) -> None:
    if not isinstance(tensor, Tensor):
        raise KindError(name, type(tensor).__name__, f"a tensor {shape}")
    if tuple(tensor.shape) != shape:
        swapped = tuple(tensor.transpose(0, -2).shape) == shape if tensor.dim() > 2 else False
        hint = "The state is never batch-first; use .transpose(0, 1)." if swapped else ""
        raise ShapeError(name, tensor.shape, str(shape), hint=hint)
    if tensor.device != like.device:
        raise KindError(name, f"on {tensor.device}", f"the layer's {like.device}")
    if not dtypes_meet(tensor, like):
        raise KindError(name, str(tensor.dtype), f"the layer's {like.dtype}")
