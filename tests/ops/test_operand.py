"""A tensor against its declaration: shapes, dtypes, devices, and messages."""

from __future__ import annotations

from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
import torch
from torch import Tensor

from representer.errors import KindError, ShapeError
from representer.ops.table import LENGTHS, Operand, Row, Sizes, check_operand, parse_axes

U = torch.ones(2, 3, 4)
LIKE = U, U.dtype, U.device


def check(
    tensor: Tensor | None,
    axes: str = "time batch units",
    *,
    is_strict: bool = False,
    needed: Callable[[Any], bool | None] | None = None,
) -> Sizes:
    """Check a second operand after u, and return the sizes."""
    sizes = {"time": 2, "batch": 3, "units": 4}
    row = Row("w", Operand(axes, needed=needed), True, parse_axes(axes), ())
    check_operand(row, tensor, SimpleNamespace(is_gated=True), sizes, LIKE, is_strict)
    return sizes


def test_axes_are_parsed_into_names_numbers_and_alternatives():
    assert parse_axes("2 time units | units |") == ((2, "time", "units"), ("units",), ())


def test_a_named_axis_has_one_size_in_a_call():
    assert check(torch.ones(4, 7), "units features")["features"] == 7
    with pytest.raises(ShapeError, match=r"w has shape \(4, 5\); expected \(4, 4\)"):
        check(torch.ones(4, 5), "units units")


def test_an_error_shows_the_sizes_known_before():
    with pytest.raises(ShapeError, match=r"w has shape \(9, 7, 5\); expected \(gates, 4, features"):
        check(torch.ones(9, 7, 5), "gates units features")


@pytest.mark.parametrize("shape", [(), (4,), (2, 3, 4)])
def test_the_number_of_axes_selects_among_alternatives(shape: tuple[int, ...]):
    assert "units" in check(torch.ones(shape), "time batch units | units |")
    with pytest.raises(ShapeError, match=r"expected \(2, 3, 4\), \(4,\) or \(\)"):
        check(torch.ones(5), "time batch units | units |")


def test_an_axis_that_must_not_be_empty_is_named():
    with pytest.raises(
        ShapeError, match=r"\(4, 0\); expected \(4, centers\) with at least one center"
    ):
        check(torch.ones(4, 0), "units centers")


def test_missing_and_superfluous_operands_are_named():
    check(None)
    check(U, needed=lambda p: p.is_gated)
    check(None, needed=lambda p: not p.is_gated)
    with pytest.raises(KindError, match=r"w is None; expected a tensor \(2, 3, 4\) in this call"):
        check(None, needed=lambda p: p.is_gated)
    with pytest.raises(KindError, match=r"w is a tensor \(2, 3, 4\); expected None in this call"):
        check(U, needed=lambda p: not p.is_gated)


def test_dtypes_may_differ_under_autocast_but_not_where_memory_is_read():
    half = U.bfloat16()
    with pytest.raises(KindError, match=r"w is torch.bfloat16; expected torch.float32. Use w.to"):
        check(half)
    with torch.autocast("cpu", torch.bfloat16):
        check(half)
        with pytest.raises(KindError, match=r"bfloat16; expected torch.float32"):
            check(half, is_strict=True)


@pytest.mark.parametrize(("tensor", "message"), [
    (U.to("meta"), r"w is on meta; expected cpu. Use w.to\('cpu'\)"),
    (U.long(), "w is torch.int64; expected a floating-point"),
    (U.to_sparse(), "w is torch.sparse_coo; expected a dense tensor. Use .to_dense()"),
])  # fmt: skip
def test_the_error_for_a_wrong_kind_of_tensor_states_the_fix(tensor: Tensor, message: str):
    with pytest.raises(KindError, match=message):
        check(tensor)


def test_lengths_are_integers_one_for_each_sequence():
    def of(lengths: Tensor) -> None:
        row = Row("lengths", LENGTHS, True, parse_axes(LENGTHS.axes), ())
        check_operand(row, lengths, None, {"batch": 3}, LIKE, True)

    of(torch.tensor([5, 0, 1], dtype=torch.uint8))
    with pytest.raises(ShapeError, match=r"lengths has shape \(2,\); expected \(3,\)"):
        of(torch.tensor([1, 2]))
    for dtype in (torch.float32, torch.complex64):
        with pytest.raises(KindError, match=f"lengths is {dtype}; expected integers.*long"):
            of(torch.ones(3, dtype=dtype))
