"""The core raises MemoryError wherever, and on whichever thread, an allocation fails."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

from representer.errors import BackendError
from representer.ops import core, structs

from .test_core import compiler

pytestmark = pytest.mark.skipif(bool(core.MISSING), reason=core.MISSING)
ROOT = Path(__file__).parents[2]
ALLOCATING = [
    *(f"{op}_{way}" for op in ("activation", "kbrn") for way in ("backward", "forward")),
    "product",
    *(f"{op}_{way}" for op in ("rkm", "rounds", "scan", "separable", "string", "trees")
      for way in ("backward", "forward")),
    "string_gram",
    "walk_backward",
]  # fmt: skip
DEADLINE = 600  # seconds for the child process

# Replaces the allocation functions that the core calls; after arm(n) the n-th call fails.
FAILING_ALLOCATOR = """
    #include <atomic>
    #include <cstdlib>
    #include <dlfcn.h>
    #include <new>

    static std::atomic<bool> armed{false};
    static std::atomic<long> left{0};
    static bool fails() { return armed && left.fetch_sub(1) == 1; }

    extern "C" void arm(long n) { left = n, armed = true; }
    extern "C" bool disarm() { return armed = false, left <= 0; }
    extern "C" void* aligned_alloc(size_t alignment, size_t size) {
        static const auto original = (void* (*)(size_t, size_t))dlsym(RTLD_NEXT, "aligned_alloc");
        return fails() ? nullptr : original(alignment, size);
    }
    void* operator new(size_t size) {
        void* p = fails() ? nullptr : std::malloc(size ? size : 1);
        if (!p) throw std::bad_alloc();
        return p;
    }
"""
FAIL_EVERY_ALLOCATION = """
import ctypes, itertools, sys
import torch
from representer.ops import core
from representer.ops.string_gram import string_gram
from ops.divided_samples import divided_samples
from ops.test_threads import evaluate, make

allocator = ctypes.CDLL(sys.argv[1])
allocator.disarm.restype = ctypes.c_bool
original, failures = core.function, {}

def fail_once_at_each_allocation(operation, dtype):
    function = original(operation, dtype)

    def run(arguments):
        for n in itertools.count(1):
            allocator.arm(n)
            status = function(arguments)
            if status:
                failures[operation] = str(core.failure(operation, status))
            if not allocator.disarm():  # fewer allocations than n; std::stable_sort does without
                return status

    return run

def run():
    for op, sample in divided_samples():
        if op.name != "gated_scan" or sample.name == "full-9x35-forward":
            yield evaluate(op, sample, make(sample, torch.float32))
    yield {"product": core.product(torch.ones(9, 30), torch.ones(30, 40))}
    yield {"gram": string_gram([torch.ones(n, 2) for n in (3, 4, 30)], None, 2, 0.5)}

torch.set_num_threads(2)
expected = list(run())
core.function = fail_once_at_each_allocation
list(run())
core.function = original
for values, before in zip(run(), expected, strict=True):
    assert all(torch.equal(values[name], before[name]) for name in before)
assert all("not enough memory" in message for message in failures.values())
print(sorted(failures))
"""


@pytest.mark.slow
@pytest.mark.skipif(compiler() is None, reason="there is no compiler")
@pytest.mark.skipif("LD_PRELOAD" in os.environ, reason="another allocator is loaded")
@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="needs LD_PRELOAD")
def test_every_failed_allocation_raises_and_leaves_the_core_usable(tmp_path: Path):
    source, library = tmp_path / "allocator.cpp", tmp_path / "allocator.so"
    source.write_text(FAILING_ALLOCATOR)
    build = [str(compiler()), "-std=c++17", "-shared", "-fPIC", source, "-o", library, "-ldl"]
    subprocess.run(build, check=True)
    done = subprocess.run(
        [sys.executable, "-c", FAIL_EVERY_ALLOCATION, str(library)],
        env={**os.environ, "LD_PRELOAD": str(library), "PYTHONPATH": str(ROOT / "tests")}, cwd=ROOT,
        capture_output=True, text=True, timeout=DEADLINE, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.strip() == str(sorted(ALLOCATING))


def test_lack_of_memory_raises_memory_error():
    nothing = torch.zeros(1)
    pointers = (core.pointer(nothing),) * 3
    arguments = structs.ProductStruct(0, 1, 2**55, 1, *pointers, 1)
    with pytest.raises(MemoryError, match="product: not enough memory for the core's scratch"):
        core.call("product", torch.float32, arguments)


def test_a_size_beyond_every_array_raises_memory_error():
    """A std::vector refuses it with another exception than the allocator."""
    arguments = structs.ActivationStruct(rows=1, features=2**60, count=1, threads=1)
    with pytest.raises(MemoryError, match="activation_forward: not enough memory"):
        core.call("activation_forward", torch.float32, arguments)


@pytest.mark.parametrize(
    ("status", "message"),
    [(1, "product: the core does not support these arguments"), (3, "failed with status 3")],
)
def test_any_other_failure_raises_backend_error(
    status: int, message: str, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(core, "function", lambda *_: lambda _: status)
    with pytest.raises(BackendError, match=message):
        core.call("product", torch.float32, structs.ProductStruct())
