"""The compiled core: products, precision, threads, and the library without it."""

from __future__ import annotations

import hashlib
import os
import re
import shutil
import subprocess
import sys
import textwrap
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from ops.samples.rkm_scan import CELLS, tensors
from representer.errors import BackendError
from representer.ops import OPS, core, gated_scan, rkm_scan

NEEDS_CORE = pytest.mark.skipif(bool(core.MISSING), reason=core.MISSING)
EVERY_SET = pytest.mark.parametrize("name", core.USABLE or ["portable"])
STRUCTS = Path(core.__file__).with_name("structs.py")
COMPILERS = ("c++", "g++", "clang++", "cl")
DEADLINE = 300  # seconds for a child process, most of them for importing torch

# what the children of the tests run: a forward and a backward pass, as numbers that can be compared
PASSES = """
    import os, sys, torch
    from representer.nn import RKMLSTM
    from representer.ops import OPS, core, gated_scan, use_backend

    def passes(backend="cpp"):
        torch.manual_seed(0)
        layer, x = RKMLSTM(5, 70), torch.randn(9, 6, 5)
        with use_backend(backend):
            output, _ = layer(x)
            states, _ = gated_scan(torch.randn(9, 6, 70), torch.rand(70))
        output.sum().backward()
        return [output.detach(), states, *(p.grad for p in layer.parameters())]

    def same(a, b):
        return all(torch.allclose(x, y, atol=1e-5) for x, y in zip(a, b, strict=True))
"""


def run_child(code: str, **environment: str) -> str:
    """Run a Python process that knows ``PASSES`` and return what it prints."""
    code = textwrap.dedent(PASSES) + textwrap.dedent(code)
    done = subprocess.run(
        [sys.executable, "-c", code], env={**os.environ, **environment}, capture_output=True,
        text=True, timeout=DEADLINE, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    return done.stdout


def compiler() -> str | None:
    """Return a C++ compiler that a build would find."""
    named = [os.environ["CXX"]] if os.environ.get("CXX") else []
    return next((found for name in (*named, *COMPILERS) if (found := shutil.which(name))), None)


def test_the_core_is_built_wherever_there_is_a_compiler():
    # otherwise a failed build would skip its tests
    assert not (core.MISSING and compiler()), f"{compiler()} is there, but {core.MISSING}"


@NEEDS_CORE
def test_an_empty_sum_of_products_is_zero():
    assert torch.equal(core.product(torch.ones(3, 0), torch.ones(0, 5)), torch.zeros(3, 5))


def test_an_unavailable_instruction_set_is_refused():
    with (
        pytest.raises(BackendError, match="the core cannot use 'neon' here; it can use"),
        core.instruction_set("neon"),
    ):
        pass


@NEEDS_CORE
def test_an_instruction_set_is_used_only_inside_its_block():
    def in_use() -> str:
        return core.function("product", torch.float64).__name__.rpartition("_")[2]

    before, other = in_use(), core.USABLE[-1]
    with core.instruction_set(other):
        assert in_use() == other
    with pytest.raises(ZeroDivisionError), core.instruction_set(other):
        raise ZeroDivisionError
    assert in_use() == before


@pytest.mark.slow
@NEEDS_CORE
@pytest.mark.parametrize("name", core.USABLE)
def test_the_environment_selects_the_instruction_set(name: str):
    printed = run_child(
        """
        function = core.function("product", torch.float64).__name__
        print(core.USABLE, function.rpartition("_")[2], same(passes(), passes("reference")))
        """,
        REPRESENTER_INSTRUCTION_SET=name,
    )
    assert printed.strip() == f"[{name!r}] {name} True"


@pytest.mark.parametrize(("name", "usable", "message"), [
    ("sse9", ["avx2"], "is 'sse9'; expected one of avx512, avx2, portable."),
    ("avx512", ["avx2", "portable"], "is 'avx512'; this machine can run avx2, portable."),
])  # fmt: skip
def test_an_instruction_set_the_machine_lacks_cannot_be_selected(
    name: str, usable: list[str], message: str, monkeypatch: pytest.MonkeyPatch
):
    library = SimpleNamespace(representer_runs=lambda encoded: encoded.decode() in usable)
    monkeypatch.setattr(core, "LIBRARY", library)
    monkeypatch.setenv(core.VARIABLE, name)
    with pytest.raises(BackendError, match=re.escape(f"{core.VARIABLE} {message}")):
        core._usable()


def test_without_the_library_ops_run_on_torch_and_the_reason_is_stated():
    found = run_child(
        """
        print(core.MISSING, core.USABLE)
        print(same(passes(None), passes("reference")))
        reasons = [op.backends["cpp"].unavailable_reason("cpu", ()) for op in OPS.values()]
        print([reason == core.MISSING for reason in reasons])
        try:
            passes("cpp")
        except Exception as error:
            print(type(error).__name__, error)
        """,
        REPRESENTER_CORE="nowhere/core.so",
    )
    reason, same, unavailable, refusal = found.splitlines()
    assert reason.startswith("the C++ core does not load; without it")
    assert "nowhere/core.so" in reason
    assert reason.endswith("[]")
    assert same == "True"
    assert unavailable == str([True] * len(OPS))
    assert refusal.startswith("BackendError")
    assert "the C++ core does not load" in refusal


@pytest.mark.parametrize("digest", [None, "0123456789abcdef"])
@pytest.mark.skipif(compiler() is None, reason="there is no compiler")
def test_a_core_built_for_other_structs_is_not_used(digest, tmp_path, monkeypatch):
    source, library = tmp_path / "other.cpp", tmp_path / "other.so"
    exported = f'extern "C" const char* representer_structs() {{ return "{digest}"; }}'
    source.write_text(exported if digest else "")
    subprocess.run([str(compiler()), "-shared", "-fPIC", source, "-o", library], check=True)
    monkeypatch.setenv("REPRESENTER_CORE", str(library))
    loaded, reason = core._load()
    assert loaded is None
    built_for = digest[:12] if digest else "none"
    assert f"was built for structs with digest {built_for}, but this version expects" in reason
    assert reason.endswith("reinstall the package to rebuild it")


@pytest.mark.skipif("was not built" in core.MISSING, reason=core.MISSING)
def test_the_core_was_built_for_the_present_structs():
    assert not core.MISSING
    assert core._digest(core.LIBRARY, "structs") == hashlib.sha256(STRUCTS.read_bytes()).hexdigest()


def _change(sources: Path) -> None:
    header = sources / "vec.hpp"
    header.write_text(header.read_text().replace("-708.396418532264", "-708.3"))


def _remove(sources: Path) -> None:
    (sources / "vec.hpp").unlink()


def _add(sources: Path) -> None:
    (sources / "zzz.hpp").touch()


@NEEDS_CORE
@pytest.mark.skipif(not core.SOURCES.exists(), reason="installed without the sources")
@pytest.mark.parametrize("edit", [_change, _remove, _add])
def test_a_core_built_from_other_sources_is_stale_and_is_not_used(edit, tmp_path, monkeypatch):
    monkeypatch.setattr(core, "SOURCES", shutil.copytree(core.SOURCES, tmp_path / "csrc"))
    assert core._load()[0] is not None
    edit(core.SOURCES)
    library, reason = core._load()
    assert library is None
    assert f"was not built from the sources in {core.SOURCES}; without it" in reason
    assert reason.endswith("reinstall the package to rebuild it")


@NEEDS_CORE
def test_a_core_without_sources_is_used(tmp_path, monkeypatch):
    monkeypatch.setattr(core, "SOURCES", tmp_path / "csrc")
    assert core._load()[0] is not None


@pytest.mark.slow
@NEEDS_CORE
def test_a_forked_child_computes_the_same_and_ends():
    found = run_child(
        """
        import signal
        torch.set_num_threads(2)
        expected = passes()
        child = os.fork()
        if not child:
            signal.alarm(60)  # a child that hangs is killed by it
            ended = same(passes(), expected) and core.threads() == 1
            os._exit(0 if ended else 3)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), same(passes(), expected), core.threads())
        """
    )
    assert found.split() == ["0", "True", "2"]


def _passes(seed: int) -> list[Tensor]:
    """Return results and gradients of one call with numbers of its own."""
    cell = list(CELLS.values())[seed % len(CELLS)]
    given: dict[str, Any] = {"weight": None, **tensors(cell, (7, 5, 33), "", torch.float32)}
    given["z"] = given["z"] * (1 + seed / 100)
    marked = [given[name].requires_grad_() for name in ("z", "c0")]
    results = rkm_scan(**given, cell=cell, backend="cpp")
    gradients = torch.autograd.grad(results[0].sum(), marked)
    return [result.detach() for result in results] + list(gradients)


@NEEDS_CORE
def test_concurrent_python_threads_give_the_same_results():
    seeds = list(range(40))
    expected = [_passes(seed) for seed in seeds]
    with ThreadPoolExecutor(8) as pool:
        found = list(pool.map(_passes, seeds))
    for of_thread, alone in zip(found, expected, strict=True):
        assert all(torch.equal(a, b) for a, b in zip(of_thread, alone, strict=True))


@pytest.fixture
def _two_threads():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    yield
    torch.set_num_threads(before)


@NEEDS_CORE
@pytest.mark.usefixtures("_two_threads")
def test_the_core_uses_the_number_of_threads_of_torch(monkeypatch: pytest.MonkeyPatch):
    threads: set[int] = set()
    original = core.function

    def recorded(operation: str, dtype: torch.dtype) -> Any:
        def run(arguments: Any) -> int:
            if operation != "transposed":
                threads.add(arguments._obj.threads)
            return function(arguments)

        function = original(operation, dtype)
        return run

    monkeypatch.setattr(core, "function", recorded)
    monkeypatch.setattr(core, "MOST_THREADS", 2)  # on one core, too
    found = []
    for number in (2, 1):
        threads.clear()
        torch.set_num_threads(number)
        u, f = torch.ones(9, 5, 33).requires_grad_(), torch.full((33,), 0.5).requires_grad_()
        states, _ = gated_scan(u, f, backend="cpp")
        found.append([*_passes(1), states, *torch.autograd.grad(states.sum(), (u, f))])
        assert threads == {number}
    assert all(torch.equal(a, b) for a, b in zip(*found, strict=True))
