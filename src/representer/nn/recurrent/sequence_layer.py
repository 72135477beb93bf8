"""The layout of a recurrent layer: layers, directions, packing, batching, streaming, checks.

Other modules compute one direction; this one gives every cell of the library the API of
``torch.nn.LSTM``.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from typing import Any, Self, cast

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.module import _has_any_global_hook
from torch.nn.utils.rnn import PackedSequence

from representer.errors import ArgumentError, KindError, ShapeError
from representer.nn.recurrent.inputs import check_input, check_strides, pack_like, unpack
from representer.nn.recurrent.options import check_probability, check_size
from representer.nn.recurrent.states import StateLayout
from representer.nn.recurrent.streaming_step import is_hooked, streaming_step


class SequenceLayer(nn.Module):
    """Base of the sequence layers: runs ``directions``, one module a layer and direction.

    A direction is called as ``(x, state, window, lengths, reverse)`` and returns the output, the
    new state and the new window, all time-first.
    """

    directions: nn.ModuleList
    layout: StateLayout
    stride: int = 1  # steps of the input between two of the first layer

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int,
        *,
        bias: bool,
        batch_first: bool,
        dropout: float,
        bidirectional: bool,
        variational_dropout: float,
    ) -> None:
        super().__init__()
        self.input_size = check_size("input_size", input_size)
        self.hidden_size = check_size("hidden_size", hidden_size)
        self.num_layers = check_size("num_layers", num_layers)
        self.bias, self.batch_first, self.bidirectional = bias, batch_first, bidirectional
        self.dropout = check_probability("dropout", dropout)
        self.variational_dropout = check_probability("variational_dropout", variational_dropout)

    @property
    def num_directions(self) -> int:
        """D: 2 if bidirectional, else 1."""
        return 1 + self.bidirectional

    def forward(
        self, input: Tensor | PackedSequence, state: Any = None
    ) -> tuple[Tensor | PackedSequence, Any]:
        """Run over whole sequences, or over the next chunk of each.

        Args:
            input: ``(T, B, I)``; ``(B, T, I)`` with ``batch_first``; ``(T, I)``; or packed.
            state: State returned by an earlier call; zeros by default.

        Returns:
            The output, of the same kind as the input, ``(…, D·H)``, with T / stride steps; and the
            new state.

        Raises:
            ShapeError: If a shape does not fit.
            KindError: If input or state is of the wrong type, dtype or device.
        """
        parameter = self._like()
        if isinstance(input, PackedSequence):
            x, lengths = unpack(input)
            is_batched = True
        else:
            is_batched = check_input(input, self.input_size, self.batch_first)
            x = input if is_batched else input[:, None]
            x = x.transpose(0, 1) if self.batch_first and is_batched else x
            lengths = None
        check_input(x, self.input_size, False, like=parameter)
        check_strides(len(x), lengths, self.stride)
        fields, windows = self.layout.read(state, x.shape[1], parameter, is_batched)
        output, new_fields, new_windows = self._run(x, fields, windows, lengths)
        new_state = self.layout.write(new_fields, new_windows, is_batched)
        if isinstance(input, PackedSequence):
            assert lengths is not None
            return pack_like(output, lengths // self.stride, input), new_state
        if not is_batched:
            return output[:, 0], new_state
        return output.transpose(0, 1) if self.batch_first else output, new_state

    def step(self, x_t: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        """Take one time step.

        Args:
            x_t: Input of the step ``(B, I)``, or ``(I,)`` unbatched.
            state: State returned by an earlier call; zeros by default.

        Returns:
            Output ``(B, H)``, or ``(H,)``, and the new state.

        Raises:
            ArgumentError: If the layer is bidirectional, since its output needs the future, or has
                a stride, since its step takes more than one of the input.
            KindError: If ``x_t`` is no tensor; else, and for the state, as ``forward``.
            ShapeError: If it is of another shape.
        """
        if self.bidirectional:
            raise ArgumentError(
                "bidirectional", True, "False for step()", hint="Use forward() on whole sequences."
            )
        if self.stride > 1:
            hint = f"Use forward() on chunks of {self.stride} steps."
            raise ArgumentError("stride", self.stride, "1 for step()", hint=hint)
        if not isinstance(x_t, Tensor):
            raise KindError("x_t", type(x_t).__name__, f"a tensor {self._step_shape()}")
        if x_t.dim() not in (1, 2) or x_t.shape[-1] != self.input_size:
            hint = "step() takes one time step."
            raise ShapeError("x_t", x_t.shape, self._step_shape(), hint=hint)
        if self._is_plain():
            result = streaming_step(self.directions, x_t, state)
            if result is not None:
                return result
        time_axis = 1 if self.batch_first and x_t.dim() == 2 else 0
        output, new_state = self(x_t.unsqueeze(time_axis), state)
        return output.squeeze(time_axis), new_state

    def flatten_parameters(self) -> None:
        """Do nothing; for compatibility with ``torch.nn.LSTM``."""

    def direction(self, layer: int, reverse: bool = False) -> nn.Module:
        """Return the module of one direction of one layer.

        Raises:
            ArgumentError: If there is no such layer or direction.
        """
        if not 0 <= layer < self.num_layers:
            raise ArgumentError("layer", layer, f"0 to {self.num_layers - 1}")
        if reverse and not self.bidirectional:
            raise ArgumentError("reverse", True, "False", hint="The layer is not bidirectional.")
        return self.directions[layer * self.num_directions + reverse]

    def part(self, layer: int = 0, reverse: bool = False) -> Self:
        """Return one direction of one layer as a layer of its own, on the same parameters.

        It reads from the first step on; give the part of a reverse direction reversed sequences.

        Raises:
            ArgumentError: If there is no such layer or direction.
        """
        direction, k = self.direction(layer, reverse), layer * self.num_directions + reverse
        part = copy.copy(self)
        part._modules = {"directions": nn.ModuleList([direction])}
        part.num_layers, part.bidirectional = 1, False
        part.stride = self.stride if layer == 0 else 1
        of_layout = self.layout.reaches[k : k + 1], self.layout.features[k : k + 1]
        part.layout = replace(self.layout, reaches=of_layout[0], features=of_layout[1])
        part.input_size = part.layout.features[0]
        return part

    def reset_parameters(self) -> None:
        """Reinitialize all parameters."""
        for direction in cast(Any, self.directions):
            direction.reset_parameters()

    def __repr__(self) -> str:
        return f"{self._get_name()}({self.extra_repr()})"

    def _run(
        self,
        x: Tensor,
        fields: tuple[Tensor, ...],
        windows: tuple[Tensor, ...],
        lengths: Tensor | None,
    ) -> tuple[Tensor, list[tuple[Tensor, ...]], list[Tensor]]:
        new_fields, new_windows = [], []
        for layer in range(self.num_layers):
            if layer and self.dropout:
                x = F.dropout(x, self.dropout, self.training)
            if self.variational_dropout:  # one mask for all steps of a sequence
                kept = F.dropout(torch.ones_like(x[:1]), self.variational_dropout, self.training)
                x = x * kept
            outputs = []
            for d in range(self.num_directions):
                k = layer * self.num_directions + d
                before = tuple(field[k] for field in fields)
                output, after, window = self.directions[k](x, before, windows[k], lengths, bool(d))
                outputs.append(output)
                new_fields.append(after)
                new_windows.append(window)
            x = outputs[0] if len(outputs) == 1 else torch.cat(outputs, dim=-1)
            lengths = lengths // self.stride if lengths is not None and not layer else lengths
        return x, new_fields, new_windows

    def _step_shape(self) -> str:
        return f"(batch, {self.input_size}) or unbatched ({self.input_size},)"

    def _is_plain(self) -> bool:
        """Return True if ``forward`` computes nothing but one step of each direction."""
        kind = type(self)
        return not (
            (self.training and (self.dropout or self.variational_dropout))
            or is_hooked(self)
            or _has_any_global_hook()
            or kind.forward is not SequenceLayer.forward
            or kind._run is not SequenceLayer._run
        )

    def _like(self) -> Tensor:
        return next(self.parameters())
