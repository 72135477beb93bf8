"""Load the compiled core and call it through its C interface.

Nothing is compiled here. Without the library, ``MISSING`` states the reason and every op runs on
its reference backend. A library built for different structs counts as missing, and so does, in a
checkout, one built from different C++ sources.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor

import representer
from representer.errors import BackendError
from representer.functional import NONLINEARITIES, Cell, StringChain
from representer.ops.structs import DIGEST, CellStruct, ChainStruct, ProductStruct

INSTRUCTION_SETS = ("avx512", "avx2", "portable")  # fastest first
VARIABLE = "REPRESENTER_INSTRUCTION_SET"  # environment variable that selects one of them
SOURCES = Path(__file__).parents[1] / "csrc"  # exists in a checkout, not in a wheel
_HAS_AFFINITY = hasattr(os, "sched_getaffinity")

# More threads than cores divide a batch into parts that are too small to be fast.
MOST_THREADS = len(os.sched_getaffinity(0)) if _HAS_AFFINITY else os.cpu_count() or 1
_UNSUPPORTED, _NO_MEMORY = 1, 2  # mirror Status in csrc/status.hpp
_SUFFIX = {torch.float32: "f32", torch.float64: "f64"}


# forward and backward, reference against core: four layers at the four sizes of
# benchmarks/cells.py, and KBRN as in docs/results/cpu-speed.md
_COST = "without it a training step takes 1.2 to 8 times as long, that of a KBRN 40 times"


def _load() -> tuple[ctypes.CDLL | None, str]:
    built = (file for folder in representer.__path__ for file in Path(folder).glob("_core/*core.*"))
    path = os.environ.get("REPRESENTER_CORE") or next(built, None)  # any build
    if path is None:
        return None, f"the C++ core was not built; {_COST}: reinstall with a C++ compiler present"
    try:
        library = ctypes.CDLL(str(Path(path).absolute()))
    except OSError as error:
        return None, f"the C++ core does not load; {_COST}: {error}"
    fix = f"{_COST}: reinstall the package to rebuild it"
    built_for = _digest(library, "structs")
    if built_for != DIGEST:
        return None, (
            f"the C++ core {path} was built for structs with digest {built_for[:12]}, but this "
            f"version expects {DIGEST[:12]}; {fix}"
        )
    if (expected := _sources_digest()) and _digest(library, "sources") != expected:
        return None, f"the C++ core {path} was not built from the sources in {SOURCES}; {fix}"
    return library, ""


def _digest(library: ctypes.CDLL, name: str) -> str:
    """Return the digest of the structs or of the sources that a library was built from."""
    try:
        function = getattr(library, f"representer_{name}")
    except AttributeError:  # built before digests were added
        return "none"
    function.restype = ctypes.c_char_p
    return function().decode()


def _sources_digest() -> str:
    """Return the digest of the C++ sources, as csrc/CMakeLists.txt computes it; "" without them."""
    files = sorted(SOURCES.glob("*.[ch]pp"))  # empty in a wheel
    digests = [hashlib.sha256(file.read_bytes()).hexdigest() for file in files]
    return hashlib.sha256("".join(digests).encode()).hexdigest() if digests else ""


LIBRARY, MISSING = _load()


def _usable() -> list[str]:
    """Return the usable instruction sets, or the one that the environment selects."""
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
_NOTHING = ctypes.c_double()  # a valid address for weights without entries
_forked = False


def _after_fork() -> None:
    global _forked  # the parent's thread pool does not exist in a forked child, nor does torch's
    _forked = True
    torch.set_num_threads(1)


if hasattr(os, "register_at_fork"):  # Windows does not fork
    os.register_at_fork(after_in_child=_after_fork)


@contextmanager
def instruction_set(name: str) -> Iterator[None]:
    """Make the core use one instruction set inside the block, for tests and benchmarks."""
    if name not in USABLE:
        raise BackendError(f"the core cannot use {name!r} here; it can use {', '.join(USABLE)}.")
    before = _chosen[:]
    _chosen[:] = [name]
    try:
        yield
    finally:
        _chosen[:] = before


def function(operation: str, dtype: torch.dtype) -> Any:
    """Return the entry point of an operation for a dtype and the current instruction set."""
    if dtype not in _SUFFIX:
        raise BackendError(f"{operation}: the core takes float32 and float64, not {dtype}.")
    return getattr(LIBRARY, f"representer_{operation}_{_SUFFIX[dtype]}_{_chosen[0]}")


def call(operation: str, dtype: torch.dtype, arguments: ctypes.Structure) -> None:
    """Run an operation of the core; see `run` for errors."""
    if status := function(operation, dtype)(ctypes.byref(arguments)):
        raise failure(operation, status)


def failure(operation: str, status: int) -> Exception:
    """Return the error of an operation that the core did not complete."""
    if status == _NO_MEMORY:
        return MemoryError(f"{operation}: not enough memory for the core's scratch buffers.")
    if status == _UNSUPPORTED:
        return BackendError(f"{operation}: the core does not support these arguments.")
    return BackendError(f"{operation}: the core failed with status {status}.")


class Strided(NamedTuple):
    """A tensor that an operation reads with its strides."""

    tensor: Tensor


def filled(**tensors: Tensor) -> dict[str, Tensor | None]:
    """Return tensors by name, None for empty ones."""
    return {name: tensor if tensor.numel() else None for name, tensor in tensors.items()}


def run(operation: str, struct: Any, dtype: torch.dtype, **fields: Any) -> None:
    """Run an operation of the core on its arguments by name; ``threads`` is filled in if not given.

    A tensor is passed by its address: unless ``Strided``, of a contiguous copy if it is not
    contiguous; integers as int64. None is passed as the null pointer, an empty tensor as an
    address that is not null.

    Raises:
        MemoryError: If there is not enough memory for the core's scratch buffers.
        BackendError: If the core does not support these arguments, or fails otherwise.
    """
    alive = []
    for name, value in fields.items():
        if isinstance(value, Tensor):
            value = value if value.is_floating_point() else value.long()
            alive.append(value := value.contiguous())
            fields[name] = value.data_ptr() or ctypes.addressof(_NOTHING)
        elif isinstance(value, Strided):
            fields[name] = value.tensor.data_ptr()
    fields.setdefault("threads", threads())
    arguments = struct(**fields)
    if status := function(operation, dtype)(ctypes.byref(arguments)):  # call(), inlined
        raise failure(operation, status)


def threads() -> int:
    """Return the number of threads: that of torch up to the cores, or 1 in a forked child."""
    return 1 if _forked else min(torch.get_num_threads(), MOST_THREADS)


def pointer(tensor: Tensor | None) -> int | None:
    """Return the data pointer of a tensor for a struct, or None."""
    return None if tensor is None else tensor.data_ptr()


def product(a: Tensor, b: Tensor) -> Tensor:
    """Return the product of two matrices; each row of ``a`` must be contiguous."""
    shape, b = (a.shape[0], b.shape[1]), b.contiguous()
    c = a.new_empty(shape) if len(b) else a.new_zeros(shape)  # the core adds up nothing then
    arguments = ProductStruct(
        *c.shape, len(b), threads(), pointer(a), pointer(b), pointer(c), a.stride(0)
    )
    call("product", a.dtype, arguments)
    return c


SMALL = 2**13  # entries of a matrix that torch transposes in the time of a call of the core


def transpose(a: Tensor) -> Tensor:
    """Return the transpose of a contiguous matrix as a contiguous copy."""
    if a.numel() < SMALL:
        return a.t().contiguous()
    rows, columns = a.shape
    c = a.new_empty(columns, rows)
    arguments = ProductStruct(rows, columns, 0, threads(), pointer(a), None, pointer(c), columns)
    call("transposed", a.dtype, arguments)
    return c


@lru_cache
def cell_struct(cell: Cell) -> Any:
    """Return the struct of a cell."""
    names = list(NONLINEARITIES)
    return CellStruct(
        ("dynamic", "coupled", "static").index(cell.input_gate),
        ("dynamic", "static", "none").index(cell.forget_gate), int(cell.output_gate),
        names.index(cell.candidate), names.index(cell.output),
        ("cell", "output", "expm1").index(cell.memory), len(cell.gates), len(cell.recurrent_gates),
    )  # fmt: skip


def chain_struct(chain: StringChain, decay: Tensor | None) -> Any:
    """Return the struct of a chain, with the form of its decay."""
    return ChainStruct(
        chain.order, ("multiply", "add", "add_exact").index(chain.combine),
        ("no", "paper", "exact").index(chain.normalized), int(chain.readout == "sum"),
        2 + chain.is_state_gated if decay is None else decay.dim(), int(chain.highway),
        list(NONLINEARITIES).index(chain.activation), len(chain.products), chain.states,
    )  # fmt: skip


def refuses(p: Any) -> str:
    """Return why the core cannot run on the dtype of the first operand, or "" if it can."""
    return refuses_dtype(p[0].dtype)


def refuses_dtype(dtype: torch.dtype) -> str:
    """Return why the core cannot run on a dtype, or "" if it can."""
    if dtype in _SUFFIX or torch.is_autocast_enabled("cpu"):  # autocast converts it to float32
        return ""
    return f"takes float32 and float64, not {dtype}"


# One time step on the compiled core, with packed weights and a state that is updated in place.

_WIDEST = 64  # outputs to a multiple of which the core pads packed weights, or to less


def padded(outputs: int) -> int:
    """Return an upper bound of the outputs of packed weights, on any instruction set."""
    return -(-outputs // _WIDEST) * _WIDEST


class PackedStep:
    """A step of a cell whose operands were checked.

    The arguments of the core are made once; a call sets two pointers. `fits` has checked the
    operands; h ``(B, H)`` and c ``(B, …, H)`` are updated in place.
    """

    def __init__(self, step: Any, operands: Any, h: Tensor, c: Tensor) -> None:
        self._operation = step.operation + "_forward"
        self._run = function(self._operation, h.dtype)
        struct = self._struct = step.struct(operands)
        packed = torch.empty(step.packed_entries(operands), dtype=h.dtype)
        self._alive = (packed, h, c, operands)  # the arguments point to them
        struct.packed, struct.batch = packed.data_ptr(), 0
        call(step.operation + "_pack", h.dtype, struct)
        struct.batch, struct.threads = len(h), 1
        struct.h0 = struct.h = h.data_ptr()
        struct.c0 = struct.c = c.data_ptr()
        self._pointer = ctypes.byref(struct)
        self._carries, self._is_batched = step.carries, len(h) > 1

    def __call__(self, x: int, output: int) -> None:
        """Take a step from the address of the input ``(B, I)`` to that of the output ``(B, H)``."""
        struct = self._struct
        struct.x, struct.out = x, output
        if self._carries:
            struct.carry = x
        if self._is_batched:
            struct.threads = threads()
        if status := self._run(self._pointer):
            raise failure(self._operation, status)
