"""float32 products of the CPU by the library that uses its whole width."""

from __future__ import annotations

import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from representer.ops import common

FEW, MANY = 1.0, 1e9


def setting(multiplications: float) -> str:
    with common.full_width_products(multiplications):
        return torch.backends.mkldnn.matmul.fp32_precision


@pytest.fixture
def wide_cpu(monkeypatch):
    monkeypatch.setattr(common, "_is_wide_amd", lambda: True)
    monkeypatch.setattr(common, "_rounds_nothing", lambda: True)


def test_large_products_alone_are_handed_over_and_the_setting_comes_back(wide_cpu):
    before = torch.backends.mkldnn.matmul.fp32_precision
    assert (setting(MANY), setting(FEW)) == ("bf16", before)
    with pytest.raises(RuntimeError), common.full_width_products():
        raise RuntimeError
    assert torch.backends.mkldnn.matmul.fp32_precision == before


def test_blocks_of_two_threads_leave_the_setting_as_it_was(wide_cpu):
    before = torch.backends.mkldnn.matmul.fp32_precision
    first, second = (common.full_width_products() for _ in "ab")
    first.__enter__()
    second.__enter__()
    first.__exit__(None, None, None)  # not the last that was opened
    assert torch.backends.mkldnn.matmul.fp32_precision == "bf16"
    second.__exit__(None, None, None)
    assert torch.backends.mkldnn.matmul.fp32_precision == before


@pytest.mark.parametrize("mode", [
    FakeTensorMode, lambda: torch.autocast("cpu", torch.bfloat16), lambda: torch.device("meta"),
], ids=["fake", "autocast", "device"])  # fmt: skip
def test_the_check_does_not_depend_on_the_mode_of_its_first_call(mode):
    expected = common._rounds_nothing.__wrapped__()
    with mode():
        assert common._rounds_nothing.__wrapped__() == expected


@pytest.mark.parametrize("missing", ["_is_wide_amd", "_rounds_nothing"])
def test_nothing_is_handed_over_on_a_cpu_that_gains_nothing_or_would_round(
    wide_cpu, monkeypatch, missing
):
    monkeypatch.setattr(common, missing, lambda: False)
    assert setting(MANY) == torch.backends.mkldnn.matmul.fp32_precision


def test_products_keep_the_precision_of_float32_on_this_cpu():
    generator = torch.Generator().manual_seed(0)
    a, b = (torch.randn(300, 400, generator=generator) for _ in "ab")
    exact = a.double() @ b.double().T
    with common.full_width_products():
        error = (a @ b.T - exact).norm() / exact.norm()
    assert error < 2e-6  # float32: 4e-7; products rounded to bfloat16: 2e-3


@pytest.fixture(params=[torch.float32, torch.float64], ids=str)
def default_dtype(request):
    before = torch.get_default_dtype()
    torch.set_default_dtype(request.param)
    yield
    torch.set_default_dtype(before)


@pytest.mark.usefixtures("default_dtype")
def test_what_rounds_is_seen(monkeypatch):
    matmul = torch.Tensor.__matmul__
    rounded = lambda a, b: matmul(a.bfloat16().to(a), b.bfloat16().to(b))  # noqa: E731
    assert common._rounds_nothing.__wrapped__() or torch.cpu._is_amx_tile_supported()
    monkeypatch.setattr(torch.Tensor, "__matmul__", lambda a, b: (
        matmul(a, b) if a.dtype == torch.float64 else rounded(a, b)
    ))  # fmt: skip
    assert not common._rounds_nothing.__wrapped__()
