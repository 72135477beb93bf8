"""Checks of operands: messages name the value, what was expected, and the fix."""

from __future__ import annotations

import pytest
import torch
from torch.autograd import forward_ad

from representer.errors import BackendError, KindError, ShapeError
from representer.ops.common import (
    check_floating,
    check_like,
    check_no_forward_mode,
    dtypes_meet,
    is_forward_mode,
    may_need_gradient,
)

LIKE = torch.zeros(2, 3)


def test_a_valid_tensor_passes_the_checks():
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
    assert str(error.value).startswith("c0 is on meta; expected cpu. Use c0.to('cpu').")


def test_under_autocast_dtypes_may_differ_but_shapes_may_not():
    with torch.autocast("cpu", torch.bfloat16):
        check_like("c0", torch.ones(2, 3).bfloat16(), LIKE, (2, 3))
        with pytest.raises(ShapeError):
            check_like("c0", torch.ones(3, 2).bfloat16(), LIKE, (2, 3))


def test_under_autocast_float64_still_has_to_match():
    single, double = torch.ones(2), torch.ones(2).double()
    with torch.autocast("cpu", torch.bfloat16):
        assert dtypes_meet(double, double)
        for tensor, like in ((single, double), (double, single)):
            assert not dtypes_meet(tensor, like)
            with pytest.raises(KindError, match=r"expected torch.float"):
                check_like("c0", tensor, like, (2,))


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool, torch.complex64])
def test_only_real_floating_point_dtypes_are_accepted(dtype: torch.dtype):
    with pytest.raises(KindError, match=f"u is {dtype}; expected a floating-point dtype"):
        check_floating("u", torch.zeros(2, dtype=dtype))


def test_gradients_may_be_needed_with_autograd_or_vmap():
    plain, marked = torch.zeros(2, 3), torch.zeros(2, 3, requires_grad=True)
    assert not may_need_gradient((None, plain))
    assert may_need_gradient((None, plain, marked))
    with torch.no_grad():
        assert not may_need_gradient((marked,))
    found = []
    torch.vmap(lambda x: found.append(may_need_gradient((x,))) or x)(marked)
    assert found == [True]


def test_forward_mode_is_detected_only_inside_a_level():
    assert not is_forward_mode()
    with forward_ad.dual_level():
        assert is_forward_mode()
    assert not is_forward_mode()


def test_the_error_inside_forward_mode_names_the_public_function():
    check_no_forward_mode("gated_scan_backward")
    message = (
        r"gated_scan_backward has no forward-mode.*representer.ops.gated_scan\(\.\.\., backend"
    )
    with forward_ad.dual_level(), pytest.raises(BackendError, match=message):
        check_no_forward_mode("gated_scan_backward")
