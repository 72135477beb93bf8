"""The backend of a block of code."""

from __future__ import annotations

import pytest
import torch

from representer import nn
from representer.ops import core
from representer.ops.selection import chosen_backend, explain_backend, is_recording, use_backend


def test_outside_of_a_block_nothing_is_chosen():
    assert chosen_backend() is None


def test_the_innermost_block_counts_and_leaving_restores():
    with use_backend("reference"):
        with use_backend("other"):
            assert chosen_backend() == "other"
        with use_backend(None):
            assert chosen_backend() is None
        assert chosen_backend() == "reference"
    assert chosen_backend() is None


def test_an_error_inside_the_block_restores_too():
    with pytest.raises(RuntimeError), use_backend("reference"):
        raise RuntimeError
    assert chosen_backend() is None


def test_it_is_told_which_backend_each_call_took_and_why_not_the_others():
    layer = nn.RKMLSTM(3, 4, num_layers=2)
    with use_backend("reference"):
        first, second = explain_backend(layer, torch.randn(5, 2, 3))
    assert first == second
    assert (first.op, first.backend) == ("rkm_scan", "reference")
    assert str(first).startswith("rkm_scan runs on reference (cpp: ")


def test_a_dtype_that_a_backend_does_not_take_is_the_reason():
    (choice,) = explain_backend(nn.RKMLSTM(3, 4).half(), torch.randn(5, 2, 3).half())
    assert choice.backend == "reference"
    assert core.MISSING or "torch.float16" in choice.obstacles["cpp"]


def test_nothing_is_told_outside():
    explain_backend(nn.CNN(3, 4), torch.randn(5, 2, 3))
    assert not is_recording()
