"""The compiled core: every instruction set and number of threads means the same."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from typing import Any

import pytest
import torch

from representer.errors import BackendError
from representer.functional import NONLINEARITIES, Cell
from representer.ops import OPS, Op, core
from representer.ops.rkm_scan.samples import CELLS, tensors

from .cases import few_samples, gradients, make

BUILT = pytest.mark.skipif(bool(core.MISSING), reason=core.MISSING)
EVERY_SET = pytest.mark.parametrize("isa", core.USABLE)
SIZES = [(3, 1, 1), (2, 33, 5), (3, 17, 70), (2, 5, 64)]  # (T, B, H), around the lanes' numbers


@pytest.fixture
def three_threads() -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(before)


def _run(op: Op, operands: dict[str, Any], backend: str) -> list[torch.Tensor]:
    results = op.function(**operands, backend=backend)
    marked = {n: t for n, t in operands.items() if isinstance(t, torch.Tensor) and t.requires_grad}
    return [*results, *gradients(results, marked).values()]


@BUILT
@EVERY_SET
@pytest.mark.parametrize("sizes", SIZES, ids=str)
@pytest.mark.parametrize("options", ["", "norm hold lengths", "input lengths"])
@pytest.mark.usefixtures("three_threads")
def test_every_instruction_set_computes_every_cell_at_odd_sizes_on_several_threads(
    isa: str, sizes: tuple[int, int, int], options: str
):
    time, batch, _ = sizes
    for name, cell in CELLS.items():
        if "inverse" in name or "polynomial" in name:
            continue  # a wide layer of them leaves the region where they are bounded
        operands: dict[str, Any] = {"weight": None}
        operands |= tensors(cell, sizes, options.replace("lengths", ""), torch.float64)
        if "lengths" in options:
            operands["lengths"] = torch.arange(batch) % (time + 1)
        for key, tensor in operands.items():
            if tensor is not None and tensor.is_floating_point() and key != "hold":
                tensor.requires_grad_()
        with core.instruction_set(isa):
            found = _run(OPS["rkm_scan"], {**operands, "cell": cell}, "cpp")
        expected = _run(OPS["rkm_scan"], {**operands, "cell": cell}, "reference")
        torch.testing.assert_close(found, expected, rtol=1e-9, atol=1e-9, msg=name)


@BUILT
@EVERY_SET
@pytest.mark.usefixtures("three_threads")
def test_every_instruction_set_scans(isa: str):
    for sample in few_samples(OPS["gated_scan"]):
        operands = {**make(sample, torch.float64), **sample.options}
        with core.instruction_set(isa):
            found = _run(OPS["gated_scan"], operands, "cpp")
        torch.testing.assert_close(found, _run(OPS["gated_scan"], operands, "reference"))


@BUILT
@EVERY_SET
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("name", ["tanh", "sigmoid", "exponential", "gaussian"])
def test_the_cores_own_functions_are_torchs_over_the_whole_line(
    isa: str, dtype: torch.dtype, name: str
):
    values = [-800.0, -100, -30, -8, -1, -1e-3, -1e-9, -0.0, 0.0, 1e-9, 1e-3, 0.5, 1, 8, 30, 80]
    values += [*torch.linspace(-20, 20, 401).tolist(), float("inf"), float("-inf"), float("nan")]
    z = torch.tensor(values, dtype=dtype)[None, None, None]
    cell = Cell("static", "none", False, output=name, feedback="none")
    zeros, ones = z.new_zeros(1, z.shape[-1]), z.new_ones(2, z.shape[-1])
    with core.instruction_set(isa):
        output, _, _ = OPS["rkm_scan"].function(
            z, None, zeros, zeros, cell=cell, static=ones, backend="cpp"
        )
    expected = NONLINEARITIES[name].value(z.double()).to(dtype)
    # portable code has no fused multiply-add, and reduces large arguments less exactly
    tolerance = 1e-5 if dtype == torch.float32 else 1e-14
    torch.testing.assert_close(
        output[0, 0], expected[0, 0, 0], rtol=tolerance, atol=tolerance, equal_nan=True
    )


@BUILT
def test_an_instruction_set_that_is_not_here_is_refused_and_the_old_one_stays():
    before = core.function("scan_forward", torch.float32)
    refused = pytest.raises(BackendError, match=r"cannot use 'abacus' here; it can use .*portable")
    with refused, core.instruction_set("abacus"):
        pass
    with pytest.raises(RuntimeError), core.instruction_set("portable"):
        raise RuntimeError
    assert core.function("scan_forward", torch.float32) is before


def test_dtypes_that_the_core_does_not_take_are_named():
    assert core.refuses(torch.float32) == core.refuses(torch.float64) == ""
    assert core.refuses(torch.float16) == "takes float32 and float64, not torch.float16"
    with torch.autocast("cpu", torch.bfloat16):
        assert core.refuses(torch.bfloat16) == ""


def _in_python(code: str, **environment: str) -> str:
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
        env={**os.environ, **environment},
    )
    return done.stdout.strip()


def test_without_the_core_everything_runs_on_the_reference_and_says_why(tmp_path):
    damaged = tmp_path / "core.so"
    damaged.write_bytes(b"no library")
    code = """
import torch
from representer import nn, ops
from representer.ops import core
output, state = nn.RKMLSTM(3, 4)(torch.zeros(2, 1, 3))
with torch.no_grad():
    nn.RKMLSTM(3, 4).step(torch.zeros(1, 3), state)
try:
    ops.gated_scan(torch.zeros(2, 1, 3), torch.tensor(0.5), backend="cpp")
except Exception as error:
    print(type(error).__name__, error)
"""
    told = _in_python(code, REPRESENTER_CORE=str(damaged))
    assert told.startswith("BackendError gated_scan: backend 'cpp' cannot run this call:")
    assert "the C++ core does not load" in told


@BUILT
def test_a_forked_child_computes_on_one_thread_after_the_parent_used_several():
    code = """
import os, torch
from representer.ops import core, gated_scan
torch.set_num_threads(2)
u, f = torch.ones(4, 64, 64), torch.tensor(0.5)
expected = gated_scan(u, f, backend="cpp")[0]
child = os.fork()
if not child:
    same = torch.equal(gated_scan(u, f, backend="cpp")[0], expected)
    os._exit(0 if same and core.threads() == 1 else 1)
print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), core.threads())
"""
    assert _in_python(code) == "0 2"
