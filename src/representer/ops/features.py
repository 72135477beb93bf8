"""The loops of features on the C++ core: n-grams of texts, filters of series, sparse products."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from representer.errors import ShapeError
from representer.ops import core
from representer.ops.structs import ColumnsStruct, FiltersStruct, NgramsStruct, TextsStruct

# Texts: rows of a sparse matrix.

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


# Series: how often, and how far, filters of nine taps exceed thresholds.

TAPS = 9


def filter_counts(
    padded: NDArray[np.floating], lengths: NDArray[np.int64], dilation: int,
    triples: NDArray[np.int64], thresholds: NDArray[np.floating], *, has_excess: bool = True,
) -> tuple[NDArray[np.float64], NDArray[np.float64] | None]:  # fmt: skip
    """Return, of each threshold, the number of steps above it, and the sum of what is above it.

    Args:
        padded: Series ``(N, 4 dilation + T + 4 dilation)`` with zeros before and behind.
        lengths: Of the series, at most T ``(N,)``.
        dilation: Steps between two taps.
        triples: The three taps of weight 2 of each filter, others have -1; or -1 for the mean of
            all ``(R, 3)``.
        thresholds: Of each filter, read in the precision of the series ``(R, J)``.
        has_excess: Return the sums, too, not None.

    Shape:
        - returns ``(N, R, J)`` each

    Raises:
        ShapeError: There are not as many lengths as series, or not as many filters as thresholds.
    """
    precision = np.float64 if padded.dtype == np.float64 else np.float32
    padded, thresholds = (np.ascontiguousarray(x, precision) for x in (padded, thresholds))
    lengths, triples = (np.ascontiguousarray(x, np.int64) for x in (lengths, triples))
    if len(lengths) != len(padded):
        raise ShapeError("lengths", lengths.shape, f"({len(padded)},), as many as series")
    if triples.shape != (len(thresholds), 3):
        raise ShapeError("triples", triples.shape, f"({len(thresholds)}, 3), as many as thresholds")
    shape = len(padded), *thresholds.shape
    counts, excess = np.empty(shape), np.empty(shape) if has_excess else None
    arguments = FiltersStruct(
        series=len(padded), steps=padded.shape[1] - (TAPS - 1) * dilation, rows=shape[1],
        thresholds=shape[2], dilation=dilation, threads=core.threads(), x=padded.ctypes.data,
        lengths=lengths.ctypes.data, triples=triples.ctypes.data, bounds=thresholds.ctypes.data,
        counts=counts.ctypes.data, excess=None if excess is None else excess.ctypes.data,
    )  # fmt: skip
    dtype = torch.float64 if precision is np.float64 else torch.float32
    core.call("filter_counts", dtype, arguments)
    return counts, excess


# Any features: all inner products of the rows of a sparse matrix.


def sparse_gram(features: sparse.csc_array) -> NDArray[Any]:
    """Return the inner products of the rows ``(N, N)``, from ``(N, F)``.

    The rows of each column ascend, and each stands once. They are in the precision of the features,
    float32 or float64; those of integers, which the core does not read, in float64.
    """
    shape: Any = features.shape
    count, width = shape
    precision = np.float32 if features.dtype == np.float32 else np.float64
    arrays = [
        np.ascontiguousarray(array, dtype)
        for array, dtype in (
            (features.data, precision), (features.indices, np.int32),
            (features.indptr, np.int64),
        )
    ]  # fmt: skip
    gram = np.empty((count, count), precision)
    pointers = [array.ctypes.data for array in (*arrays, gram)]
    dtype = torch.float32 if precision is np.float32 else torch.float64
    core.call("sparse_gram", dtype, ColumnsStruct(count, width, core.threads(), *pointers))
    return gram
