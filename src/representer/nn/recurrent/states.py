"""The states of sequence layers and their shapes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar, cast

import torch
import torch.nn.functional as F
from torch import Tensor
from torch.utils._pytree import _register_namedtuple

from representer.errors import KindError, ShapeError
from representer.functional import held_gates, ngram_windows
from representer.ops.common import dtypes_meet
from representer.ops.held import HeldChain, before, chain_states

if TYPE_CHECKING:
    from representer.nn.recurrent.machine import CellDirection, RecurrentKernelMachine
    from representer.nn.recurrent.string import StringDirection

# Named tuples that other libraries can rebuild and ``torch.export`` can save.

_Tuple = TypeVar("_Tuple", bound=tuple[Any, ...])


def rebuildable(kind: type[_Tuple]) -> type[_Tuple]:
    """Let a named tuple be made as ``kind(iterable)`` too, like a plain tuple.

    A tuple of one field takes an iterator only, since any other iterable may be the field. The
    type has a name in files of ``torch.export``, and ``torch.load`` accepts it with weights_only.
    """
    named: Any = kind
    new: Callable[..., _Tuple] = named.__new__
    takes_any = len(named._fields) != 1

    @functools.wraps(new)
    def rebuild(cls: type[_Tuple], *values: Any, **options: Any) -> _Tuple:
        is_alone = len(values) == 1 and not options and not isinstance(values[0], Tensor)
        if is_alone and (takes_any or isinstance(values[0], Iterator)):
            values = tuple(values[0])
        return new(cls, *values, **options)

    named.__new__ = rebuild
    _register_namedtuple(named, serialized_type_name=f"representer.{named.__name__}")
    torch.serialization.add_safe_globals([named])
    return kind


_State = TypeVar("_State", bound=tuple[Any, ...])


def _detach(state: _State) -> _State:
    """Return the state detached from the autograd graph."""
    return _map_tensors(state, lambda _, tensor: tensor.detach())


def _reorder(state: _State, indices: Tensor) -> _State:
    """Return the state of the sequences at ``indices``, for example after a step of beam search."""
    is_tensor = isinstance(indices, Tensor)
    if not is_tensor or indices.dtype not in (torch.int32, torch.int64):
        received = str(indices.dtype) if is_tensor else type(indices).__name__
        raise KindError("indices", received, "a tensor of integers")
    if indices.dim() != 1:
        raise ShapeError("indices", indices.shape, "(batch,)")

    def pick(name: str, tensor: Tensor) -> Tensor:
        # h, the first field if there is one, has three dimensions
        if tensor.dim() < (2 if name == "steps" else 3):
            raise ShapeError(f"state.{name}", tensor.shape, "a batch to reorder")
        return tensor.index_select({"window": 0, "steps": 1}.get(name, -2), indices)

    return _map_tensors(state, pick)


@rebuildable
class RecurrentState(NamedTuple):
    """State of a layer with memory, for all its L layers and D directions.

    Attributes:
        h: Last outputs ``(L·D, B, H)``.
        c: Last memory cells ``(L·D, B, H)``.
    """

    h: Tensor
    c: Tensor
    detach = _detach
    reorder = _reorder


@rebuildable
class WindowedRecurrentState(NamedTuple):
    """State of a layer with memory and n-gram filters.

    Attributes:
        h: As in ``RecurrentState``.
        c: As in ``RecurrentState``.
        window: L·D tensors ``(B, (n−1)·dilation, I_l)``: the previous inputs in the windows of the
            n-gram filters of each layer, oldest first.
    """

    h: Tensor
    c: Tensor
    window: tuple[Tensor, ...]
    detach = _detach
    reorder = _reorder


@rebuildable
class WindowState(NamedTuple):
    """State of a layer without memory, except for its n-gram window.

    Attributes:
        window: As in ``WindowedRecurrentState``; of length 0 with filters of length 1.
    """

    window: tuple[Tensor, ...]
    detach = _detach
    reorder = _reorder


@rebuildable
class StringState(NamedTuple):
    """State of a string-kernel layer, for all its L layers and D directions.

    Attributes:
        h: Last outputs ``(L·D, B, H)``.
        c: Last states c_1 … c_n ``(L·D, n, B, H)``.
    """

    h: Tensor
    c: Tensor
    detach = _detach
    reorder = _reorder


@rebuildable
class StringMassState(NamedTuple):
    """State of a string-kernel layer with masses.

    Attributes:
        h: As in ``StringState``.
        c: As in ``StringState``.
        m: Last masses m_1 … m_n ``(L·D, n, B, H)``: the weights of all n-grams, summed.
    """

    h: Tensor
    c: Tensor
    m: Tensor
    detach = _detach
    reorder = _reorder


@rebuildable
class KBRNState(NamedTuple):
    """State of a network with learned activations, for all its L layers and D directions.

    Attributes:
        h: Last outputs ``(L·D, B, H)``.
        steps: Number of previous steps of each sequence ``(L·D, B)``, which selects the statistics
            for the next one.
    """

    h: Tensor
    steps: Tensor
    detach = _detach
    reorder = _reorder


@dataclass(frozen=True)
class StateLayout:
    """The shape of a layer's state."""

    type: type[Any]  # the NamedTuple of the state
    # for each field except ``window``, the axes between ``L·D`` and the batch; None for one
    # integer per sequence
    inner: Mapping[str, tuple[int, ...] | None]
    hidden_size: int  # H
    reaches: tuple[int, ...]  # length of each direction's window; there are L·D directions
    features: tuple[int, ...]  # i of each direction's layer

    def read(
        self, state: Any, batch: int, like: Tensor, is_batched: bool
    ) -> tuple[tuple[Tensor, ...], tuple[Tensor, ...]]:
        """Return the fields ``(L·D, …, B, H)`` and the windows ``(B, P, I)`` of a state.

        Raises:
            KindError: If the state has the wrong type, dtype or device.
            ShapeError: If a field has the wrong shape.
        """
        if state is None:
            return self._zeros(batch, like), self._zero_windows(batch, like)
        values = self._checked_tuple(state, batch, is_batched)
        fields = []
        for (name, inner), field in zip(self.inner.items(), values, strict=False):
            _check(
                f"state.{name}", field, self._shape(name, batch, is_batched), like, inner is None
            )
            field = field if is_batched else field.unsqueeze(_batch_axis(inner))
            # under autocast, a state may have another precision than the recurrence
            fields.append(field if inner is None else field.to(like.dtype))
        if "window" not in self.type._fields:
            return tuple(fields), self._zero_windows(batch, like)
        return tuple(fields), self._checked_windows(values[-1], batch, like, is_batched)

    def write(
        self, fields: list[tuple[Tensor, ...]], windows: list[Tensor], is_batched: bool
    ) -> Any:
        """Return the state from the fields and windows of all directions."""
        stacked = [torch.stack(field) for field in zip(*fields, strict=True)]
        if not is_batched:
            axes = map(_batch_axis, self.inner.values())
            stacked = [field.squeeze(axis) for axis, field in zip(axes, stacked, strict=True)]
            windows = [window[0] for window in windows]
        return self.type(*stacked, *((tuple(windows),) if "window" in self.type._fields else ()))

    def _shape(self, name: str, batch: int, is_batched: bool) -> tuple[int, ...]:
        inner, middle = self.inner[name], (batch,) if is_batched else ()
        if inner is None:
            return (len(self.features), *middle)
        return (len(self.features), *inner, *middle, self.hidden_size)

    def _zeros(self, batch: int, like: Tensor) -> tuple[Tensor, ...]:
        fields = []
        for name, inner in self.inner.items():
            if inner is None:  # expanded, so that a stride of 0 shows that all are equal
                counts = like.new_zeros(len(self.features), 1, dtype=torch.int64)
                fields.append(counts.expand(-1, batch))
            else:
                fields.append(like.new_zeros(self._shape(name, batch, True)))
        return tuple(fields)

    def _zero_windows(self, batch: int, like: Tensor) -> tuple[Tensor, ...]:
        return tuple(
            like.new_zeros(batch, reach, features)
            for reach, features in zip(self.reaches, self.features, strict=True)
        )

    def _checked_tuple(self, state: Any, batch: int, is_batched: bool) -> tuple[Any, ...]:
        if isinstance(state, Tensor):
            received = f"one tensor {tuple(state.shape)}"
        elif not isinstance(state, (tuple, list)):
            received = type(state).__name__
        elif len(state) != len(self.type._fields):
            received = f"a tuple of {len(state)}"
        else:
            return tuple(state)
        raise KindError("state", received, self._expected(batch, is_batched), hint=_STATE_HINT)

    def _checked_windows(
        self, windows: Any, batch: int, like: Tensor, is_batched: bool
    ) -> tuple[Tensor, ...]:
        count, is_tuple = len(self.features), isinstance(windows, (tuple, list))
        if not is_tuple or len(windows) != count:
            received = f"a tuple of {len(windows)}" if is_tuple else type(windows).__name__
            expected = f"a tuple of {count}, one tensor per layer and direction"
            raise KindError("state.window", received, expected, hint=_STATE_HINT)
        middle = (batch,) if is_batched else ()
        for k, window in enumerate(windows):
            shape = (*middle, self.reaches[k], self.features[k])
            _check(f"state.window[{k}]", window, shape, like)
        return tuple(windows) if is_batched else tuple(window[None] for window in windows)

    def _expected(self, batch: int, is_batched: bool) -> str:
        parts = [
            name if name == "window" else f"{name} {self._shape(name, batch, is_batched)}"
            for name in self.type._fields
        ]
        return f"{self.type.__name__}({', '.join(parts)})"


_STATE_HINT = "Pass the complete state that an earlier call returned."


def _batch_axis(inner: tuple[int, ...] | None) -> int:
    return -1 if inner is None else -2


def _map_tensors(state: _State, change: Callable[[str, Tensor], Tensor]) -> _State:
    """Apply a function of field name and tensor to every tensor of a state."""
    parts = [
        tuple(change(name, w) for w in field) if name == "window" else change(name, field)
        for name, field in zip(cast(Any, state)._fields, state, strict=True)
    ]
    return type(state)(*parts)


def _check(
    name: str, tensor: Any, shape: tuple[int, ...], like: Tensor, is_count: bool = False
) -> None:
    if not isinstance(tensor, Tensor):
        raise KindError(name, type(tensor).__name__, f"a tensor {shape}")
    if tuple(tensor.shape) != shape:
        swapped = tuple(tensor.transpose(0, -2).shape) == shape if tensor.dim() > 2 else False
        hint = "The state is never batch-first; use .transpose(0, 1)." if swapped else ""
        raise ShapeError(name, tensor.shape, str(shape), hint=hint)
    if tensor.device != like.device:
        raise KindError(name, f"on {tensor.device}", f"the layer's {like.device}")
    if is_count and tensor.dtype != torch.int64:
        raise KindError(name, str(tensor.dtype), f"integers {shape}")
    if not is_count and not dtypes_meet(tensor, like):
        raise KindError(name, str(tensor.dtype), f"the layer's {like.dtype}")


# The gates of recurrent layers, held for the kernel that a layer has learned.
#
# A unit is linear in its reference once its gates and h_{t−1} are given: the reference of a memory
# cell consists of the filter, the row of the recurrent matrix and the bias of the candidate,
# and that of a string chain of n tokens. Liang et al. 2019, (10), (18); Lei et al. 2017, section 4.
#
# Shapes: T time, B batch, I features, H units, n slots of the filters or tokens of a reference.


def held_cell(direction: CellDirection, x: Tensor, lengths: Tensor) -> HeldChain:
    """Return the gates of a cell and the features [X_t, h_{t−1}, 1] of its candidate.

    The direction is a forward one in evaluation mode, and the sequences are padded ``(T, B, I)``.
    """
    cell, bank = direction.cell, direction.bank
    batch, units = x.shape[1], sum(bank.lengths.values())
    zeros = x.new_zeros(batch, units)
    window = x.new_zeros(batch, bank.reach, x.shape[2])
    h, _, _ = direction(x, (zeros, zeros) if cell.has_memory else (), window, None, False)
    h = before(h)
    extended = F.pad(x, (0, 0, 0, 0, bank.reach, 0))
    a = dict(zip(cell.gates, direction.products(extended).unbind(-2), strict=True))
    if direction.weight is not None:
        recurrent = torch.einsum("rij,tbj->rtbi", direction.weight, h)
        for gate, product in zip(cell.recurrent_gates, recurrent, strict=True):
            a[gate] = a[gate] + product
    write, decay, output = held_gates(cell, a, direction.static)
    windows = ngram_windows(extended, max(bank.lengths), bank.dilation)
    features = [windows[bank.stride - 1 :: bank.stride]]
    features += [h] if cell.feedback == "all" else []
    features += [torch.ones_like(h[..., :1])] if cell.candidate_bias else []
    lengths = lengths // bank.stride
    held = HeldChain.of(torch.cat(features, dim=-1), decay, write, lengths)
    if cell.memory == "output":  # of q = z/2
        return held._replace(read=held.read / 2)
    if output is None or cell.output != "identity" or direction.psi is not None:
        return held
    last = output[(lengths - 1).clamp(min=0), torch.arange(batch, device=x.device)]
    return held._replace(read=last[:, None])


def cell_references(direction: CellDirection) -> Tensor:
    """Return each unit's filter, row of the recurrent matrix and bias, if any ``(1, H, F)``."""
    bank, cell = direction.bank, direction.cell
    if direction.wavelets is not None:
        filters = direction.wavelets.effective()[0]
    else:
        filters = bank.effective(direction.filters, len(cell.gates))[0]
    parts = [filters.transpose(1, 2).flatten(1)]
    if cell.feedback == "all" and direction.weight is not None:
        parts.append(direction.weight[cell.recurrent_gates.index("candidate")])
    if cell.candidate_bias:
        bias = parts[0].new_zeros(len(filters)) if direction.bias is None else direction.bias[0]
        parts.append(bias[:, None])
    return torch.cat(parts, dim=1)[None]


def held_string(direction: StringDirection, x: Tensor, lengths: Tensor) -> HeldChain:
    """Return the decays of a string chain; arguments as in `held_cell`."""
    chain = direction.chain
    decay = direction.decays(x, z := direction.products(x)).expand_as(z[:, :, 0])
    write = 1 - decay if chain.normalized == "paper" else torch.ones_like(decay)
    held = HeldChain.of(x, decay, write, lengths)
    orders = (chain.order,) if chain.readout == "last" else tuple(range(1, chain.order + 1))
    read = torch.ones_like(held.read).expand(-1, len(orders), -1)
    if chain.normalized == "exact":
        ones = torch.ones_like(z[:, :, : chain.order])
        _, masses = chain_states(ones, held.decay, held.write, "multiply", with_mass=True)
        mass = torch.stack([masses[j - 1][-1] for j in orders], dim=1)
        read = torch.where(mass == 0, 0.0, 1 / torch.where(mass == 0, 1.0, mass))
    share = torch.ones_like(read[0]) if direction.alpha is None else direction.alpha
    return held._replace(read=read, share=share, orders=orders, combine=chain.combine)


def not_linear(layer: RecurrentKernelMachine) -> str:
    """Return why a unit of a cell is not linear in its reference, given its gates; "" if it is."""
    cell = layer.cell
    is_linear = cell.memory == "cell" or (cell.output == "linear" and layer.psi is None)
    reasons = {
        f"Its candidate passes through {cell.candidate}.": cell.candidate != "identity",
        "Its input passes through the functions of input_layer.": layer.input_layer is not None,
        "The layer norm subtracts the mean of all units, so a unit is not linear in its own "
        "reference.": layer.layer_norm,
        "Zoneout mixes each state with the previous one.": any(layer.zoneout),
        "Its q is applied to the memory at every step.": not is_linear,
    }
    return next((reason for reason, holds in reasons.items() if holds), "")
