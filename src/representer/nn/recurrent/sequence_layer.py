"""The base class of recurrent layers: layers, directions, packing, batching, streaming, checks.

It gives every cell of the library the API of ``torch.nn.LSTM``; subclasses compute one direction.
"""

from __future__ import annotations

import inspect
import sys
import warnings
from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import cache
from types import SimpleNamespace
from typing import (
    Annotated,
    Any,
    ClassVar,
    Literal,
    NamedTuple,
    Self,
    TypedDict,
    TypeVar,
    get_args,
    get_type_hints,
)

import torch
import torch.nn.functional as F
from torch import Tensor, nn
from torch.nn.modules.module import _has_any_global_hook
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from representer.checks import SuggestsArguments, check_integer
from representer.errors import ArgumentError, KindError, ShapeError
from representer.nn.layer import (
    check_dense,
    check_flag,
    check_probability,
    leaf_of_fx,
    shown_arguments,
)
from representer.nn.recurrent.core_calls import CoreSteps, core_call
from representer.nn.recurrent.initial import Initialization
from representer.nn.recurrent.states import StateLayout
from representer.nn.recurrent.stream import Stream, check_has_steps
from representer.nn.recurrent.wavefront import plan, wavefront
from representer.ops.common import (
    can_be_read,
    check_length_range,
    dtypes_meet,
    on_host,
    wrong_device,
)
from representer.ops.rkm_scan import short_backend

# Input checks and packing of sequence layers.


def check_input(
    input: Any, input_size: int, batch_first: bool, *, like: Tensor | None = None
) -> bool:
    """Check an input, and compare its dtype and device with ``like``, a parameter of the layer.

    Returned is whether it is batched.
    """
    check_dense(input, "a tensor or a PackedSequence")
    if not input.is_floating_point():
        hint = "Use input.float(), or an nn.Embedding for token ids."
        raise KindError("input", str(input.dtype), "a floating-point dtype", hint=hint)
    layout = "(batch, time, {})" if batch_first else "(time, batch, {})"
    expected = f"{layout.format(input_size)} or unbatched (time, {input_size})"
    if input.dim() not in (2, 3):
        raise ShapeError("input", input.shape, expected)
    if input.shape[-1] != input_size:
        hint = f"The last axis is {input.shape[-1]}, input_size is {input_size}."
        raise ShapeError("input", input.shape, expected, hint=hint)
    time_axis = 1 if batch_first and input.dim() == 3 else 0
    if not input.shape[time_axis]:
        raise ShapeError("input", input.shape, f"{expected} with at least one time step")
    if like is not None:
        if input.device != like.device:
            names = "the layer's ", " or move the layer"
            raise wrong_device("input", input, like.device, *names)
        if not dtypes_meet(input, like):
            hint = f"Use input.to({like.dtype}), or layer.to({input.dtype})."
            raise KindError("input", str(input.dtype), f"the layer's {like.dtype}", hint=hint)
    return input.dim() == 3


def check_lengths(x: Tensor, lengths: object, stride: int) -> None:
    """Check the lengths of sequences ``(T, B, I)``, which must be multiples of the stride.

    Raises:
        ArgumentError: If one is out of range; those on a device are checked by the recurrence.
    """
    time, batch, _ = x.shape
    ends = [time]
    if lengths is not None:
        is_tensor = isinstance(lengths, Tensor)
        if not is_tensor or lengths.dtype not in (torch.int32, torch.int64):
            received = str(lengths.dtype) if is_tensor else type(lengths).__name__
            raise KindError("lengths", received, f"a tensor of {batch} integers")
        if lengths.shape != (batch,):
            raise ShapeError("lengths", lengths.shape, f"({batch},), one per sequence")
        if can_be_read(lengths):
            check_length_range(lengths, time)
        is_read = stride > 1 and not torch.compiler.is_compiling()
        ends = lengths.tolist() if is_read else []
    invalid = [end for end in ends if end % stride]
    if invalid:
        hint = f"Crop it to {invalid[0] // stride * stride} steps or pad it."
        expected = f"a multiple of {stride} time steps, the stride"
        raise ShapeError("input", (invalid[0],), expected, hint=hint)


def unpack(packed: PackedSequence, lengths: object = None) -> tuple[Tensor, Tensor]:
    """Return the sequences padded with zeros ``(T, B, I)`` and their lengths ``(B,)``."""
    if packed.data.dim() != 2:
        hint = "Pack sequences of shape (time, features)."
        raise ShapeError("input.data", packed.data.shape, "(steps, features)", hint=hint)
    if lengths is not None:
        raise ArgumentError("lengths", lengths, "None: a packed batch has its own lengths")
    x, sizes = pad_packed_sequence(packed)
    lengths = sizes.to(x.device)
    if not torch.compiler.is_compiling():
        on_host(lengths, sizes)  # which nobody has to read from a device
    return x, lengths


def zero_padding(x: Tensor, lengths: Tensor) -> Tensor:
    """Set ``(T, B, I)`` beyond each sequence's length to 0."""
    is_real = torch.arange(x.shape[0], device=x.device)[:, None] < lengths
    return torch.where(is_real[:, :, None], x, 0.0)


def pack_like(output: Tensor, stride: int, packed: PackedSequence) -> PackedSequence:
    """Pack ``(T, B, H)`` in the order of another packed batch with stride times the lengths."""
    if packed.sorted_indices is not None:
        output = output.index_select(1, packed.sorted_indices)
    ends = (packed.batch_sizes[:, None] > torch.arange(output.shape[1])).sum(0)  # on the CPU
    data, batch_sizes, _, _ = pack_padded_sequence(output, ends // stride)
    return PackedSequence(data, batch_sizes, packed.sorted_indices, packed.unsorted_indices)


# The shared options of sequence layers, declared once with their defaults.
#
# Constructors have shared options as ``**options: Unpack[…]`` of a ``TypedDict`` for type checkers;
# `shows` adds them to the signature for ``help``.

OutputNonlinearity = str | Callable[[Tensor], Tensor] | None
_Function = TypeVar("_Function", bound=Callable[..., Any])


class Default(NamedTuple):
    """The default of an option, in its annotation."""

    value: Any


class MachineOptions(TypedDict, total=False):
    """Options of all recurrent kernel machines, described in the class."""

    filter_length: Annotated[int | dict[int, int], Default(1)]
    dilation: Annotated[int, Default(1)]
    filters: Annotated[Literal["dense", "wavelet"], Default("dense")]
    stride: Annotated[int, Default(1)]
    free_phase: Annotated[bool, Default(False)]
    sampling_rate: Annotated[float | None, Default(None)]
    layer_norm: Annotated[bool, Default(False)]
    weight_drop: Annotated[float, Default(0.0)]
    variational_dropout: Annotated[float, Default(0.0)]
    zoneout: Annotated[float | tuple[float, float], Default(0.0)]
    recompute_gates: Annotated[bool, Default(False)]
    input_layer: Annotated[Callable[[int, int], nn.Module] | None, Default(None)]
    device: Annotated[torch.device | str | None, Default(None)]
    dtype: Annotated[torch.dtype | None, Default(None)]


class CellOptions(MachineOptions, total=False):
    """Options of cells with gates or an output nonlinearity."""

    forget_bias: Annotated[float, Default(0.0)]
    candidate_bias: Annotated[bool, Default(False)]
    output_nonlinearity: Annotated[OutputNonlinearity, Default(None)]
    initialization: Annotated[Initialization, Default("unit")]


@cache
def defaults_of(options: type) -> dict[str, Any]:
    """Return the options of a ``TypedDict`` with their defaults."""
    hints = get_type_hints(options, include_extras=True)
    return {name: get_args(hint)[1].value for name, hint in hints.items()}


def with_defaults(options: type, given: Any) -> Any:
    """Return a namespace of all options.

    Raises:
        ArgumentError: If an option that is True or False by default is something else.
    """
    defaults = defaults_of(options)
    for name in given:
        if name not in defaults:
            raise TypeError(f"__init__() got an unexpected keyword argument {name!r}")
    flags = [name for name in given if isinstance(defaults[name], bool)]
    return SimpleNamespace(**defaults | given | {n: check_flag(n, given[n]) for n in flags})


def shows(options: type) -> Callable[[_Function], _Function]:
    """Return a decorator that lists the options in the signature of a constructor."""

    def decorate(function: _Function) -> _Function:
        signature = inspect.signature(function)
        *first, _ = signature.parameters.values()
        hints = get_type_hints(options, include_extras=True)
        shared = [
            inspect.Parameter(
                name, inspect.Parameter.KEYWORD_ONLY, default=default,
                annotation=get_args(hints[name])[0],
            )
            for name, default in defaults_of(options).items()
        ]  # fmt: skip
        shared.sort(key=lambda parameter: parameter.name in ("device", "dtype"))
        function.__signature__ = signature.replace(parameters=first + shared)  # type: ignore[attr-defined]
        return function

    return decorate


def zoneout_pair(zoneout: float | tuple[float, float]) -> tuple[float, float]:
    """Return the probabilities of cell and output, from a pair or one value for both."""
    if isinstance(zoneout, tuple) and len(zoneout) != 2:
        raise ArgumentError(
            "zoneout", zoneout, "one number, or a pair (of the cell, of the output)"
        )
    cell, output = zoneout if isinstance(zoneout, tuple) else (zoneout, zoneout)
    return check_probability("zoneout", cell), check_probability("zoneout", output)


def warn_of_idle_dropout(layer: Any) -> None:
    """Warn about dropout without effect; called by the constructors of layers."""
    if not layer.dropout or layer.num_layers > 1:
        return
    level, frame = 2, sys._getframe(1)
    while frame.f_back and frame.f_locals.get("self") is layer:
        level, frame = level + 1, frame.f_back
    warnings.warn(
        f"dropout={layer.dropout} acts between layers, and num_layers is 1. "
        "Use variational_dropout or nn.Dropout instead.",
        stacklevel=level,
    )


Run = Callable[
    [Tensor, tuple[Tensor, ...], Tensor, Tensor | None, bool],
    tuple[Tensor, tuple[Tensor, ...], Tensor],
]


class SequenceLayer(SuggestsArguments, nn.Module):
    """Base class of sequence layers.

    Parameters are named as in ``torch.nn.LSTM``, with a suffix such as ``_l0_reverse`` for the
    layer and direction. A subclass adds the parameters of each direction, and its ``direction``
    returns a function ``(x, state, window, lengths, reverse)`` that returns the output
    ``(T / stride, B, H)``, the new state and the new window. With ``lengths`` ``(B,)``, sequences
    are padded; with ``reverse``, it runs from their true end to the start.
    """

    layout: StateLayout
    stride: int = 1  # input steps per step of the first layer
    runs_on_core = True  # whole sequences, if it has the core's steps
    instead: ClassVar[Mapping[str, str]] = {
        "proj_size": "add a torch.nn.Linear after the layer",
        "output_size": "outputs have hidden_size features; add a torch.nn.Linear after the layer",
    }

    def __init__(
        self,
        input_size: int,
        hidden_size: int,
        num_layers: int,
        bias: bool,
        batch_first: bool,
        dropout: float,
        bidirectional: bool,
        variational_dropout: float,
    ) -> None:
        super().__init__()
        self.input_size = check_integer("input_size", input_size)
        self.hidden_size = check_integer("hidden_size", hidden_size)
        self.num_layers = check_integer("num_layers", num_layers)
        self.bias = check_flag("bias", bias)
        self.batch_first = check_flag("batch_first", batch_first)
        self.bidirectional = check_flag("bidirectional", bidirectional)
        self.dropout = check_probability("dropout", dropout)
        self.variational_dropout = check_probability("variational_dropout", variational_dropout)
        warn_of_idle_dropout(self)
        ends = ("", "_reverse")[: self.num_directions]
        self.suffixes = tuple(f"_l{k}{end}" for k in range(num_layers) for end in ends)
        width = hidden_size * self.num_directions
        self.features = tuple(
            width if k >= self.num_directions else input_size for k in range(len(self.suffixes))
        )
        self.specs: tuple[Any, ...] = ()  # of a subclass, one for each direction
        self._shown: dict[str, Any] = {}  # options without an attribute, for repr

    @property
    def num_directions(self) -> int:
        """D: 2 if bidirectional, else 1."""
        return 1 + self.bidirectional

    @property
    def all_weights(self) -> list[list[nn.Parameter]]:
        """The parameters of each layer and direction, as in ``torch.nn.LSTM``."""
        return [
            [p for name, p in self.named_parameters() if f"{suffix}." in f"{name}."]
            for suffix in self.suffixes
        ]

    @leaf_of_fx
    def forward(
        self, input: Tensor | PackedSequence, state: Any = None, *, lengths: Tensor | None = None
    ) -> tuple[Tensor | PackedSequence, Any]:
        """Run over whole sequences or their next chunks.

        Args:
            input: ``(T, B, I)``; ``(B, T, I)`` with ``batch_first``; ``(T, I)``; or packed.
            state: State returned by an earlier call, or a tuple of its fields; zeros by default.
            lengths: True lengths of padded sequences ``(B,)``; the output is 0 beyond them.

        Returns:
            The output ``(…, D·H)`` in the layout of the input, with T / stride steps, and the new
            state.

        Raises:
            ShapeError: If a shape is wrong.
            KindError: If an argument has the wrong type, dtype or device.
            ArgumentError: If a packed input comes with ``lengths``, or one is out of range.
        """
        if lengths is None and (result := self._on_core(input, state)) is not None:
            return result
        parameter = self.any_parameter()
        if isinstance(input, PackedSequence):
            x, lengths = unpack(input, lengths)
            is_batched = True
        else:
            is_batched = check_input(input, self.input_size, self.batch_first)
            x = input if is_batched else input[:, None]
            x = x.transpose(0, 1) if self.batch_first and is_batched else x
        check_input(x, self.input_size, False, like=parameter)
        check_lengths(x, lengths, self.stride)
        if lengths is not None:  # what it holds, such as NaN, would reach gradients of weights
            x = zero_padding(x, lengths)
        fields, windows = self.layout.read(state, x.shape[1], parameter, is_batched)
        output, new_fields, new_windows = self._run(x, fields, windows, lengths)
        new_state = self.layout.write(new_fields, new_windows, is_batched)
        if self.training:
            self._watch(x, new_state)
        if isinstance(input, PackedSequence):
            assert lengths is not None
            return pack_like(output, self.stride, input), new_state
        if not is_batched:
            return output[:, 0], new_state
        return output.transpose(0, 1) if self.batch_first else output, new_state

    def step(self, x_t: Tensor, state: Any = None) -> tuple[Tensor, Any]:
        """Run one time step.

        Args:
            x_t: Input of the step ``(B, I)``, or ``(I,)`` unbatched.
            state: State returned by an earlier call; zeros by default.

        Returns:
            Output ``(B, H)``, or ``(H,)``, and the new state.

        Raises:
            ArgumentError: If the layer is bidirectional, since its output depends on future steps,
                or has a stride, since its steps need several input steps.
            KindError: If ``x_t`` is not a tensor, or as in ``forward``.
            ShapeError: If a shape is wrong.
        """
        check_has_steps(self, "step()")
        check_dense(x_t, f"a tensor {self._step_shape()}", "x_t")
        if x_t.dim() not in (1, 2) or x_t.shape[-1] != self.input_size:
            hint = "step() expects a single time step."
            raise ShapeError("x_t", x_t.shape, self._step_shape(), hint=hint)
        if self.is_plain():
            result = core_call(self, x_t, state) if x_t.dim() == 2 else None
            if result is not None:
                return result
        time_axis = 1 if self.batch_first and x_t.dim() == 2 else 0
        output, new_state = self(x_t.unsqueeze(time_axis), state)
        return output.squeeze(time_axis), new_state

    def stream(self, batch_size: int = 1) -> Stream:
        """Return a ``Stream``: steps that keep their state, faster than `step`, no autograd."""
        return Stream(self, batch_size)

    def flatten_parameters(self) -> None:
        """Do nothing; for compatibility with ``torch.nn.LSTM``."""

    def direction(self, layer: int, reverse: bool = False) -> Run:
        """Return one direction of one layer with its current weights.

        Raises:
            ArgumentError: If there is no such layer or direction.
        """
        return self._direction(self.index(layer, reverse))

    def index(self, layer: int, reverse: bool = False) -> int:
        """Return the index of a direction.

        Raises:
            ArgumentError: If there is no such layer or direction.
        """
        if not 0 <= layer < self.num_layers:
            raise ArgumentError("layer", layer, f"0 to {self.num_layers - 1}")
        if reverse and not self.bidirectional:
            raise ArgumentError("reverse", True, "False", hint="The layer is not bidirectional.")
        return layer * self.num_directions + reverse

    def part(self, layer: int = 0, reverse: bool = False) -> Self:
        """Return one direction of one layer as a separate layer that shares its parameters.

        It starts at the first step, so a reverse direction expects reversed sequences. Parameters
        keep their names.

        Raises:
            ArgumentError: If there is no such layer or direction.
        """
        alone = self._of(slice(k := self.index(layer, reverse), k + 1))
        alone.num_layers, alone.bidirectional = 1, False
        alone.stride = self.stride if layer == 0 else 1
        return alone

    def below(self) -> Self:
        """Return the layers below the last one as a separate layer that shares their parameters."""
        below = self._of(slice(0, (self.num_layers - 1) * self.num_directions))
        below.num_layers = self.num_layers - 1
        return below

    def _of(self, chosen: slice) -> Self:
        """Return a layer with the directions of a slice."""
        copied = object.__new__(type(self))
        copied.__dict__ |= self.__dict__  # copy.copy refuses parametrized layers
        others = tuple({*self.suffixes} - {*self.suffixes[chosen]})
        for registry in ("_parameters", "_modules"):
            held = {n: v for n, v in getattr(self, registry).items() if not n.endswith(others)}
            setattr(copied, registry, held)
        if isinstance(every := copied._modules.get("parametrizations"), nn.ModuleDict):
            kept = {n: v for n, v in every.items() if not n.endswith(others)}
            copied._modules["parametrizations"] = nn.ModuleDict(kept)
        copied.suffixes, copied.features = self.suffixes[chosen], self.features[chosen]
        copied.input_size, copied.specs = copied.features[0], self.specs[chosen]
        reaches = self.layout.reaches[chosen]
        copied.layout = replace(self.layout, reaches=reaches, features=copied.features)
        return copied

    def not_linear(self) -> str:
        """Return why a unit is not linear in its reference given its gates; "" if it is."""
        if self.bidirectional:
            return "It has two directions; layer.part(k, reverse) of each one has a kernel."
        return "It has several layers; layer.kernel is that of the last one." * (
            self.num_layers > 1
        )

    def reset_parameters(self) -> None:
        """Reinitialize all parameters."""
        for k in range(len(self.suffixes)):
            self._reset_direction(k)

    def extra_repr(self) -> str:
        """Return the arguments that differ from their defaults."""
        return shown_arguments(self, "input_size", "hidden_size", apart=self._shown)

    def __repr__(self) -> str:
        return f"{self._get_name()}({self.extra_repr()})"

    def _direction(self, k: int) -> Run:
        raise NotImplementedError

    def _reset_direction(self, k: int) -> None:
        raise NotImplementedError

    def _together(
        self, runs: list[Any], x: Tensor, state: tuple[Tensor, ...], lengths: Tensor | None, /
    ) -> tuple[Tensor, ...] | None:
        """Run both directions of a layer by one kernel, or return None if there is none.

        State and new state have the shape ``(2, B, H)``.
        """
        return None

    def _watch(self, x: Tensor, state: Any, /) -> None:
        """Warn about the state of a training layer; the default does nothing."""

    def core_steps(self, x_t: Tensor, /) -> CoreSteps | None:
        """Return the core's steps for all layers and their weights, or None if it has none."""
        return None

    def _add(self, name: str, k: int, *shape: int, **options: Any) -> None:
        """Register a parameter of a direction; None if the first axis is empty."""
        parameter = nn.Parameter(torch.empty(shape, **options)) if shape[0] else None
        self.register_parameter(name + self.suffixes[k], parameter)

    def _own(self, name: str, k: int) -> Any:
        """Return a parameter or module of a direction."""
        return getattr(self, name + self.suffixes[k])

    def _run(
        self,
        x: Tensor,
        fields: tuple[Tensor, ...],
        windows: tuple[Tensor, ...],
        lengths: Tensor | None,
    ) -> tuple[Tensor, list[tuple[Tensor, ...]], list[Tensor]]:
        if self.num_layers > 1 and (ran := wavefront(self, x, fields, lengths)) is not None:
            return *ran, [*windows]
        new_fields, new_windows = [], []
        for layer in range(self.num_layers):
            if layer and self.dropout:
                x = F.dropout(x, self.dropout, self.training)
            if self.variational_dropout:  # one mask for all steps of a sequence
                kept = F.dropout(torch.ones_like(x[:1]), self.variational_dropout, self.training)
                x = x * kept
            outputs, first = [], layer * self.num_directions
            if self.bidirectional and short_backend(x) == "triton":
                runs = [self._direction(first + d) for d in range(2)]
                of_layer = tuple(field[first : first + 2] for field in fields)
                if (joint := self._together(runs, x, of_layer, lengths)) is not None:
                    x, *after = joint
                    new_fields += zip(*after, strict=True)
                    new_windows += windows[first : first + 2]
                    continue
            for d in range(self.num_directions):
                k = first + d
                before, run = tuple(field[k] for field in fields), self._direction(k)
                output, after, window = run(x, before, windows[k], lengths, bool(d))
                outputs.append(output)
                new_fields.append(after)
                new_windows.append(window)
            x = outputs[0] if len(outputs) == 1 else torch.cat(outputs, dim=-1)
            if lengths is not None and not layer and self.stride > 1:
                lengths = lengths // self.stride
        return x, new_fields, new_windows

    def _step_shape(self) -> str:
        return f"(batch, {self.input_size}) or unbatched ({self.input_size},)"

    def is_plain(self) -> bool:
        """Return True if ``forward`` consists of one step of each direction."""
        cls, values = type(self), self.__dict__  # attribute access of modules is slow
        return not (
            (self.training and (self.dropout or self.variational_dropout))
            or values["_forward_hooks"]
            or values["_forward_pre_hooks"]
            or "forward" in values
            or _has_any_global_hook()
            or cls.forward is not SequenceLayer.forward
            or cls._run is not SequenceLayer._run
        )

    def _on_core(self, input: Any, state: Any) -> tuple[Tensor, Any] | None:
        """Return the result of ``forward`` without operators, or None if it needs them."""
        drops = self.training and (self.dropout or self.variational_dropout)
        is_usual = not (drops or self.stride > 1)
        is_changed = type(self)._run is not SequenceLayer._run or "_direction" in self.__dict__
        if not is_usual or is_changed:
            return None
        if type(input) is not Tensor or input.is_nested or input.dim() != 3:
            return None
        if not self.runs_on_core:
            return None
        x = input.transpose(0, 1) if self.batch_first else input
        if x.shape[2] != self.input_size or not x.shape[0]:
            return None
        if self.num_layers > 1 and plan(self, x) is not None:
            return None
        result = core_call(self, x, state)
        if result is None:
            return None
        output, new_state = result
        if self.training:
            self._watch(x, new_state)
        return output.transpose(0, 1) if self.batch_first else output, new_state

    def any_parameter(self) -> Tensor:
        """Return a parameter, whose device and type the states have."""
        for parameter in self._parameters.values():  # parameters() is slow
            if parameter is not None:
                return parameter
        parts = [getattr(m, "_former_parameters", m._parameters) for m in self.modules()]
        parts += [vars(m) for m in self.modules()]  # plain tensors that replace parameters
        return next(x for members in parts for x in members.values() if isinstance(x, Tensor))
