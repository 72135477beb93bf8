"""The core's nonlinearities: accuracy, saturation and special values on every instruction set."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from looped import looped
from representer.functional import Cell
from representer.ops import core, rkm_scan

from .test_ops import DTYPES

pytestmark = pytest.mark.skipif(bool(core.MISSING), reason=core.MISSING)

EVERY_SET = pytest.mark.parametrize("name", core.USABLE or ["portable"])
DEFINITIONS = {  # "exponential" is half of expm1
    "sigmoid": torch.sigmoid,
    "tanh": torch.tanh,
    "gaussian": torch.exp,
    "exponential": torch.expm1,
}
ULPS = {torch.float32: 2, torch.float64: 4}  # torch's own float64 functions are off by up to 1
LARGE = torch.tensor([50, 80, 88, 89, 100, 104, 710, 750, 1e4, 3e38, torch.inf])


def emission(output: str, z: Tensor) -> Tensor:
    """Return the nonlinearity of every entry, by one step of a cell that does nothing else."""
    cell = Cell("static", "none", False, output=output, feedback="none")
    zeros, ones = z.new_zeros(1, len(z)), z.new_ones(2, len(z))
    h, _, _ = rkm_scan(
        z[None, None, None], None, zeros, zeros, cell=cell, static=ones, backend="cpp"
    )
    return h[0, 0]


def slope(output: str, z: Tensor) -> Tensor:
    z = z.clone().requires_grad_()
    return torch.autograd.grad(emission(output, z).sum(), z)[0]


def grid(dtype: torch.dtype) -> Tensor:
    """Return arguments of every size and sign, dense where the functions bend and saturate."""
    limit = 110 if dtype == torch.float32 else 760
    tiny, largest = math.log10(torch.finfo(dtype).tiny), math.log10(torch.finfo(dtype).max)
    sizes = torch.logspace(tiny - 5, largest - 1e-6, 20_001, dtype=torch.float64)
    around_1 = torch.logspace(-3, 1.5, 40_001, dtype=torch.float64)
    dense = torch.linspace(-limit, limit, 50_001, dtype=torch.float64)
    return torch.cat((sizes, -sizes, around_1, -around_1, dense)).to(dtype)


@EVERY_SET
@DTYPES
@looped("output", DEFINITIONS)
def test_values_are_accurate_to_the_last_digits(name: str, dtype: torch.dtype, output: str):
    z, tiny = grid(dtype), torch.finfo(dtype).tiny
    expected = DEFINITIONS[output](z.double())
    with core.instruction_set(name):
        values = emission(output, z) * (2 if output == "exponential" else 1)
    rounded = expected.to(dtype)
    assert torch.equal(values.isinf(), rounded.isinf())
    is_finite = rounded.isfinite()
    spacing = torch.finfo(dtype).eps * 2.0 ** torch.floor(torch.log2(expected.abs()))
    allowed = torch.where(expected.abs() < tiny, tiny, ULPS[dtype] * spacing)  # 0 is allowed there
    excess = ((values.double() - expected).abs() - allowed)[is_finite]
    assert (excess <= 0).all(), f"worst at {z[is_finite][excess.argmax()]}"


@EVERY_SET
@DTYPES
def test_saturated_values_are_exact_and_have_no_slope(name: str, dtype: torch.dtype):
    large = LARGE.to(dtype)
    with core.instruction_set(name):
        assert (emission("tanh", large) == 1).all()
        assert (emission("tanh", -large) == -1).all()
        assert (emission("sigmoid", large) == 1).all()
        assert (slope("tanh", torch.cat((large, -large))) == 0).all()
        assert (slope("sigmoid", large) == 0).all()
        assert (emission("exponential", -large) == -0.5).all()
        far = torch.tensor([800, 1e4, 3e38, torch.inf], dtype=dtype)
        for output in ("sigmoid", "gaussian"):
            assert (emission(output, -far) == 0).all()
            assert (slope(output, -far) == 0).all()
        assert (emission("gaussian", far) == torch.inf).all()


@EVERY_SET
@DTYPES
def test_small_arguments_keep_relative_accuracy(name: str, dtype: torch.dtype):
    info = torch.finfo(dtype)
    denormal = info.tiny * info.eps
    z = torch.tensor([0.0, denormal, -denormal, info.tiny, -1e-30], dtype=dtype)
    with core.instruction_set(name):
        assert torch.equal(emission("tanh", z), z)


@EVERY_SET
@DTYPES
@looped("output", [*DEFINITIONS, "identity"])
def test_nan_is_propagated_elementwise(name: str, dtype: torch.dtype, output: str):
    z = torch.zeros(35, dtype=dtype)
    z[[0, 7, 34]] = torch.nan
    z[[3, 8]] = -torch.nan
    integers = z.view(torch.int32 if dtype == torch.float32 else torch.int64)
    integers[[1, 20]] = torch.tensor([torch.nan, -torch.nan], dtype=dtype).view(integers.dtype) + 5
    assert z.isnan().sum() == 7
    with core.instruction_set(name):
        assert torch.equal(emission(output, z).isnan(), z.isnan())
