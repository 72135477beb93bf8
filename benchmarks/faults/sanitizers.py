"""Sanitizers and valgrind on every operation of the core, forward and backward.

The calls of all samples are recorded once and repeated by a program without Python and torch, in
arrays of exact size: one that is read or written beyond its end is then seen by a sanitizer, which
knows nothing of the larger memory that torch allocates. OpenMP's threads are replaced by those of
C++ in the build for the thread sanitizer, which does not see how OpenMP synchronizes.
"""

from __future__ import annotations

import ctypes
import math
import os
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cache, partial
from pathlib import Path
from typing import Any
from unittest import mock

import numpy as np
import torch
from scipy import sparse
from torch import Tensor
from torch.utils._pytree import tree_leaves

from faults import Case, Suite, Unavailable, patience, temporary_folder
from ops.divided_samples import divided_samples
from ops.samples import Sample
from ops.trials import arguments, few_samples, gradients, make, several
from representer import nn
from representer.kernels import ConvolutionKernel, TextKernel
from representer.nn.recurrent import core_calls
from representer.ops import OPS, core, features
from representer.ops.op import Op
from representer.ops.string_gram import string_gram
from representer.training.lazy_adam import RowMoments, adam_rows, step_numbers


@dataclass
class Recorder:
    """Calls by name of the operation with its type, each as the bytes of its record.

    A record is a head, the struct, its pointers, and each array before and after the call. A
    pointer is in the struct, or in an array, such as that of the structs of several views.
    """

    calls: list[tuple[str, bytes]] = field(default_factory=list)
    _sizes: dict[int, int] = field(default_factory=dict)  # bytes of the arrays, by address
    _holders: dict[int, Any] = field(default_factory=dict)  # arrays that may have pointers

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
        frame: Any = sys._getframe(3)  # of the caller of `core.call`
        if frame.f_globals["__name__"] in (features.__name__, core_calls.__name__):
            self._note(frame.f_locals.values())  # arrays of NumPy and structs, not tensors
        places: dict[int, int] = {}
        pointers, holders = [], [(-1, reference._obj)]
        for number, holder in holders:
            for offset, address in pointers_of(holder):
                is_new = address and address not in places
                if is_new:
                    places[address] = len(places)
                    if address in self._holders:
                        holders.append((places[address], self._holders[address]))
                index = places[address] if address else -1
                pointers.append(struct.pack("<qqq", number, offset, index))
        sizes = self._sizes_of(places)
        before = [ctypes.string_at(a, size) for a, size in sizes.items()]
        written = bytes(reference._obj)
        status = run(reference)
        after = [ctypes.string_at(a, size) for a, size in sizes.items()]
        self._sizes.clear()
        self._holders.clear()
        name = f"{operation}_{core._SUFFIX[dtype]}".encode()
        head = struct.pack("<40sqqq", name, len(written), len(pointers), len(before))
        arrays = [part for old, new in zip(before, after, strict=True)
                  for part in (struct.pack("<q", len(old)), old, new)]  # fmt: skip
        self.calls.append((operation, b"".join([head, written, *pointers, *arrays])))
        return status

    def _sizes_of(self, addresses: Iterable[int]) -> dict[int, int]:
        """Return the bytes of the array at each address, 0 if no tensor is there.

        An address inside of a tensor, such as that of a layer's state or of a part of what a
        gradient reads, is where an array begins, and where the one before it ends.
        """
        ends = {a: a + size for a, size in self._sizes.items()}
        result, inner = {}, [address for address in addresses if address not in ends]
        for address in addresses:
            around = (end for start, end in ends.items() if start <= address < end)
            end = ends.get(address) or min(around, default=address)
            end = min((a for a in inner if address < a < end), default=end)
            result[address] = end - address
        return result

    def _note(self, values: Iterable[Any]) -> None:
        """Note the arrays and structs among some values, and in lists and tuples of them."""
        for value in values:
            if isinstance(value, list | tuple):
                self._note(value)
            elif isinstance(value, np.ndarray | ctypes.Array | ctypes.Structure):
                is_array = isinstance(value, np.ndarray)
                address = value.ctypes.data if is_array else ctypes.addressof(value)
                self._sizes[address] = value.nbytes if is_array else ctypes.sizeof(value)
                self._holders[address] = value

    def write(self, path: Path, operations: str) -> int:
        """Write the calls of operations whose names begin with ``operations``; return how many."""
        chosen = [call for name, call in self.calls if name.startswith(operations)]
        path.write_bytes(b"".join(chosen))
        return len(chosen)

    def shorten(self, operation: str, path: Path) -> None:
        """Write the first call of an operation, its first array cut by one number."""
        call = next(call for name, call in self.calls if name == operation)
        _, size, pointers, _ = struct.unpack_from("<40sqqq", call)
        start = 64 + size + 24 * pointers
        (old,) = struct.unpack_from("<q", call, start)
        new, cut = old - 8, call[start + 8 : start + 8 + 2 * old]
        short = struct.pack("<q", new) + cut[:new] + cut[old : old + new]
        path.write_bytes(call[:start] + short + call[start + 8 + 2 * old :])


def pointers_of(holder: Any) -> list[tuple[int, int]]:
    """Return the places of pointers in a struct or an array, and the addresses, 0 for none."""
    if isinstance(holder, ctypes.Structure):
        names = [field[0] for field in holder._fields_ if field[1] is ctypes.c_void_p]
        return [(getattr(type(holder), n).offset, getattr(holder, n) or 0) for n in names]
    if isinstance(holder, ctypes.Array):
        size = ctypes.sizeof(holder._type_)
        return [(i * size + offset, address) for i, one in enumerate(holder)
                for offset, address in pointers_of(one)]  # fmt: skip
    return (
        [*zip(range(0, holder.nbytes, 8), holder.tolist(), strict=True)]
        if holder.dtype == np.uintp
        else []
    )


ROOT = Path(__file__).parents[2]
BUILDS = ROOT / "build"
SETS = ("portable", "avx2", "avx512")
REPORTED = 66  # status of a program about which a tool reported something
DEADLINE = 300  # seconds of one program
GROUPS = (
    "scan", "rkm_forward", "rkm_backward", "rkm_few", "string_forward", "string_backward",
    "string_few", "string_gram",
    "kbrn", "activation", "separable", "walk", "rounds", "adam_rows", "product", "transposed",
    "text_features", "filter_counts", "sparse_gram",
)  # fmt: skip
SANITIZERS = {"address": "address,undefined", "thread": "thread"}  # what a build is for
# threads inside of the core, and threads that call it
RUNS = {"address": ((1, 1), (4, 1)), "thread": ((4, 1), (1, 4)), "memcheck": ((1, 1),)}
OPTIONS = {
    "ASAN_OPTIONS": f"exitcode={REPORTED}:allocator_may_return_null=1",
    "UBSAN_OPTIONS": f"exitcode={REPORTED}:halt_on_error=1:print_stacktrace=1",
    "TSAN_OPTIONS": f"exitcode={REPORTED}:halt_on_error=1",
    "OMP_NUM_THREADS": "1",
}


def cases(seed: int, share: float) -> Iterator[Case]:
    """Yield a case for each tool, operation and instruction set."""
    sets = SETS if share == 1 else SETS[:1]
    for tool in RUNS:
        yield Case(tool, f"{tool}-notices", partial(notices, tool))
        for group in GROUPS:
            for name in sets:
                yield Case(tool, f"{tool}-{group}-{name}", partial(repeat, tool, group, name))


def repeat(tool: str, group: str, instruction_set: str) -> None:
    """Repeat the calls of an operation under a tool, which must find nothing."""
    if not core.LIBRARY or instruction_set not in core.USABLE:
        raise Unavailable(f"this machine does not run {instruction_set}")
    if tool == "memcheck" and instruction_set == "avx512":
        raise Unavailable("valgrind does not know AVX-512")
    for threads, callers in RUNS[tool]:
        calls = recorded(instruction_set, threads) / f"{group}.calls"
        done = run(tool, calls, instruction_set, callers)
        assert done.returncode == 0, f"{threads} threads, {callers} callers: {reported(done)}"


def notices(tool: str) -> None:
    """Make sure that a tool reports a planted mistake: arrays that are too short, shared state."""
    short = recorded("portable", 1) / "short.calls"
    done = run(tool, short, "shared", 4) if tool == "thread" else run(tool, short, "portable", 1)
    assert done.returncode == REPORTED, f"{tool} overlooked a planted mistake: {reported(done)}"


def run(
    tool: str, calls: Path, instruction_set: str, callers: int
) -> subprocess.CompletedProcess[str]:
    """Run the program that repeats calls."""
    program = [str(built(tool)), str(calls), str(library(tool)), instruction_set]
    if tool == "memcheck":
        valgrind = shutil.which("valgrind")
        if not valgrind:
            raise Unavailable("needs valgrind")
        options = [
            f"--error-exitcode={REPORTED}", "--leak-check=full", "--errors-for-leak-kinds=definite",
        ]  # fmt: skip
        program = [valgrind, "--quiet", *options, *program]
    command = [*program, str(callers)]
    environment = {**os.environ, **OPTIONS}
    return subprocess.run(
        command, env=environment, capture_output=True, text=True, check=False,
        timeout=patience(DEADLINE),
    )  # fmt: skip


def reported(done: subprocess.CompletedProcess[str]) -> str:
    """Return the end of what a program wrote."""
    return f"status {done.returncode}: {done.stderr[:1500]}"


@cache
def library(tool: str) -> Path:
    """Return the core for a tool, built if its sources changed."""
    if tool not in SANITIZERS:
        assert core.LIBRARY is not None
        return Path(core.LIBRARY._name)
    if not shutil.which("cmake"):
        raise Unavailable("needs cmake and a compiler")
    into = BUILDS / ("sanitize" if tool == "address" else tool)
    source = ROOT / "src" / "representer" / "csrc"
    chosen = f"-DREPRESENTER_SANITIZE={SANITIZERS[tool]}"
    for command in (
        ["cmake", "-S", str(source), "-B", str(into), chosen],
        ["cmake", "--build", str(into), "--parallel", "2"],
    ):
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Unavailable(f"the core does not build for {tool}: {done.stderr[-300:]}")
    return into / "librepresenter_core.so"


@cache
def built(tool: str) -> Path:
    """Return the program that repeats calls, compiled for a tool."""
    compiler = shutil.which("g++") or shutil.which("c++")
    if not compiler:
        raise Unavailable("needs a C++ compiler")
    program = folder() / f"repeat-{tool}"
    sanitizers = [f"-fsanitize={SANITIZERS[tool]}"] if tool in SANITIZERS else []
    source = Path(__file__).with_name("repeat_calls.cpp")
    options = ["-std=c++17", "-g", "-O1", "-pthread", *sanitizers]
    command = [compiler, *options, str(source), "-o", str(program), "-ldl"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode:
        raise Unavailable(f"no program for {tool}: {done.stderr[-300:]}")
    return program


@cache
def folder() -> Path:
    """Return the folder of the recorded calls and the programs."""
    return temporary_folder()


@cache
def recorded(instruction_set: str, threads: int) -> Path:
    """Return a folder with the calls of each operation, and one with an array cut short."""
    into, recorder = folder() / f"{instruction_set}-{threads}", Recorder()
    into.mkdir()
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with core.instruction_set(instruction_set), recorder.active():
            every_call()
    finally:
        torch.set_num_threads(before)
    for group in GROUPS:
        assert recorder.write(into / f"{group}.calls", group), f"{group} was not called"
    recorder.shorten("scan_forward", into / "short.calls")
    return into


def every_call() -> None:
    """Call every operation of the core at small sizes, and at sizes that its threads divide."""
    samples: list[tuple[Op, Sample]] = [(op, s) for op in OPS.values() for s in few_samples(op)]
    for dtype in (torch.float32, torch.float64):
        for op, sample in [*samples, *divided_samples()]:
            tensors = make(sample, dtype)
            gradients(
                several(op.function(**arguments(op, sample, tensors), backend="cpp")), tensors
            )
        of_rows(dtype)
        of_few_rows(dtype)
        of_grams(dtype)
        of_features(dtype)
        core.transpose(torch.randn(130, 1 + core.SMALL // 130, dtype=dtype))
    with torch.no_grad():
        for layer in (*(kind(5, 19) for kind in nn.TABLE1.values()), nn.StringKernelRNN(5, 19)):
            state = None
            for x in torch.randn(3, 2, 5):
                _, state = layer.step(x, state)


def of_few_rows(dtype: torch.dtype) -> None:
    """Call the gradients of few rows: of a step and of sequences, of one object and of several."""
    decays: tuple[float | str, ...] = (0.5, "learned", "input", "state")
    strings = [nn.StringKernelRNN(19, 19, order=2, decay=decay, highway=True) for decay in decays]
    for layer in (*(kind(19, 19) for kind in nn.TABLE1.values()), *strings):
        for time, batch in ((1, 1), (3, 1), (4, 2), (5, 6)):
            x = torch.randn(time, batch, 19, dtype=dtype, requires_grad=True)
            leaves = [leaf for leaf in tree_leaves(layer.to(dtype)(x)) if leaf.requires_grad]
            torch.autograd.backward(leaves, [torch.randn_like(leaf) for leaf in leaves])


def of_rows(dtype: torch.dtype) -> None:
    """Call what lazy Adam calls: rows with and without missed steps, with and without gradient."""
    rows, steps = 41, 60
    numbers = torch.tensor([step_numbers(j + 1, 0.01) for j in range(steps + 1)]).double().T
    for width in (1, 17, 70):
        weight, first, second = torch.randn(3, rows, width, dtype=dtype)
        last = torch.arange(rows) - 1
        moments = RowMoments(weight, first, second**2, last)
        chosen = torch.arange(0, rows, 2)
        adam_rows(moments, chosen, numbers, steps, backend="cpp")
        gradient = torch.randn(rows, width, dtype=dtype)
        adam_rows(moments, torch.arange(rows), numbers, steps, gradient, backend="cpp")


def of_grams(dtype: torch.dtype) -> None:
    """Call the Gram kernels of vectors and of tokens, at every order with code of its own."""
    sequences = [torch.randn(n, 4, dtype=dtype) for n in (3, 0, 9, 17, 2, 25, 1, 11, 8)]
    tokens = [torch.randint(3, (n,)).to(dtype) for n in (4, 0, 13, 30)]
    for order in range(1, 6):
        string_gram(sequences, None, order, 0.7)
        string_gram(sequences[3:5], sequences, order, 0.7, trailing=False)
        string_gram(tokens, None, order, 1 - math.ulp(1.0))


def of_features(dtype: torch.dtype) -> None:
    """Call the features of texts, of series, and the products of sparse rows."""
    texts = ["the sea is blue", "", "a sky and a sky", "λ the", *["the sea and the sky"] * 9]
    kernel = TextKernel(min_count=1, min_characters=1).fit(texts)
    kernel.transform([*texts, "other words"])
    draw, steps = np.random.default_rng(0), (1, 7, 40, 300, 41)
    series = [draw.normal(size=(2, n)).astype(str(dtype).removeprefix("torch.")) for n in steps]
    ConvolutionKernel(200).fit(series).read(series)
    for rows, columns in ((0, 3), (5, 0), (40, 7), (130, 90)):
        dense = draw.normal(size=(rows, columns)) * (draw.random((rows, columns)) < 0.2)
        features.sparse_gram(sparse.csc_array(dense.astype(series[0].dtype)))


SUITES = {
    "sanitizers": Suite(
        "Every operation of the core under the address, undefined-behavior and thread sanitizers "
        "and under valgrind, which must report nothing but planted mistakes",
        cases,
    )
}
