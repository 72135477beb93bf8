"""Checks of operands: messages name the value, what was expected, and the fix."""

from __future__ import annotations

import pytest
import torch

from representer.errors import KindError, ShapeError
from representer.ops.checks import (
    check_floating,
    check_like,
    dtypes_meet,
    may_need_gradient,
)

LIKE = torch.zeros(2, 3)


def test_a_tensor_that_fits_passes():
    check_like("c0", torch.ones(4), LIKE, (4,))
    check_floating("u", LIKE)


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


def test_a_gradient_may_be_requested_where_autograd_or_vmap_holds_a_tensor():
    plain, marked = torch.zeros(2, 3), torch.zeros(2, 3, requires_grad=True)
    assert not may_need_gradient((None, plain))
    assert may_need_gradient((None, plain, marked))
    with torch.no_grad():
        assert not may_need_gradient((marked,))
    found = []
    torch.vmap(lambda x: found.append(may_need_gradient((x,))) or x)(marked)
    assert found == [True]
