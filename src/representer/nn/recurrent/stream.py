"""A recurrent layer that runs step by step, with packed weights and a state in place."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any

import torch
from torch import Tensor

from representer.checks import check_integer
from representer.errors import ArgumentError, KindError, ShapeError
from representer.nn.recurrent.core_calls import SUPPORTED
from representer.ops.core import PackedStep
from representer.ops.rkm_scan import is_plain

if TYPE_CHECKING:
    from representer.nn.recurrent.sequence_layer import SequenceLayer


_UNPICKLED = {"_steps": (), "_watched": ()}  # they contain addresses


class Stream:
    """Runs a layer one time step per call, for loops in which each call counts.

    ``y = stream(x_t)`` equals a step of ``layer.step``, whose state it keeps. On a CPU, the core
    packs the weights once, and again after they changed, which it notices by their version
    counters and addresses: after writing through ``parameter.data``, call `refresh`. Options of
    the layer other than ``training`` are read when the weights are packed. On other devices, and
    for layers that the core does not support, it calls ``layer.step``.

    There is no autograd. A stream must not be called from two threads at once.

    Args:
        layer: A recurrent layer with one direction.
        batch_size: B, the number of sequences that advance together.

    Raises:
        ArgumentError: If the layer has no steps, or the size is not positive.
    """

    def __init__(self, layer: SequenceLayer, batch_size: int = 1) -> None:
        check_has_steps(layer, "stream()")
        self.layer, self.batch_size = layer, check_integer("batch_size", batch_size)
        self._state: Any = None  # zeros
        self.refresh()

    def __call__(self, x_t: Tensor) -> Tensor:
        """Process one time step of all sequences.

        Args:
            x_t: ``(B, I)``.

        Returns:
            The output ``(B, H)``, without a gradient.

        Raises:
            KindError: If the input requires a gradient, or is not a tensor of the layer's dtype and
                device.
            ShapeError: If its shape is wrong.
        """
        if not (self._steps and self._takes(x_t) and self._is_current()) and not self._pack(x_t):
            return self._general_step(x_t)
        x_t = x_t if x_t.is_contiguous() else x_t.contiguous()
        output = torch.empty(self._output_shape, dtype=x_t.dtype)
        source = x_t.data_ptr()
        for step, emitted in self._steps:
            to = emitted or output.data_ptr()
            step(source, to)
            source = to
        return output

    @property
    def state(self) -> Any:
        """A copy of the state, as ``layer.step`` returns it; setting it copies, too."""
        state = self._layout_state(None) if self._state is None else self._state
        return _map(state, lambda tensor: tensor.detach().clone().contiguous())

    @state.setter
    def state(self, state: Any) -> None:
        new = None if state is None else self._layout_state(state)
        if self._steps and new is not None:
            _copy(self._state, new)
        else:
            self.refresh()
            self._state = None if new is None else _map(new, lambda tensor: tensor.detach().clone())

    def reset(self, streams: int | Iterable[int] | None = None) -> None:
        """Start new sequences.

        Args:
            streams: Their positions in the batch; all by default.

        Raises:
            ArgumentError: If there is no such position.
        """
        rows = range(self.batch_size) if streams is None else streams
        rows = [rows] if isinstance(rows, int) else [int(row) for row in rows]
        for row in rows:
            if not 0 <= row < self.batch_size:
                raise ArgumentError("streams", row, f"0 to {self.batch_size - 1}")
        if self._state is None or not rows:
            return
        indices = torch.tensor(rows)
        for name, tensor in _named(self._state):
            axis = {"window": 0, "steps": 1}.get(name, -2)
            tensor.index_fill_(axis, indices.to(tensor.device), 0)

    def refresh(self) -> None:
        """Pack the weights again at the next step."""
        self._steps: tuple[tuple[PackedStep, int], ...] = ()
        self._watched: tuple[Any, ...] = ()

    def _takes(self, x: Tensor) -> bool:
        """Return True if the packed steps compute the output of ``layer.step`` for this input."""
        return (
            is_plain(x)
            and x.shape == self._input_shape
            and x.dtype is self._dtype
            and not (x.requires_grad and torch.is_grad_enabled())
            and self.layer.is_plain()
        )

    def _is_current(self) -> bool:
        """Return True if the weights are those that were packed."""
        for owner, name, weight, version, address in self._watched:
            if (
                owner.get(name) is not weight
                or weight._version != version
                or weight.data_ptr() != address
            ):
                return False
        return self.layer.training is self._is_training

    def _pack(self, x: Tensor) -> bool:
        """Pack the weights, if the core can take this step."""
        layer = self.layer
        self._check(x)
        self._input_shape = torch.Size((self.batch_size, layer.input_size))
        self._output_shape = (self.batch_size, layer.hidden_size)
        self._dtype = x.dtype
        parameters = dict(layer.named_parameters())
        if (
            not self._takes(x)
            or layer.layout.type not in SUPPORTED
            or torch.nn.utils.parametrize.is_parametrized(layer)
            or any(weight.is_inference() for weight in parameters.values())
        ):
            return False
        with torch.inference_mode(False), torch.no_grad():
            steps = layer.core_steps(x)
            if steps is None:
                return False
            (h, c), state = self._in_place()
            if self._state is not None:
                _copy(state, self._state)
            self._steps = tuple(
                (PackedStep(*step, h[k], c[k]), h[k].data_ptr() if k + 1 < len(steps) else 0)
                for k, step in enumerate(steps)
            )
        self._state = state
        self._watched = tuple(_watched(layer))
        self._is_training = layer.training
        return True

    def _in_place(self) -> tuple[tuple[Tensor, ...], Any]:
        """Return tensors for a new state as the core updates it, and the state, their view.

        The fields with an axis before the batch are the parts of one tensor ``(L, B, S, H)``.
        """
        layout, like = self.layer.layout, self.layer.any_parameter()
        shape = len(layout.features), self.batch_size
        axes = [inner or () for inner in layout.inner.values()]
        inner = [sum(sizes) for sizes in axes if sizes]
        plain = [like.new_zeros(*shape, layout.hidden_size) for sizes in axes if not sizes]
        if not inner:
            return tuple(plain), layout.type(*plain)
        block = like.new_zeros(*shape, sum(inner), layout.hidden_size)
        return (*plain, block), layout.type(*plain, *block.transpose(1, 2).split(inner, dim=1))

    def _general_step(self, x: Tensor) -> Tensor:
        self._check(x)
        with torch.no_grad():
            output, self._state = self.layer.step(x, self._state)
        self.refresh()
        return output

    def _check(self, x: Tensor) -> None:
        if not isinstance(x, Tensor):
            raise KindError("x_t", type(x).__name__, "a tensor")
        expected = (self.batch_size, self.layer.input_size)
        if x.shape != expected:
            raise ShapeError("x_t", x.shape, str(expected))
        if x.requires_grad and torch.is_grad_enabled():
            hint = "Use layer.step(), or call the stream in torch.no_grad()."
            raise KindError("x_t", "a tensor that requires a gradient", "one without", hint=hint)

    def _layout_state(self, state: Any) -> Any:
        """Return a state after checking it, or the first one."""
        layout = self.layer.layout
        fields, windows = layout.read(state, self.batch_size, self.layer.any_parameter(), True)
        return layout.type(*fields, *((windows,) if "window" in layout.type._fields else ()))

    def __getstate__(self) -> dict[str, Any]:
        return self.__dict__ | _UNPICKLED


def check_has_steps(layer: SequenceLayer, call: str) -> None:
    """Check that a layer can run step by step."""
    if layer.bidirectional:
        hint = "Use forward() on whole sequences."
        raise ArgumentError("bidirectional", True, f"False for {call}", hint=hint)
    if layer.stride > 1:
        hint = f"Use forward() on chunks of {layer.stride} steps."
        raise ArgumentError("stride", layer.stride, f"1 for {call}", hint=hint)


def _watched(layer: SequenceLayer) -> Iterator[tuple[Any, ...]]:
    """Yield what changes when a parameter is set, replaced or moved."""
    for module in layer.modules():
        for name, weight in module._parameters.items():
            if weight is not None:
                yield module._parameters, name, weight, weight._version, weight.data_ptr()


def _named(state: Any) -> Iterator[tuple[str, Tensor]]:
    for name, field in zip(state._fields, state, strict=True):
        for tensor in field if name == "window" else (field,):
            yield name, tensor


def _map(state: Any, change: Any) -> Any:
    parts = [
        tuple(map(change, field)) if name == "window" else change(field)
        for name, field in zip(state._fields, state, strict=True)
    ]
    return type(state)(*parts)


def _copy(to: Any, state: Any) -> None:
    for (_, old), (_, new) in zip(_named(to), _named(state), strict=True):
        old.copy_(new)
