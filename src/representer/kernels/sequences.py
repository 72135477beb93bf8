"""Reading of lists of sequences, as differentiable tensors or float64 arrays."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from torch import Tensor

from representer.errors import ArgumentError, KindError, ShapeError


@dataclass(frozen=True)
class Sequences:
    """Sequences as tensors ``(T_i, I)`` of one dtype and device."""

    items: list[Tensor]  # the sequences
    from_tensors: bool  # true if they were tensors, so that the kernel returns a tensor


Pair = tuple[Sequences, Sequences]
EMPTY = torch.Size((0, 1))  # of an empty sequence without other sequences that have features


def read_sequences(
    X: Iterable[Any], name: str = "X", like: Sequences | None = None, hint: str = ""
) -> Sequences:
    """Read a list of sequences, each a tensor, an array or nested lists ``(T_i, I)``.

    Args:
        X: The sequences; a tensor or array ``(N, T, I)`` is N of them, and ``[]`` none. One of
            shape ``(0,)``, such as ``[]``, is an empty sequence.
        name: Their name in messages.
        like: The sequences that these will be compared with.
        hint: The hint of the error for strings or tokens.

    Raises:
        ArgumentError: If a number is not finite.
        KindError: If one is not a tensor, array or nested list of numbers, or if tensors and
            others, dtypes or devices are mixed.
        ShapeError: If one is not ``(time, features)``, or feature sizes differ.
    """
    if isinstance(X, (str, bytes, dict)) or not isinstance(X, Iterable):
        raise KindError(name, type(X).__name__, "a list of sequences (time, features)", hint=hint)
    raw = list(X)
    given = like.items if like is not None else []
    is_tensor = isinstance(raw[0], Tensor) if raw else isinstance(X, Tensor)
    from_tensors = like.from_tensors if given and like is not None else is_tensor
    items = [_read(sequence, f"{name}[{i}]", from_tensors, hint) for i, sequence in enumerate(raw)]
    known = (item for item in [*given, *items] if item.dim() == 2 and item.shape != EMPTY)
    first = next(known, None)
    items = [item if item.dim() == 2 else _empty(item, first) for item in items]
    for i, item in enumerate(items):
        _check_like(item, f"{name}[{i}]", items[0] if first is None else first)
        _check_finite(item, f"{name}[{i}]")
    return Sequences(items, from_tensors)


def read_pair(X: Iterable[Any], Y: Iterable[Any] | None, hint: str = "") -> Pair:
    """Read the sequences of a Gram matrix, X and Y, or X twice; see `read_sequences`."""
    x = read_sequences(X, "X", None, hint)
    if Y is None:
        return x, x
    y = read_sequences(Y, "Y", x, hint)
    first = next((item for item in y.items if item.shape != EMPTY), None)
    if first is None or any(item.shape != EMPTY for item in x.items):
        return x, y
    return Sequences([_empty(item, first) for item in x.items], y.from_tensors), y


def empty_gram(*sets: Sequences) -> Tensor:
    """Return the Gram matrix ``(N, M)`` of two sets, or the diagonal ``(N,)``, if one is empty."""
    like = next((item for own in sets for item in own.items), torch.empty(0).double())
    dtype = like.dtype if like.is_floating_point() else torch.float64
    return torch.zeros([len(own.items) for own in sets], dtype=dtype, device=like.device)


def _empty(item: Tensor, first: Tensor | None) -> Tensor:
    """Return an empty sequence with the features of another one, which may be unknown."""
    return item.reshape(EMPTY) if first is None else first.new_zeros(0, first.shape[1])


def read_vectors(X: Any, name: str = "X", like: Sequences | None = None) -> Sequences:
    """Read vectors ``(N, d)``, a tensor, an array or nested lists, as one item.

    Raises:
        ArgumentError: If a number is not finite.
        KindError: If they are not numbers, or tensors and others are mixed.
        ShapeError: If they are not ``(N, d)``, or d differs from that of ``like``.
    """
    from_tensors = isinstance(X, Tensor) if like is None else like.from_tensors
    if isinstance(X, (list, tuple)) and X and all(isinstance(x, Tensor) for x in X):
        X = torch.stack([*X])
        from_tensors = True if like is None else from_tensors
    item = _read(X, name, from_tensors, "")
    if item.dim() != 2:
        raise ShapeError(name, item.shape, "(vectors, features)")
    _check_like(item, name, item if like is None else like.items[0])
    _check_finite(item, name)
    return Sequences([item], from_tensors)


def _read(sequence: Any, name: str, from_tensors: bool, hint: str) -> Tensor:
    if isinstance(sequence, Tensor) != from_tensors:
        expected = "a tensor" if from_tensors else "an array or nested lists"
        raise KindError(
            name,
            type(sequence).__name__,
            f"{expected}, as the first sequence",
            hint="Pass only tensors to get a tensor, or no tensors to get a float64 array.",
        )
    item = sequence if from_tensors else _tensor(sequence, name, hint)
    if not item.is_floating_point():
        raise KindError(
            name, str(item.dtype), "a floating-point dtype", hint=f"Use {name}.double()."
        )
    if item.shape == (0,):
        return item
    if item.dim() != 2 or not item.shape[1]:
        hint = "Put a single sequence into a list." if item.dim() < 2 else ""
        raise ShapeError(name, item.shape, "(time, features)", hint=hint)
    return item


def _tensor(sequence: Any, name: str, hint: str) -> Tensor:
    try:
        array = np.asarray(sequence)
    except ValueError:  # nested lists of unequal lengths
        array = None
    if array is None or array.dtype.kind not in "biuf":
        expected = "a tensor, an array or nested lists of numbers (time, features)"
        raise KindError(name, type(sequence).__name__, expected, hint=hint)
    return torch.from_numpy(array.astype(np.float64))


def _check_like(item: Tensor, name: str, first: Tensor) -> None:
    if item.shape[1] != first.shape[1]:
        raise ShapeError(
            name, item.shape, f"(time, {first.shape[1]}), the features of the first sequence"
        )
    if item.dtype != first.dtype:
        hint = f"Use {name}.to({first.dtype})."
        raise KindError(name, str(item.dtype), f"{first.dtype}, as the first sequence", hint=hint)
    check_device(item, name, first, "the first sequence")


def check_device(item: Tensor, name: str, other: Tensor, whose: str) -> None:
    """Check that a tensor is on the device of another one.

    Raises:
        KindError: If it is not; the message has the name of the tensor and ``whose`` the other is.
    """
    if item.device != other.device:
        hint = f"Use {name}.to({str(other.device)!r})."
        expected = f"on {other.device}, as {whose}"
        raise KindError(name, f"on {item.device}", expected, hint=hint)


def _check_finite(item: Tensor, name: str) -> None:
    if bool(torch.isfinite(item.detach()).all()):
        return
    step, feature = (int(i) for i in torch.isfinite(item.detach()).logical_not().nonzero()[0])
    value = float(item[step, feature])
    hint = "Drop or fill the missing step." if value != value else ""
    raise ArgumentError(f"{name}[{step}, {feature}]", value, "a finite number", hint=hint)
