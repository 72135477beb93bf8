"""Read safetensors files, checking names, shapes, dtypes and sizes before reading the body."""

from __future__ import annotations

import math
import struct
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import (
    TYPE_CHECKING,
    Any,
    NamedTuple,
    TypeVar,
)

import torch
from torch import Tensor

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

    Kind = TypeVar("Kind", bound=DataclassInstance)
from representer.storage.files import opened, parse_json, physical_memory, read_exactly

# Read safetensors files, checking names, shapes, dtypes and sizes before reading the body.

_MAX_HEADER = 16 * 2**20
_DTYPES = {
    "F64": torch.float64, "F32": torch.float32, "F16": torch.float16, "BF16": torch.bfloat16,
    "I64": torch.int64, "I32": torch.int32, "I16": torch.int16, "I8": torch.int8,
    "U8": torch.uint8, "BOOL": torch.bool, "C64": torch.complex64,
}  # fmt: skip


class Form(NamedTuple):
    """Shape and dtype of a tensor."""

    shape: tuple[int, ...]
    dtype: torch.dtype

    def __str__(self) -> str:
        """Return shape and dtype in torch's notation."""
        return f"{self.shape} {self.dtype}"


Forms = Mapping[str, Form]


def forms_of(tensors: Mapping[str, Tensor]) -> dict[str, Form]:
    """Return the shape and dtype of each tensor."""
    return {name: Form(tuple(tensor.shape), tensor.dtype) for name, tensor in tensors.items()}


def require_same_forms(given: Forms, expected: Forms) -> None:
    """Check that tensors match those of a model in name, shape and dtype.

    Raises:
        ValueError: They differ; the message names the first difference.
    """
    for name in [*expected, *(name for name in given if name not in expected)]:
        if given.get(name) != expected.get(name):
            there, here = given.get(name, "missing"), expected.get(name, "missing")
            raise ValueError(f"{name[:80]} is {there} in the file and {here} in the model")


def read_tensors(
    path: str | Path,
    *,
    check: Callable[[Forms], None] = lambda forms: None,
    verify: Callable[[bytes], None] = lambda data: None,
    is_nan_allowed: bool = False,
) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Return the tensors of a file and the metadata of its header.

    Args:
        path: The file.
        check: Is called with names, shapes and dtypes before memory is allocated; raises ValueError
            to refuse them.
        verify: Is called with the whole file before it is parsed; raises to refuse it.
        is_nan_allowed: Accept NaN. Infinite numbers are refused always.

    Raises:
        OSError: The file cannot be read.
        ValueError: It is damaged, refused by `check`, or holds a number that is not finite.
    """
    import safetensors
    import safetensors.torch

    with opened(path, physical_memory()) as (descriptor, size):
        start = read_exactly(descriptor, min(size, 8), path)
        length = struct.unpack("<Q", start)[0] if len(start) == 8 else 0
        if not 0 < length <= min(_MAX_HEADER, size - 8):
            raise ValueError("it is not a safetensors file, or its start is damaged")
        header = read_exactly(descriptor, length, path)
        forms, metadata = _read_header(header)
        check(forms)
        needed = 8 + length + sum(math.prod(f.shape) * f.dtype.itemsize for f in forms.values())
        if needed != size:
            raise ValueError(f"it has {size:,} bytes; its header declares {needed:,}")
        body = read_exactly(descriptor, size - 8 - length, path)
    data = b"".join((start, header, body))
    verify(data)
    try:
        tensors = safetensors.torch.load(data)
    except (safetensors.SafetensorError, AssertionError, KeyError, RuntimeError) as error:
        raise ValueError(str(error)) from None
    for name, tensor in tensors.items():
        if tensor.is_floating_point():
            is_bad = tensor.isinf() if is_nan_allowed else ~tensor.isfinite()
            if is_bad.any():
                raise ValueError(f"{name[:80]} holds a number that is not finite")
    return tensors, metadata


def _read_header(header: bytes) -> tuple[dict[str, Form], dict[str, str]]:
    values = parse_json(header, max_depth=8)
    if not isinstance(values, dict):
        raise ValueError("its header is not an object")
    metadata = values.pop("__metadata__", None) or {}
    if not isinstance(metadata, dict) or not all(isinstance(v, str) for v in metadata.values()):
        raise ValueError("its metadata are not strings")
    return {name: _form(value) for name, value in values.items()}, metadata


def _form(value: Any) -> Form:
    if not isinstance(value, dict):
        raise ValueError("its header does not describe tensors")
    shape, dtype = value.get("shape"), value.get("dtype")
    if not isinstance(dtype, str) or dtype not in _DTYPES:
        raise ValueError(f"it has a tensor of unsupported dtype {str(dtype)[:20]!r}")
    if not isinstance(shape, list) or not all(type(n) is int and 0 <= n < 2**48 for n in shape):
        raise ValueError("it has a tensor without a shape")
    return Form(tuple(shape), _DTYPES[dtype])
