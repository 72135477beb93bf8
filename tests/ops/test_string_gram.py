from __future__ import annotations

from typing import Any

import pytest
import torch

from looped import looped
from representer import kernels
from representer.functional import string_kernel
from representer.ops import core, gpu
from representer.ops.string_gram import missing, string_gram

pytestmark = pytest.mark.skipif(core.LIBRARY is None, reason=core.MISSING)
LENGTHS = (3, 0, 9, 17, 2, 25, 1, 11, 8, 4, 30, 5, 7, 16, 24, 13, 6, 10)
TOLERANCE = {torch.float64: 1e-10, torch.float32: 2e-4}  # float32 sums up to 900 products


def draw(d, dtype, lengths=LENGTHS):
    if d == 0:
        return [torch.randint(0, 3, (n,)).to(dtype) for n in lengths]
    return [0.5 * torch.randn(n, d, dtype=dtype) for n in lengths]


def exact(X, Y, n, lam, trailing):
    rows = []
    for x in X:
        row = []
        for y in Y:
            S = (x[:, None] == y).double() if x.dim() == 1 else x.double() @ y.double().T
            ends = torch.tensor(len(x)), torch.tensor(len(y))
            row.append(string_kernel(S, n, lam, trailing=trailing, lengths=ends))
        rows.append(torch.stack(row))
    return torch.stack(rows)


@looped(("d", "trailing"), [(0, True), (0, False), (1, True), (5, False), (17, True)])
@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 7])
def test_every_instruction_set_matches_the_dynamic_program(n, d, trailing):
    dtype = [*TOLERANCE][(n + d) % 2]
    X = draw(d, dtype, LENGTHS if n in (2, 5) else LENGTHS[:6])
    Y = X[2:5]  # not in the order of their lengths
    whole = exact(X, X, n, 0.7, trailing)
    scale = whole.abs().max().clamp(min=1)
    tolerance = {"rtol": 0.0, "atol": TOLERANCE[dtype]}
    for isa in core.USABLE:
        with core.instruction_set(isa):
            gram = string_gram(X, None, n, 0.7, trailing=trailing).double()
            cross = string_gram(X, Y, n, 0.7, trailing=trailing).double()
        for found, expected in ((gram, whole), (cross, whole[:, 2:5])):
            torch.testing.assert_close(
                found / scale, expected / scale, **tolerance,
                msg=lambda text, isa=isa: f"{isa}: {text}",
            )  # fmt: skip


@pytest.mark.parametrize("lam", [0.0, 1.0])
@pytest.mark.parametrize("n", [1, 2, 5])
def test_decays_of_0_and_1_match_the_dynamic_program(lam, n):
    X = draw(3, torch.float64, (6, 0, 3, 9))
    torch.testing.assert_close(string_gram(X, None, n, lam), exact(X, X, n, lam, True))


def test_missing_states_what_neither_core_nor_gpu_supports(monkeypatch: pytest.MonkeyPatch):
    x, order = torch.ones(2, 3), 2
    assert missing(x, torch.float64, order) == ""
    assert "float16" in missing(x, torch.float16, order)
    assert "inner products" in missing(x, torch.float64, order, torch.mm)
    assert missing(x.to("meta"), torch.float32, order) == "runs on cpu and cuda, not on meta"
    monkeypatch.setattr("representer.ops.string_gram._device_of", lambda x: "cuda")
    monkeypatch.setattr(gpu, "MISSING", "")
    assert missing(x, torch.float32, order, torch.mm) == ""
    assert "bfloat16" in missing(x, torch.bfloat16, order)
    assert missing(x, torch.float32, 9) == "order 9 is above 8"


@pytest.mark.gpu
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("base", ["linear", "delta", kernels.Gaussian()])
def test_gram_matrices_on_a_gpu_are_those_of_the_cpu(dtype: torch.dtype, base: Any):
    sizes = torch.randint(0, 70, (300,), generator=torch.Generator().manual_seed(0)).tolist()
    if base == "delta":
        X = [torch.randint(0, 5, (n,)) for n in sizes]
    else:
        X = [0.2 * torch.randn(n, 20, dtype=dtype) for n in sizes]
    kernel = kernels.StringKernel(4, 0.6, base=base)
    placed = [x.cuda() for x in X]
    for Y, on_gpu in ((None, None), (X[3:50], placed[3:50])):
        expected, found = kernel(X, Y).double(), kernel(placed, on_gpu)
        assert torch.equal(found, kernel(placed, on_gpu))
        off = (found.double().cpu() - expected).abs().max() / expected.abs().max()
        assert off <= TOLERANCE[dtype]
