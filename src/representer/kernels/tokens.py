"""Reading of strings and lists of tokens as integers."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from representer.errors import KindError, ShapeError
from representer.kernels.sequences import Sequences, check_device

SEQUENCES = "strings or of lists of tokens"
REFUSED = (dict, set, frozenset, bytes, bytearray, Tensor, np.ndarray)  # of no order, or no tokens
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
    require_several(X, SEQUENCES, name)
    raw = list(X)
    items = [_numbers(one, vocabulary, f"{name}[{i}]") for i, one in enumerate(raw)]
    for i, item in enumerate(items):
        first = like.items[0] if like is not None and like.items else items[0]
        check_device(item, f"{name}[{i}]", first, "the first sequence")
    return Sequences(items, bool(raw) and isinstance(raw[0], Tensor))


def token_lists(X: Iterable[Any], name: str = "X") -> list[Sequence[Any]]:
    """Return the tokens of strings, of lists of tokens, or of arrays ``(T_i,)``; see `read_tokens`.

    Raises:
        KindError: If one is not a string or list of tokens, or a token not a string or integer.
        ShapeError: If one is an array with more than one axis.
    """
    require_several(X, SEQUENCES, name)
    return [_tokens(one, f"{name}[{i}]") for i, one in enumerate(X)]


def read_texts(X: Iterable[Any], name: str = "X") -> Iterator[str]:
    """Yield the texts of a list, one after the other, since they may be read from a file.

    Raises:
        KindError: If X is no list of strings.
    """
    require_several(X, "texts", name)
    for row, text in enumerate(X):
        if not isinstance(text, str):
            kind = type(text).__name__
            raise KindError(f"{name}[{row}]", kind, "a string", hint=string_fix(text))
        yield text


def string_fix(value: Any) -> str:
    """Return how to fix a value instead of a string, or an empty text."""
    if value is None or (isinstance(value, (float, np.floating)) and np.isnan(value)):
        return "Leave it out, or pass an empty string."
    if isinstance(value, (bytes, bytearray)):
        return "Decode it, with .decode()."
    return "Pass one column." if isinstance(value, np.ndarray) else ""


def require_several(X: Any, what: str, name: str = "X") -> None:
    """Require a list of strings or the like; a single string would be read as its characters.

    A table would be read as the names of its columns.

    Raises:
        KindError: X is something else.
    """
    shape = getattr(X, "shape", None)
    is_table = len(shape or ()) == 2 and hasattr(X, "columns")
    is_one = isinstance(X, (str, bytes, dict)) or shape == () or not isinstance(X, Iterable)
    if is_table or is_one:
        hint = "Put a single string into a list." if isinstance(X, str) else ""
        hint = "Pass one of its columns." if is_table else hint
        raise KindError(name, type(X).__name__, f"a list of {what}", hint=hint)


def _numbers(sequence: Any, vocabulary: dict[Hashable, int], name: str) -> Tensor:
    device = sequence.device if isinstance(sequence, Tensor) else None
    tokens = _tokens(sequence, name)
    numbers = [vocabulary.setdefault(token, len(vocabulary)) for token in tokens]
    return torch.tensor(numbers, dtype=torch.int64, device=device)


def _tokens(sequence: Any, name: str) -> Sequence[Any]:
    if isinstance(sequence, str):
        return sequence
    if isinstance(sequence, (Tensor, np.ndarray)) and sequence.ndim:
        if sequence.ndim > 1:
            shape, expected = tuple(sequence.shape), "(time,), one token per step"
            raise ShapeError(name, shape, expected, hint=VECTORS)
        sequence = sequence.tolist()
    if isinstance(sequence, REFUSED) or not isinstance(sequence, Iterable):
        is_of_array = isinstance(sequence, (Tensor, np.number))
        hint = "Put a single sequence into a list." if is_of_array else string_fix(sequence)
        raise KindError(name, type(sequence).__name__, "a string or a list of tokens", hint=hint)
    tokens = sequence if isinstance(sequence, Sequence) else list(sequence)
    if {*map(type, tokens)} <= {str, int}:
        return tokens
    for t, token in enumerate(tokens):
        if token is None or isinstance(token, (float, np.floating)) or not _is_hashable(token):
            got, expected = type(token).__name__, "a token: a string or an integer"
            hint = string_fix(token) if token is None else VECTORS
            raise KindError(f"{name}[{t}]", got, expected, hint=hint)
    return tokens


def _is_hashable(token: Any) -> bool:
    if isinstance(token, (Tensor, np.ndarray)):  # hashed by identity
        return False
    try:
        hash(token)
    except TypeError:
        return False
    return True
