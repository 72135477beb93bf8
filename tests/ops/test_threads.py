"""The core computes the same with any number of threads, at sizes that split each of its loops.

Most tests run with one thread. Each case here has more of what a loop divides (rows of the batch,
units of a row, features, filters, nodes) than threads, on every instruction set.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor

from looped import looped
from representer.functional import GREENS
from representer.ops import OPS, Op, Sample, core
from representer.ops.kbrn_scan.samples import tensors as kbrn
from representer.ops.rkm_scan.samples import CELLS
from representer.ops.rkm_scan.samples import tensors as rkm
from representer.ops.string_gram import string_gram
from representer.ops.string_scan.samples import CHAINS
from representer.ops.string_scan.samples import tensors as string
from representer.ops.walk_aggregate.samples import tensors as walk
from representer.ops.walk_rounds.samples import tensors as rounds

from .cases import arguments, define, gradients, make, several
from .test_ops import DTYPES, TOLERANCE, assert_near
from .test_string_gram import exact

pytestmark = pytest.mark.skipif(bool(core.MISSING), reason=core.MISSING)

EVERY_SET = pytest.mark.parametrize("name", core.USABLE or ["portable"])
NUMBERS = (2, 4)
ALL_PARTS = "shift factor gate edge"


def normal(generator: torch.Generator, *shape: int) -> Tensor:
    return torch.randn(shape, generator=generator, dtype=torch.float64)


def scan_tensors(decay: str, batch: int, units: int, dtype: torch.dtype) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(units)
    shape = {"scalar": (), "vector": (units,), "full": (5, batch, units)}[decay]
    given = {
        "u": normal(generator, 5, batch, units),
        "f": normal(generator, *shape).sigmoid(),
        "c0": normal(generator, batch, units),
    }
    return {name: tensor.to(dtype) for name, tensor in given.items()}


def activation_tensors(rows: int, features: int, dtype: torch.dtype) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(rows)
    given = {  # on a grid, so that no input lies on a center in float32 alone
        "input": normal(generator, rows, features).round(decimals=2) + 0.005,
        "centers": normal(generator, features, 6).round(decimals=2),
        "coefficients": normal(generator, features, 6),
    }
    return {name: tensor.to(dtype) for name, tensor in given.items()}


def filter_tensors(filters: int, dtype: torch.dtype) -> dict[str, Tensor]:
    generator = torch.Generator().manual_seed(filters)
    shapes = {"x": (12, 2, 3), "mix": (2, filters, 3), "taps": (2, filters, 5)}
    return {name: normal(generator, *shape).to(dtype) for name, shape in shapes.items()}


def ragged(make_full: Any, dtype: torch.dtype) -> dict[str, Tensor]:
    """Return the tensors of a sample without lengths, and random lengths, the last of them 1."""
    given, generator = make_full(dtype), torch.Generator().manual_seed(0)
    time, batch = next(iter(given.values())).shape[:2]
    lengths = torch.randint(time + 1, (batch,), generator=generator)
    lengths[-1] = 1
    return {**given, "lengths": lengths}


def cases() -> Iterator[Any]:
    """Yield (op, sample): a vector decay with its row split, and the like."""

    def case(op: str, label: str, make_tensors: Any, *constants: str, **options: Any) -> Any:
        sample = Sample(label, make_tensors, options, constants)
        return pytest.param(OPS[op], sample, id=f"{op}-{label}")

    for decay in ("scalar", "vector", "full"):
        for batch, units in ((1, 64), (1, 150), (9, 35)):  # units of a row, and rows
            for reverse in (False, True):
                label = f"{decay}-{batch}x{units}-{'reverse' if reverse else 'forward'}"
                made = partial(scan_tensors, decay, batch, units)
                yield case("gated_scan", label, made, reverse=reverse)
        made = partial(ragged, partial(scan_tensors, decay, 9, 35))
        yield case("gated_scan", f"{decay}-lengths", made, "lengths", reverse=False)
    for kind, words in (
        ("rkm_lstm", "input"),
        ("rkm_cifg", "norm hold"),
        ("linear_kernel", ""),
    ):
        made = partial(rkm, CELLS[kind], (4, 21, 19), words)
        label, options = "-".join((kind, *words.split())), {"cell": CELLS[kind], "reverse": False}
        yield case("rkm_scan", label, made, "hold", **options)
        label, made = f"{label}-lengths", partial(ragged, made)
        yield case("rkm_scan", label, made, "hold", "lengths", **options | {"reverse": True})
    for kind, words, sizes in (
        ("second", "input", (9, 7, 70)),
        ("second", "vector", (4, 1, 200)),
        ("second_gated", "input", (4, 2, 200)),
        ("second_seen", "input mask", (9, 7, 33)),
        ("fifth_exact", "", (5, 6, 40)),
    ):
        made = partial(string, CHAINS[kind], sizes, words)
        label = "-".join((kind, *words.split(), "x".join(map(str, sizes))))
        options = {"chain": CHAINS[kind], "reverse": False}
        yield case("string_scan", label, made, "mask", **options)
        label, made = f"{label}-lengths", partial(ragged, made)
        yield case("string_scan", label, made, "mask", "lengths", **options | {"reverse": True})
    for words in ("line", "batch", "norm"):
        options = {"batch_statistics": True} if words == "batch" else {}
        made = partial(kbrn, (3, 300, 6), words)
        yield case("kbrn_scan", words, made, "statistics", green="abs", **options)
        label, made = f"{words}-lengths", partial(ragged, made)
        yield case("kbrn_scan", label, made, "statistics", "lengths", green="abs", **options)
    for green in GREENS:
        rows = 1500 if green != "gaussian" else 70  # 480 rows a block, or a feature
        yield case("kernel_activation", green, partial(activation_tensors, rows, 5), green=green)
    yield case("separable_convolution", "150", partial(filter_tensors, 150), stride=2, dilation=1)
    for units in (70, 150):
        made = partial(walk, (7, 16, 3, units), ALL_PARTS)
        yield case("walk_aggregate", str(units), made, "edge_index", activation="tanh")
    made = partial(rounds, (23, 60, 3, 37, 70, 3), True)
    yield case("walk_rounds", "70", made, "edge_index", depth=3, activation="tanh")


# Sums over parts of the batch, one a thread, whose number changes their rounding
SUMMED = {
    "gated_scan": {"f"},
    "rkm_scan": {"weight", "static", "norm", "input_weight", "bias"},
    "string_scan": {"weight", "decay", "input_weight", "bias"},
    "kbrn_scan": {"weight", "centers", "coefficients", "line", "norm"},
    "kernel_activation": {"centers", "coefficients"},
}
# Threads divide vectors, which the compiler joins in groups with a rounding of their own
ROUNDED = {"walk_aggregate", "walk_rounds"}
BY_TORCH = {  # products of torch, which have its own threads
    "separable_convolution": {"x"},
    "rkm_scan": {"z"},
    "string_scan": {"x"},
}


@contextmanager
def threads(number: int) -> Iterator[None]:
    before = torch.get_num_threads()
    torch.set_num_threads(number)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def evaluate(op: Op, sample: Sample, tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    results = several(op.function(**arguments(op, sample, tensors), backend="cpp"))
    named = {f"result {i}": result.detach() for i, result in enumerate(results)}
    return named | gradients(results, tensors)


@looped("dtype", TOLERANCE)
@pytest.mark.parametrize(("op", "sample"), list(cases()))
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
                    values = evaluate(op, sample, make(sample, dtype))
                where = f"{number} threads, {name}"
                for key, value in values.items():
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
@pytest.mark.parametrize("order", [2, 5])
def test_gram_matrices_do_not_depend_on_threads(name: str, order: int):
    sequences = [0.5 * torch.randn(length, 4).double() for length in (3, 0, 9, 17, 2, 25, 1, 11, 8)]
    expected = exact(sequences, sequences, order, 0.7, True)
    with core.instruction_set(name):
        alone = string_gram(sequences, None, order, 0.7)
        torch.testing.assert_close(alone, expected)
        for number in NUMBERS:
            with threads(number):
                assert torch.equal(string_gram(sequences, None, order, 0.7), alone)
                rows = string_gram(sequences[3:4], sequences, order, 0.7)
                torch.testing.assert_close(rows, expected[3:4])


def test_the_number_of_threads_is_limited(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(torch, "get_num_threads", lambda: 100_000_000)
    assert core.threads() == core.MOST_THREADS
    case = next(iter(cases()))
    op, sample = case.values
    expected = define(op, sample, make(sample, torch.float64))
    monkeypatch.setattr(core, "threads", lambda: 100_000_000)  # what the library itself refuses
    values = evaluate(op, sample, make(sample, torch.float64))
    torch.testing.assert_close(values["result 0"], expected[0])
