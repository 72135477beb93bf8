"""The compiled core: found, loaded and called through its plain C interface.

The structs are the twins of those in ``csrc/core.hpp``. Nothing is compiled here; without the
library, ``MISSING`` says why and every op runs on its reference backend.
"""

from __future__ import annotations

import ctypes
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

INSTRUCTION_SETS = ("avx512", "avx2", "portable")  # the fastest first
_SUFFIX = {torch.float32: "f32", torch.float64: "f64"}
_INTEGERS = {"i": ctypes.c_int32, "l": ctypes.c_int64, "p": ctypes.c_void_p, "d": ctypes.c_double}


def _struct(name: str, fields: str, *before: tuple[str, Any]) -> Any:
    """Make a struct from ``"kind:name …"``; kinds are int32, int64 (l), pointer and double."""
    pairs = [field.split(":") for field in fields.split()]
    typed = [(label, _INTEGERS[kind]) for kind, label in pairs]
    return type(name, (ctypes.Structure,), {"_fields_": [*before, *typed]})


CellStruct = _struct(
    "CellStruct",
    "i:input_gate i:forget_gate i:output_gate i:candidate i:output i:memory i:gates i:seen",
)
ForwardStruct = _struct(
    "ForwardStruct",
    "l:time l:batch l:units l:features i:reverse i:threads i:biased p:x l:x_time l:x_batch"
    " p:input_weight p:bias p:weight p:h0 p:c0 p:gate_values p:norm p:hold p:lengths p:out p:h"
    " p:c p:gates p:cells p:fresh d:epsilon",
    ("cell", CellStruct),
)
BackwardStruct = _struct(
    "BackwardStruct",
    "l:time l:batch l:units i:reverse i:threads p:grad_output l:grad_time l:grad_batch p:grad_h"
    " p:grad_c p:out p:gates p:cells p:fresh p:weight p:h0 p:c0 p:gate_values p:norm p:hold"
    " p:lengths p:grad_z p:extra_h p:grad_c0 p:grad_fresh p:grad_normed d:epsilon",
    ("cell", CellStruct),
)
ChainStruct = _struct(
    "ChainStruct",
    "i:order i:combine i:normalized i:sums i:decay i:highway i:activation i:products i:states",
)
StringForwardStruct = _struct(
    "StringForwardStruct",
    "l:time l:batch l:units l:features i:reverse i:threads i:biased p:x p:input_weight p:bias"
    " p:decay p:weight p:h0 p:c0 p:carry p:mask p:lengths p:out p:h p:c p:products p:states",
    ("chain", ChainStruct),
)
StringBackwardStruct = _struct(
    "StringBackwardStruct",
    "l:time l:batch l:units i:reverse i:threads p:grad_output l:grad_time l:grad_batch p:grad_h"
    " p:grad_c p:products p:states p:decay p:weight p:c0 p:carry p:mask p:lengths p:grad_z"
    " p:grad_carry p:extra_h p:grad_c0 p:grad_decay",
    ("chain", ChainStruct),
)
ScanStruct = _struct(
    "ScanStruct",
    "l:time l:batch l:units i:reverse i:threads i:decay p:u p:f p:c0 p:lengths p:states p:final",
)
GramStruct = _struct(
    "GramStruct",
    "l:rows l:columns l:features l:order i:threads i:symmetric i:trailing p:x p:y p:x_starts"
    " p:y_starts p:out d:decay",
)
WalkStruct = _struct(
    "WalkStruct",
    "l:nodes l:units l:edges l:features i:threads i:activation l:x_row l:gate_row l:output_row"
    " l:grad_row l:grad_x_row l:grad_gate_row l:targets l:first_node p:x p:edge_index p:edge_attr"
    " p:shift p:factor p:edge_gate p:source_gate p:target_gate p:out p:grad p:grad_x p:grad_edges"
    " p:grad_shift p:grad_factor p:grad_source p:grad_target p:grad_edge_gate d:scale",
)
SeparableStruct = _struct(
    "SeparableStruct",
    "l:time l:batch l:outputs l:channels l:length l:rank l:stride l:dilation i:threads p:x p:mix"
    " p:taps p:out p:grad p:grad_mix p:grad_taps",
)
RoundsStruct = _struct(
    "RoundsStruct",
    "l:nodes l:channels l:units l:edges l:features l:steps l:depth l:first i:threads i:activation"
    " i:keep p:labels p:edge_index p:edge_attr p:weight p:bias p:neighbours p:shift p:factor"
    " p:edge_gate p:out p:hidden p:tape p:grad_output p:grad_labels p:grad_edges p:grad_weight"
    " p:grad_bias p:grad_neighbours p:grad_shift p:grad_factor p:grad_edge_gate d:scale",
)
ActivationStruct = _struct(
    "ActivationStruct",
    "l:rows l:features l:count i:green i:threads p:x p:centers p:coefficients p:grad p:out"
    " p:grad_x p:grad_centers p:grad_coefficients d:bandwidth",
)
KbrnStruct = _struct(
    "KbrnStruct",
    "l:time l:batch l:units l:count i:green i:threads i:of_batch l:stat_kind l:stat_time"
    " l:stat_batch p:z p:weight p:h0 p:centers p:coefficients p:line p:norm p:statistics p:lengths"
    " p:out p:h p:used p:normed p:grad_output p:grad_h p:grad_z p:grad_h0 p:grad_centers"
    " p:grad_coefficients p:grad_line p:grad_norm d:bandwidth d:epsilon",
)
ProductStruct = _struct("ProductStruct", "l:m l:n l:k i:threads p:a p:b p:c l:a_stride")


# by benchmarks/cells.py: forward and backward on the reference beside the core
_COST = "without it a training step takes 1.2 to 3 times as long"


def _load() -> tuple[ctypes.CDLL | None, str]:
    built = (file for folder in representer.__path__ for file in Path(folder).glob("_core/*core.*"))
    path = os.environ.get("REPRESENTER_CORE") or next(built, None)  # which may be another build
    if path is None:
        return None, f"the C++ core was not built; {_COST}: reinstall with a C++ compiler present"
    try:
        return ctypes.CDLL(str(Path(path).absolute())), ""
    except OSError as error:
        return None, f"the C++ core does not load; {_COST}: {error}"


LIBRARY, MISSING = _load()


def _usable() -> list[str]:
    if LIBRARY is None:
        return []
    return [name for name in INSTRUCTION_SETS if LIBRARY.representer_runs(name.encode())]


USABLE = _usable()
_chosen = USABLE[:1]
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
    """Return the entry point of an operation for a dtype and the instruction set in use."""
    return getattr(LIBRARY, f"representer_{operation}_{_SUFFIX[dtype]}_{_chosen[0]}")


def call(operation: str, dtype: torch.dtype, arguments: ctypes.Structure) -> None:
    """Run one operation of the core.

    Raises:
        MemoryError: If scratch memory is not to be had.
    """
    status = function(operation, dtype)(ctypes.byref(arguments))
    if status == 2:
        raise MemoryError(f"{operation}: no memory for the packed weights and the state")
    assert status == 0, f"{operation}: the core does not know this cell"


def threads() -> int:
    """Return how many threads the core may use: torch's number, one in a forked child."""
    return 1 if _forked else torch.get_num_threads()


def pointer(tensor: Tensor | None) -> int | None:
    """Return the address of a tensor's first entry, for a struct; None for no tensor."""
    return None if tensor is None else tensor.data_ptr()


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
        ("cell", "output", "surplus").index(cell.memory),
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
