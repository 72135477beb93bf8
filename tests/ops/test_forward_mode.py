"""Forward-mode AD is seen, and only inside a level of it."""

from __future__ import annotations

import pytest
from torch.autograd import forward_ad

from representer.errors import BackendError
from representer.ops.forward_mode import check_no_forward_mode, is_forward_mode


def test_a_level_of_forward_mode_is_seen():
    assert not is_forward_mode()
    with forward_ad.dual_level():
        assert is_forward_mode()
    assert not is_forward_mode()


def test_an_operator_inside_a_level_names_its_function():
    check_no_forward_mode("gated_scan_backward")
    message = (
        r"gated_scan_backward has no forward-mode.*representer.ops.gated_scan\(\.\.\., backend"
    )
    with forward_ad.dual_level(), pytest.raises(BackendError, match=message):
        check_no_forward_mode("gated_scan_backward")
