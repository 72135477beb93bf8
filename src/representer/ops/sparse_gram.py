"""All inner products of the rows of a sparse matrix, on the C++ core."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from scipy import sparse

from representer.ops import core
from representer.ops.structs import ColumnsStruct


def sparse_gram(features: sparse.csc_array) -> NDArray[Any]:
    """Return the inner products of the rows ``(N, N)``, from ``(N, F)`` in float32 or float64.

    The rows of each column ascend, and each stands once.
    """
    shape: Any = features.shape
    count, width = shape
    arrays = [
        np.ascontiguousarray(array, dtype)
        for array, dtype in (
            (features.data, features.dtype), (features.indices, np.int32),
            (features.indptr, np.int64),
        )
    ]  # fmt: skip
    gram = np.empty((count, count), features.dtype)
    pointers = [array.ctypes.data for array in (*arrays, gram)]
    dtype = torch.float64 if features.dtype == np.float64 else torch.float32
    core.call("sparse_gram", dtype, ColumnsStruct(count, width, core.threads(), *pointers))
    return gram
