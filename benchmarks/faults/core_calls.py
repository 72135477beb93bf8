"""Calls of the compiled core in a file, so that a program without Python and torch can repeat them.

An array has the length that the call may use, to the byte: one that is read or written beyond its
end is then seen by a sanitizer, which knows nothing of the larger memory that torch allocates.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from unittest import mock

import torch
from torch import Tensor

from representer.ops import core


@dataclass
class Recorder:
    """Calls by name of the operation with its type, each as the bytes of its record."""

    calls: list[tuple[str, bytes]] = field(default_factory=list)
    _sizes: dict[int, int] = field(default_factory=dict)  # bytes of the arrays, by address

    @contextmanager
    def active(self) -> Iterator[None]:
        """Record every call of the core inside the block."""
        address, function = Tensor.data_ptr, core.function

        def noted(tensor: Tensor) -> int:
            found = address(tensor)
            if tensor.numel():
                last = sum((n - 1) * s for n, s in zip(tensor.shape, tensor.stride(), strict=True))
                size = (last + 1) * tensor.element_size()
                self._sizes[found] = max(size, self._sizes.get(found, 0))
            return found

        def recorded(operation: str, dtype: torch.dtype) -> Any:
            run = function(operation, dtype)
            return lambda reference: self._record(operation, dtype, run, reference)

        with (
            mock.patch.object(Tensor, "data_ptr", noted),
            mock.patch.object(core, "function", recorded),
        ):
            yield

    def _record(
        self, operation: str, dtype: torch.dtype, run: Callable[..., int], reference: Any
    ) -> int:
        arguments = reference._obj
        kinds = arguments._fields_
        pointers = [name for name, kind in kinds if kind is ctypes.c_void_p]
        addresses = {name: getattr(arguments, name) for name in pointers}
        places = {a: i for i, a in enumerate(dict.fromkeys(a for a in addresses.values() if a))}
        before = [ctypes.string_at(a, self._sizes.get(a, 0)) for a in places]
        written = bytes(arguments)
        status = run(reference)
        after = [ctypes.string_at(a, self._sizes.get(a, 0)) for a in places]
        self._sizes.clear()
        name = f"{operation}_{core._SUFFIX[dtype]}"
        kind = type(arguments)
        parts = [struct.pack("<40sqqq", name.encode(), len(written), len(pointers),
                             len(before)), written]  # fmt: skip
        for label, a in addresses.items():
            parts.append(struct.pack("<qq", getattr(kind, label).offset, places[a] if a else -1))
        for old, new in zip(before, after, strict=True):
            parts += [struct.pack("<q", len(old)), old, new]
        self.calls.append((operation, b"".join(parts)))
        return status

    def write(self, path: Path, operations: str) -> int:
        """Write the calls of operations whose names begin with ``operations``; return how many."""
        chosen = [call for name, call in self.calls if name.startswith(operations)]
        path.write_bytes(b"".join(chosen))
        return len(chosen)

    def shorten(self, operation: str, path: Path) -> None:
        """Write the first call of an operation, its first array cut by one number."""
        call = next(call for name, call in self.calls if name == operation)
        _, size, pointers, _ = struct.unpack_from("<40sqqq", call)
        at = 64 + size + 16 * pointers
        (old,) = struct.unpack_from("<q", call, at)
        new, cut = old - 8, call[at + 8 : at + 8 + 2 * old]
        short = struct.pack("<q", new) + cut[:new] + cut[old : old + new]
        path.write_bytes(call[:at] + short + call[at + 8 + 2 * old :])
