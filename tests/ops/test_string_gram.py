from __future__ import annotations

import pytest
import torch

from looped import looped
from representer.functional import string_kernel
from representer.ops import core
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


def test_single_and_empty_sequences_are_accepted():
    one = draw(2, torch.float64, (4,))
    torch.testing.assert_close(string_gram(one, None, 2, 0.5), exact(one, one, 2, 0.5, True))
    empty = draw(2, torch.float64, (0, 0, 0))
    assert string_gram(empty, None, 1, 0.5).count_nonzero() == 0
    assert string_gram(empty, one, 2, 0.5).count_nonzero() == 0


def test_missing_states_what_the_core_does_not_support():
    assert missing(torch.float64, "cpu") == ""
    assert "float16" in missing(torch.float16, "cpu")
    assert missing(torch.float32, "cuda") == "runs on cpu, not on cuda"
