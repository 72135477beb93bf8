"""The compiled core: found, loaded and called through its plain C interface.

Nothing is compiled here; without the library, ``MISSING`` says why and every op runs on its
reference backend. A library that was built for other arguments counts as missing, and beside the
C++ sources also one that was built from other sources.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import representer
from representer.errors import BackendError
from representer.functional import NONLINEARITIES, Cell, StringChain
from representer.ops.structs import DIGEST, CellStruct, ChainStruct, ProductStruct

INSTRUCTION_SETS = ("avx512", "avx2", "portable")  # the fastest first
VARIABLE = "REPRESENTER_INSTRUCTION_SET"  # environment variable that selects one of them
SOURCES = Path(__file__).parents[1] / "csrc"  # there in a checkout, not in a wheel
MOST_THREADS = max(64, os.cpu_count() or 1)  # OpenMP crashes on numbers that are far too large
_UNSUPPORTED, _NO_MEMORY = 1, 2  # twins of Status in csrc/status.hpp
_SUFFIX = {torch.float32: "f32", torch.float64: "f64"}


# by benchmarks/cells.py: forward and backward on the reference beside the core
_COST = "without it a training step takes 1.2 to 3 times as long"


def _load() -> tuple[ctypes.CDLL | None, str]:
    built = (file for folder in representer.__path__ for file in Path(folder).glob("_core/*core.*"))
    path = os.environ.get("REPRESENTER_CORE") or next(built, None)  # which may be another build
    if path is None:
        return None, f"the C++ core was not built; {_COST}: reinstall with a C++ compiler present"
    try:
        library = ctypes.CDLL(str(Path(path).absolute()))
    except OSError as error:
        return None, f"the C++ core does not load; {_COST}: {error}"
    fix = f"{_COST}: build it again by installing the package again"
    built_for = _digest(library, "structs")
    if built_for != DIGEST:
        return None, (
            f"the C++ core {path} was built for arguments of the digest {built_for[:12]}, this "
            f"version expects {DIGEST[:12]}; {fix}"
        )
    if (expected := _sources_digest()) and _digest(library, "sources") != expected:
        return None, f"the C++ core {path} was built from other sources than {SOURCES}; {fix}"
    return library, ""


def _digest(library: ctypes.CDLL, name: str) -> str:
    """Return the digest of the structs or of the sources that a library was built from."""
    try:
        function = getattr(library, f"representer_{name}")
    except AttributeError:  # older than digests
        return "none"
    function.restype = ctypes.c_char_p
    return function().decode()


def _sources_digest() -> str:
    """Return the digest of the C++ sources, as csrc/CMakeLists.txt computes it; "" without them."""
    files = sorted(SOURCES.glob("*.[ch]pp"))  # none of them is in a wheel
    digests = [hashlib.sha256(file.read_bytes()).hexdigest() for file in files]
    return hashlib.sha256("".join(digests).encode()).hexdigest() if digests else ""


LIBRARY, MISSING = _load()


def _usable() -> list[str]:
    """Return the instruction sets the core can use, or the one that the environment selects.

    Raises:
        BackendError: If the environment selects a set that this machine or build does not have.
    """
    selected = os.environ.get(VARIABLE)
    if selected and selected not in INSTRUCTION_SETS:
        names = ", ".join(INSTRUCTION_SETS)
        raise BackendError(f"{VARIABLE} is {selected!r}; expected one of {names}.")
    if LIBRARY is None:
        return []
    usable = [name for name in INSTRUCTION_SETS if LIBRARY.representer_runs(name.encode())]
    if selected and selected not in usable:
        names = ", ".join(usable)
        raise BackendError(f"{VARIABLE} is {selected!r}; this machine can run {names}.")
    return [selected] if selected else usable


USABLE = _usable()
_chosen = USABLE[:1]
_NOTHING = ctypes.c_double()  # where weights without entries lie
_forked = False


def _after_fork() -> None:
    global _forked  # the parent's thread pool does not exist in a forked child, nor does torch's
    _forked = True
    torch.set_num_threads(1)


os.register_at_fork(after_in_child=_after_fork)


@contextmanager
def instruction_set(name: str) -> Iterator[None]:
    """Make the core use one instruction set inside the block, for tests and measurements.

    Raises:
        BackendError: If this machine or build does not have it.
    """
    if name not in USABLE:
        raise BackendError(f"the core cannot use {name!r} here; it can use {', '.join(USABLE)}.")
    before = _chosen[:]
    _chosen[:] = [name]
    try:
        yield
    finally:
        _chosen[:] = before


def function(operation: str, dtype: torch.dtype) -> Any:
    """Return the entry point of an operation for a dtype and the instruction set in use.

    Raises:
        BackendError: If the core has none for the dtype.
    """
    if dtype not in _SUFFIX:
        raise BackendError(f"{operation}: the core takes float32 and float64, not {dtype}.")
    return getattr(LIBRARY, f"representer_{operation}_{_SUFFIX[dtype]}_{_chosen[0]}")


def call(operation: str, dtype: torch.dtype, arguments: ctypes.Structure) -> None:
    """Run one operation of the core.

    Raises:
        MemoryError: If there is not enough memory for the core's temporary arrays.
        BackendError: If the core has no code for these arguments, or fails in another way.
    """
    status = function(operation, dtype)(ctypes.byref(arguments))
    if status == _NO_MEMORY:
        raise MemoryError(f"{operation}: not enough memory for the core's temporary arrays.")
    if status == _UNSUPPORTED:
        raise BackendError(f"{operation}: the core has no code for these arguments.")
    if status:
        raise BackendError(f"{operation}: the core failed with status {status}.")


def threads() -> int:
    """Return how many threads the core may use: torch's number, one in a forked child."""
    return 1 if _forked else min(torch.get_num_threads(), MOST_THREADS)


def pointer(tensor: Tensor | None) -> int | None:
    """Return the address of a tensor's first entry, for a struct; None for no tensor."""
    return None if tensor is None else tensor.data_ptr()


def weight_pointer(tensor: Tensor | None) -> int | None:
    """Return `pointer`, but an address for a weight without entries too: it is there, as 0."""
    return None if tensor is None else tensor.data_ptr() or ctypes.addressof(_NOTHING)


def product(a: Tensor, b: Tensor) -> Tensor:
    """Return the product of two matrices; the rows of ``a`` and all of ``b`` are contiguous."""
    c = a.new_empty(a.shape[0], b.shape[1])
    arguments = ProductStruct(
        *c.shape, len(b), threads(), pointer(a), pointer(b), pointer(c), a.stride(0)
    )
    call("product", a.dtype, arguments)
    return c


def transpose(a: Tensor) -> Tensor:
    """Return a contiguous matrix transposed, contiguous again."""
    rows, columns = a.shape
    c = a.new_empty(columns, rows)
    arguments = ProductStruct(rows, columns, 0, 1, pointer(a), None, pointer(c), columns)
    call("transposed", a.dtype, arguments)
    return c


def cell_struct(cell: Cell) -> Any:
    """Translate a cell for the core."""
    names = list(NONLINEARITIES)
    return CellStruct(
        ("dynamic", "coupled", "static").index(cell.input_gate),
        ("dynamic", "static", "none").index(cell.forget_gate),
        int(cell.output_gate),
        names.index(cell.candidate),
        names.index(cell.output),
        ("cell", "output", "expm1").index(cell.memory),
        len(cell.gates),
        len(cell.recurrent_gates),
    )


def chain_struct(chain: StringChain, decay: Tensor | None) -> Any:
    """Translate a chain for the core, with the form of its decay."""
    return ChainStruct(
        chain.order,
        ("multiply", "add", "add_exact").index(chain.combine),
        ("no", "paper", "exact").index(chain.normalized),
        int(chain.readout == "sum"),
        2 + chain.sees_h if decay is None else decay.dim(),
        int(chain.highway),
        list(NONLINEARITIES).index(chain.activation),
        len(chain.products),
        chain.states,
    )


def refuses(dtype: torch.dtype) -> str:
    """Say why the core cannot take a dtype; "" if it can."""
    if dtype in _SUFFIX or torch.is_autocast_enabled("cpu"):  # which brings it to float32
        return ""
    return f"takes float32 and float64, not {dtype}"
