"""Reading of strings and lists of tokens as integers."""

from __future__ import annotations

from collections.abc import Hashable, Iterable
from typing import Any

import numpy as np
import torch
from torch import Tensor

from representer.errors import KindError, ShapeError
from representer.kernels.sequences import Sequences, check_device

VECTORS = 'Sequences of vectors are compared with base="linear" or a point kernel.'


def read_tokens(
    X: Iterable[Any],
    vocabulary: dict[Hashable, int],
    name: str = "X",
    like: Sequences | None = None,
) -> Sequences:
    """Read a list of strings (each character is a token), lists of tokens or arrays ``(T_i,)``.

    Args:
        X: The sequences.
        vocabulary: The ids of previous tokens; new tokens are added.
        name: Their name in messages.
        like: The sequences that these will be compared with.

    Returns:
        Integers, on the device of the sequences if they are tensors.

    Raises:
        KindError: If one is not a string or list of tokens, or a token not a string or integer, or
            if devices are mixed.
        ShapeError: If one is an array with more than one axis.
    """
    require_several(X, "strings or of lists of tokens", name)
    raw = list(X)
    items = [_read(sequence, vocabulary, f"{name}[{i}]") for i, sequence in enumerate(raw)]
    for i, item in enumerate(items):
        first = like.items[0] if like is not None and like.items else items[0]
        check_device(item, f"{name}[{i}]", first, "the first sequence")
    return Sequences(items, bool(raw) and isinstance(raw[0], Tensor))


def require_several(X: Any, what: str, name: str = "X") -> None:
    """Require a list of strings or the like; a single string would be read as its characters.

    A table would be read as the names of its columns.

    Raises:
        KindError: X is something else.
    """
    is_table = len(getattr(X, "shape", ())) == 2 and hasattr(X, "columns")
    if is_table or isinstance(X, (str, bytes, dict)) or not isinstance(X, Iterable):
        hint = "Put a single string into a list." if isinstance(X, str) else ""
        hint = "Pass one of its columns." if is_table else hint
        raise KindError(name, type(X).__name__, f"a list of {what}", hint=hint)


def _read(sequence: Any, vocabulary: dict[Hashable, int], name: str) -> Tensor:
    device = sequence.device if isinstance(sequence, Tensor) else None
    if isinstance(sequence, (Tensor, np.ndarray)):
        if sequence.ndim != 1:
            raise ShapeError(
                name, tuple(sequence.shape), "(time,), one token per step", hint=VECTORS
            )
        sequence = (sequence.cpu() if isinstance(sequence, Tensor) else sequence).tolist()
    if isinstance(sequence, dict) or not isinstance(sequence, Iterable):
        raise KindError(name, type(sequence).__name__, "a string or a list of tokens")
    tokens = list(sequence)
    for t, token in enumerate(tokens):
        if isinstance(token, (float, np.floating)) or not _is_hashable(token):
            got, expected = type(token).__name__, "a token: a string or an integer"
            raise KindError(f"{name}[{t}]", got, expected, hint=VECTORS)
    numbers = [vocabulary.setdefault(token, len(vocabulary)) for token in tokens]
    return torch.tensor(numbers, dtype=torch.int64, device=device)


def _is_hashable(token: Any) -> bool:
    if isinstance(token, (Tensor, np.ndarray)):  # hashed by identity
        return False
    try:
        hash(token)
    except TypeError:
        return False
    return True
