"""How often, and how far, filters of nine taps exceed thresholds, on the C++ core."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from representer.ops import core
from representer.ops.structs import FiltersStruct

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
        thresholds: In the precision of the series ``(R, J)``.
        has_excess: Return the sums, too, not None.

    Shape:
        - returns ``(N, R, J)`` each
    """
    padded, thresholds = np.ascontiguousarray(padded), np.ascontiguousarray(thresholds)
    lengths, triples = (np.ascontiguousarray(x, np.int64) for x in (lengths, triples))
    shape = len(padded), *thresholds.shape
    counts, excess = np.empty(shape), np.empty(shape) if has_excess else None
    arguments = FiltersStruct(
        series=len(padded), steps=padded.shape[1] - (TAPS - 1) * dilation, rows=shape[1],
        thresholds=shape[2], dilation=dilation, threads=core.threads(), x=padded.ctypes.data,
        lengths=lengths.ctypes.data, triples=triples.ctypes.data, bounds=thresholds.ctypes.data,
        counts=counts.ctypes.data, excess=None if excess is None else excess.ctypes.data,
    )  # fmt: skip
    dtype = torch.float64 if padded.dtype == np.float64 else torch.float32
    core.call("filter_counts", dtype, arguments)
    return counts, excess
