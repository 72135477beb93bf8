"""Adam in some rows: every backend performs the missed steps one after the other."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from looped import looped
from representer.errors import BackendError, ShapeError
from representer.ops import core
from representer.training.lazy_adam import BETAS, EPS, RowMoments, adam_rows, step_numbers

from .test_threads import NUMBERS, threads

V, STEPS = 41, 700
LAST = torch.tensor([-1, 1, STEPS, STEPS - 1, *range(2, STEPS, STEPS // (V - 4))])[:V]
# sums of up to 344 moves, against 1e-7 of their first one that is left out in float32
TOLERANCE = {torch.float64: 1e-13, torch.float32: 3e-6}
RUNS = [("reference", None), *(("cpp", name) for name in core.USABLE)]


def numbers(steps: int = STEPS + 1) -> Tensor:
    found = [step_numbers(j + 1, 1e-2 * 0.999**j) for j in range(steps)]
    return torch.tensor(found, dtype=torch.float64).T


def draw(features: int, dtype: torch.dtype) -> RowMoments:
    generator = torch.Generator().manual_seed(features)
    weight, first, second = torch.randn(3, V, features, generator=generator, dtype=torch.float64)
    scale = 10 ** torch.linspace(-9, 1, V).double()[:, None]
    tensors = (weight, scale * first, (scale * second) ** 2)
    exact = [t.to(dtype) for t in tensors]
    exact[1][0], exact[2][0] = 0, 0  # of a row without a step
    return RowMoments(*exact, LAST.clone())


def one_step_at_a_time(given: RowMoments, rows: Tensor, gradient: Tensor | None) -> RowMoments:
    """Return the weight after all steps of Adam as printed, in float64."""
    w, m, v = (t[rows].double() for t in given[:3])
    last, end = given.last[rows], STEPS + (gradient is not None)
    for j in range(end):
        is_missed = ((last >= 0) & (last <= j) | (j == STEPS))[:, None]
        g = gradient.double() if gradient is not None and j == STEPS else torch.zeros_like(w)
        m = torch.where(is_missed, BETAS[0] * m + (1 - BETAS[0]) * g, m)
        v = torch.where(is_missed, BETAS[1] * v + (1 - BETAS[1]) * g * g, v)
        root = v.sqrt() / (1 - BETAS[1] ** (j + 1)) ** 0.5
        move = 1e-2 * 0.999**j * m / (1 - BETAS[0] ** (j + 1)) / (root + EPS)
        w = torch.where(is_missed, w - move, w)
    result = RowMoments(*(t.double().clone() for t in given[:3]), given.last.clone())
    last = torch.where((last >= 0) | (gradient is not None), end, last)
    for tensor, values in zip(result, (w, m, v, last), strict=True):
        tensor[rows] = values
    return result


@looped("dtype", TOLERANCE)
@pytest.mark.parametrize("features", [1, 17, 70])
@pytest.mark.parametrize("has_gradient", [False, True])
def test_rows_get_every_step_that_they_missed(
    dtype: torch.dtype, features: int, has_gradient: bool
) -> None:
    moments, rows = draw(features, dtype), torch.randperm(V)[: V - 5]
    gradient = torch.randn(V - 5, features, dtype=dtype) if has_gradient else None
    expected = one_step_at_a_time(moments, rows, gradient)
    for backend, isa in RUNS:
        _check_rows(backend, isa, moments, rows, gradient, expected)


def _check_rows(
    backend: str,
    isa: str | None,
    moments: RowMoments,
    rows: Tensor,
    gradient: Tensor | None,
    expected: RowMoments,
) -> None:
    def run() -> RowMoments:
        given = RowMoments(*(t.clone() for t in moments))
        adam_rows(given, rows, numbers(), STEPS, gradient, backend=backend)
        return given

    with core.instruction_set(isa) if isa else threads(1):
        ours = run()
        if backend == "cpp":
            for number in NUMBERS:
                with threads(number):
                    assert all(map(torch.equal, run(), ours))
    for name, value, exact in zip(RowMoments._fields, ours, expected, strict=True):
        if name == "last":
            assert torch.equal(value, exact)
            continue
        smallest_first = 1e-30 if gradient is None else 0.01
        least = {"weight": 1.0, "first": smallest_first}.get(name, 1e-30)
        error = (value.double() - exact).abs() / exact.abs().clamp(min=least)
        assert float(error.max()) <= TOLERANCE[value.dtype], f"{name} on {backend}, {isa}"


@pytest.mark.parametrize(("backend", "isa"), RUNS[:2])
def test_no_rows_change_nothing(backend: str, isa: str | None) -> None:
    moments, none = draw(3, torch.float64), torch.zeros(0, dtype=torch.int64)
    before = [t.clone() for t in moments]
    for gradient in (None, torch.zeros(0, 3).double()):
        adam_rows(moments, none, numbers(), STEPS, gradient, backend=backend)
    assert all(map(torch.equal, moments, before))


def test_tensors_that_are_not_contiguous_run_on_the_reference() -> None:
    moments = draw(3, torch.float64)
    rows, plain = torch.arange(V), RowMoments(*(t.clone() for t in moments))
    strided = moments._replace(weight=moments.weight.T.contiguous().T)
    adam_rows(strided, rows, numbers(), STEPS)
    adam_rows(plain, rows, numbers(), STEPS)
    torch.testing.assert_close(strided.weight, plain.weight, rtol=1e-13, atol=1e-13)
    with pytest.raises(BackendError, match="contiguous tensors on cpu"):
        adam_rows(strided, rows, numbers(), STEPS, backend="cpp")


@pytest.mark.parametrize("rows", [[V], [-1], [0, V + 7]])
def test_rows_outside_the_weight_are_refused(rows: list[int]) -> None:
    with pytest.raises(IndexError, match=f"expected 0 to {V - 1}"):
        adam_rows(draw(3, torch.float64), torch.tensor(rows), numbers(), STEPS)


def test_tensors_of_other_sizes_are_refused() -> None:
    moments, rows = draw(3, torch.float64), torch.arange(2)
    for name in ("first", "second", "last"):
        short = moments._replace(**{name: getattr(moments, name)[:-1]})
        with pytest.raises(ShapeError, match=name):
            adam_rows(short, rows, numbers(), STEPS)
    with pytest.raises(ShapeError, match="gradient has shape"):
        adam_rows(moments, rows, numbers(), STEPS, torch.ones(2, 2).double())
    with pytest.raises(ShapeError, match="numbers has shape"):
        adam_rows(moments, rows, numbers(STEPS), STEPS, torch.ones(2, 3).double())
