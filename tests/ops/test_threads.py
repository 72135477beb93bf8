"""The core computes the same with any number of threads, at sizes that split each of its loops.

Most tests run with one thread. Each case here has more of what a loop divides (rows of the batch,
units of a row, features, filters, nodes) than threads, on every instruction set.
"""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from looped import looped
from ops.divided_samples import divided_samples
from ops.samples import Sample
from ops.trials import arguments, define, gradients, make, several, threads
from representer import nn
from representer.ops import Op, core, use_backend

from .test_ops import DTYPES, TOLERANCE, assert_near

pytestmark = pytest.mark.skipif(bool(core.MISSING), reason=core.MISSING)

EVERY_SET = pytest.mark.parametrize("name", core.USABLE or ["portable"])
NUMBERS = (2, 4)
SAMPLES = [pytest.param(op, one, id=f"{op.name}-{one.name}") for op, one in divided_samples()]


# Sums over parts of the batch, one a thread, whose number changes their rounding
SUMMED = {
    "rkm_scan": {"weight", "static", "norm", "input_weight", "bias"},
    "string_scan": {"weight", "decay", "input_weight", "bias"},
    "kbrn_scan": {"weight", "centers", "coefficients", "line", "norm"},
    "kernel_activation": {"centers", "coefficients"},
}
# Threads divide vectors, which the compiler joins in groups with a rounding of their own
ROUNDED = {"walk_aggregate", "walk_rounds"}
BY_TORCH = {  # products of torch, which has its own threads: on AMD, their bits depend on these
    "separable_convolution": {"x"},
    "rkm_scan": {"z", "h0"},
    "string_scan": {"x", "h0"},
    "tree_scan": {"state_gate"},
}


def evaluate(op: Op, sample: Sample, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    results = several(op.function(**arguments(op, sample, tensors), backend="cpp"))
    named = {f"result {i}": result.detach() for i, result in enumerate(results)}
    return named | gradients(results, tensors)


@looped("dtype", TOLERANCE)
@pytest.mark.parametrize(("op", "sample"), SAMPLES)
def test_results_do_not_depend_on_threads_and_match_the_definition(
    dtype: torch.dtype, op: Op, sample: Sample
):
    exact = make(sample, torch.float64)
    if dtype == torch.float32:  # the same numbers
        exact = {n: t.detach().to(dtype).double() if t.is_floating_point() else t.detach()
                 for n, t in exact.items()}  # fmt: skip
        for n, tensor in exact.items():
            tensor.requires_grad_(tensor.is_floating_point() and n not in sample.constants)
    results = define(op, sample, exact)
    expected = {f"result {i}": result.detach() for i, result in enumerate(results)}
    expected |= gradients(results, exact)
    rounded = SUMMED.get(op.name, set()) | BY_TORCH.get(op.name, set())
    for name in core.USABLE:
        with core.instruction_set(name):
            alone = evaluate(op, sample, make(sample, dtype))
            for number in NUMBERS:
                with threads(number):
                    values, again = (evaluate(op, sample, make(sample, dtype)) for _ in "ab")
                where = f"{number} threads, {name}"
                for key, value in values.items():
                    assert torch.equal(value, again[key]), f"{key} differs from run to run"
                    assert_near(value, expected[key], TOLERANCE[dtype], f"{key}, {where}")
                    if op.name not in ROUNDED and key not in rounded:
                        assert torch.equal(value, alone[key]), f"{key} differs with {where}"


@EVERY_SET
@DTYPES
def test_products_do_not_depend_on_threads(name: str, dtype: torch.dtype):
    a, b = torch.randn(45, 30, dtype=dtype), torch.randn(30, 70, dtype=dtype)
    with core.instruction_set(name):
        alone = core.product(a, b)
        torch.testing.assert_close(alone, a @ b)
        for number in NUMBERS:
            with threads(number):
                assert torch.equal(core.product(a, b), alone)


@EVERY_SET
@looped("dtype", TOLERANCE)
def test_several_threads_pack_and_transpose_large_weights(dtype: torch.dtype, name: str):
    """The core moves matrices of more than 2**16 entries with all threads."""
    cells = nn.TABLE1["RKM-LSTM"](5, 131).to(dtype), nn.StringKernelRNN(7, 259).to(dtype)
    matrix, factor = torch.randn(301, 257, dtype=dtype), torch.randn(7, 301, dtype=dtype)

    def values() -> list[Tensor]:
        found = [core.transpose(matrix), core.product(factor, matrix)]
        for cell in cells:
            x = torch.linspace(-1, 1, 3 * 5 * cell.input_size, dtype=dtype).view(3, 5, -1)
            output, _ = cell(x.requires_grad_())
            found += [output.detach(), *torch.autograd.grad(output.sum(), x)]
        return found

    with use_backend("reference"):
        expected = [matrix.t(), factor @ matrix, *values()[2:]]
    with core.instruction_set(name):
        alone = values()
        for number in NUMBERS:
            with threads(number):
                for k, value in enumerate(values()):
                    one, wanted = alone[k], expected[k]
                    if k not in (3, 5):  # gradients, in which torch has a part, see BY_TORCH
                        assert torch.equal(value, one)
                    assert_near(value, wanted, TOLERANCE[dtype], f"{number} threads, {name}")


def test_the_number_of_threads_is_limited(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 100_000_000)
    assert core.threads() == core.MOST_THREADS
    op, sample = next(divided_samples())
    expected = define(op, sample, make(sample, torch.float64))
    monkeypatch.setattr(core, "threads", lambda: 100_000_000)  # what the library itself refuses
    values = evaluate(op, sample, make(sample, torch.float64))
    torch.testing.assert_close(values["result 0"], expected[0])
