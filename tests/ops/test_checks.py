"""Checks of operands: messages name the value, what was expected, and the fix."""

from __future__ import annotations

import pytest
import torch

from representer.errors import KindError, ShapeError
from representer.ops.checks import (
    check_floating,
    check_input,
    check_lengths,
    check_like,
    check_operands,
    dtypes_meet,
    may_need_gradient,
)

LIKE = torch.zeros(2, 3)


def test_a_tensor_that_fits_passes():
    check_like("c0", torch.ones(4), LIKE, (4,))
    check_floating("u", LIKE)
    check_lengths(None, 5, 2)
    check_lengths(torch.tensor([5, 0], dtype=torch.uint8), 5, 2)


def test_a_wrong_shape_shows_both_shapes():
    with pytest.raises(ShapeError, match=r"c0 has shape \(3, 2\); expected \(2, 3\)"):
        check_like("c0", torch.ones(3, 2), LIKE, (2, 3))


def test_a_wrong_dtype_shows_both_and_the_conversion():
    with pytest.raises(KindError) as error:
        check_like("c0", torch.ones(2, 3).double(), LIKE, (2, 3))
    message = "c0 is torch.float64; expected torch.float32. Use c0.to(torch.float32)."
    assert str(error.value) == message


def test_a_wrong_device_shows_both_and_the_conversion():
    with pytest.raises(KindError) as error:
        check_like("c0", torch.ones(2, 3, device="meta"), LIKE, (2, 3))
    assert str(error.value) == "c0 is on meta; expected cpu. Use c0.to('cpu')."


def test_under_autocast_dtypes_may_differ_but_shapes_may_not():
    with torch.autocast("cpu", torch.bfloat16):
        check_like("c0", torch.ones(2, 3).bfloat16(), LIKE, (2, 3))
        with pytest.raises(ShapeError):
            check_like("c0", torch.ones(3, 2).bfloat16(), LIKE, (2, 3))


def test_autocast_leaves_float64_alone_and_so_do_the_checks():
    single, double = torch.ones(2), torch.ones(2).double()
    with torch.autocast("cpu", torch.bfloat16):
        assert dtypes_meet(double, double)
        for tensor, like in ((single, double), (double, single)):
            assert not dtypes_meet(tensor, like)
            with pytest.raises(KindError, match=r"expected torch.float"):
                check_like("c0", tensor, like, (2,))


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.complex64])
def test_only_real_floating_point_numbers_are_computed_with(dtype: torch.dtype):
    with pytest.raises(KindError, match=f"u is {dtype}; expected a floating-point dtype"):
        check_floating("u", torch.zeros(2, dtype=dtype))


def test_there_is_one_length_a_sequence():
    with pytest.raises(
        ShapeError, match=r"lengths has shape \(3,\); expected \(2,\), one length per"
    ):
        check_lengths(torch.tensor([1, 2, 3]), 5, 2)


@pytest.mark.parametrize("dtype", [torch.float32, torch.complex64])
def test_lengths_are_whole_numbers(dtype: torch.dtype):
    with pytest.raises(KindError, match=f"lengths is {dtype}; expected integers.*long"):
        check_lengths(torch.ones(2, dtype=dtype), 5, 2)


def test_a_gradient_may_be_requested_where_autograd_or_vmap_holds_a_tensor():
    plain, marked = torch.zeros(2, 3), torch.zeros(2, 3, requires_grad=True)
    assert not may_need_gradient((None, plain))
    assert may_need_gradient((None, plain, marked))
    with torch.no_grad():
        assert not may_need_gradient((marked,))
    found = []
    torch.vmap(lambda x: found.append(may_need_gradient((x,))) or x)(marked)
    assert found == [True]


def test_sizes_are_read_from_the_input_and_its_filters_or_from_their_products():
    assert check_input("x", torch.ones(5, 2, 3), torch.ones(4, 7, 3), 4) == (5, 2, 7)
    assert check_input("x", torch.ones(5, 2, 4, 7), None, 4) == (5, 2, 7)
    with pytest.raises(
        ShapeError, match=r"input_weight has shape \(7, 3\); expected \(4, units, 3"
    ):
        check_input("x", torch.ones(5, 2, 3), torch.ones(7, 3), 4)


def test_operands_that_are_missing_or_not_needed_are_named_with_what_needs_them():
    check_operands({"b": (None, (3,), False), "w": (LIKE, (2, 3), True)}, LIKE, "cell")
    with pytest.raises(KindError, match=r"w is None; expected a tensor \(2, 3\) for this cell"):
        check_operands({"w": (None, (2, 3), True)}, LIKE, "cell")
    with pytest.raises(KindError, match=r"w is a tensor \(2, 3\); expected None for this chain"):
        check_operands({"w": (LIKE, (2, 3), False)}, LIKE, "chain")
    with pytest.raises(ShapeError, match=r"w has shape \(2, 3\); expected \(3, 3\)"):
        check_operands({"w": (LIKE, (3, 3), True)}, LIKE, "cell")
