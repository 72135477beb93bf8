"""Features of texts as rows of a sparse matrix, on the C++ core."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray

from representer.ops import core
from representer.ops.structs import NgramsStruct, TextsStruct

Numbers = NDArray[np.int64]


class Ngrams(NamedTuple):
    """A view of N texts: the n-grams of their tokens, or of those of sequences that they sum."""

    orders: Numbers  # the lengths of the n-grams ``(O,)``
    codes: Sequence[Numbers]  # of the n-grams of each order, ascending
    tables: Sequence[NDArray[np.int32]]  # of each order, the position of the code in each slot
    weights: NDArray[np.float64]  # of all n-grams ``(F,)``
    base: int  # numbers of tokens + 1
    boundary: int  # the token that is not inside an n-gram, -1 for none
    ids: Numbers  # the tokens of all sequences, -1 for one without a number
    lengths: Numbers  # of the sequences ``(S,)``
    summed: Numbers | None = None  # the sequences of all texts; None if text i is sequence i


def text_features(
    views: Sequence[Ngrams], lengths: Numbers, scale: float
) -> tuple[NDArray[np.float64], NDArray[np.int32], NDArray[Any], int]:
    """Return values, columns, ends ``(N + 1,)`` and width of the rows of N texts.

    Counts are damped, weighted and scaled to length 1 in each view, and multiplied by `scale`.
    ``lengths`` are the numbers of summed sequences of each text.
    """
    ends, alive, structs = _ends(lengths), [], []
    capacity = most = 0
    for view in views:
        tokens = view.lengths
        if view.summed is not None:
            tokens = np.diff(_ends(tokens[view.summed])[ends])
        capacity += len(view.orders) * int(tokens.sum())
        most = max(most, int(tokens.max(initial=0)))
        struct, arrays = _struct(view)
        structs.append(struct)
        alive.append(arrays)  # which the struct points to
    damped = np.log1p(np.arange(most + 1.0))
    data, columns = np.empty(capacity), np.empty(capacity, np.int32)
    starts = np.empty(len(ends), np.int64)
    of_views = (NgramsStruct * len(structs))(*structs)
    arguments = TextsStruct(
        rows=len(lengths), views=len(views), capacity=capacity, most=most, threads=1,
        of_views=ctypes.addressof(of_views), ends=ends.ctypes.data, damped=damped.ctypes.data,
        data=data.ctypes.data, indices=columns.ctypes.data, starts=starts.ctypes.data, scale=scale,
    )  # fmt: skip
    core.call("text_features", torch.float64, arguments)
    count = int(starts[-1])
    starts = starts.astype(np.int32) if count < 2**31 else starts
    return data[:count], columns[:count], starts, sum(len(view.weights) for view in views)


def _ends(lengths: Numbers) -> Numbers:
    return np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths)])


def _struct(view: Ngrams) -> tuple[Any, Any]:
    """Return the struct of a view, and the arrays that it points to."""
    summed = None if view.summed is None else np.ascontiguousarray(view.summed)
    arrays = [
        np.ascontiguousarray(view.orders), _pointers(view.codes), _pointers(view.tables),
        np.array([len(table).bit_length() - 1 for table in view.tables]),
        _ends(np.array([*map(len, view.codes)], np.int64)), np.ascontiguousarray(view.ids),
        _ends(view.lengths), summed, np.ascontiguousarray(view.weights),
    ]  # fmt: skip
    pointers = [None if array is None else array.ctypes.data for array in arrays]
    sizes = len(view.lengths), len(view.weights), len(view.orders), view.base, view.boundary
    return NgramsStruct(*sizes, *pointers), arrays


def _pointers(arrays: Sequence[NDArray[Any]]) -> NDArray[np.uintp]:
    return np.array([array.ctypes.data for array in arrays], np.uintp)
