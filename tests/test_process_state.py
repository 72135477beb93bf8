"""A test that leaves process-wide state changed fails, whatever it asserts."""

from __future__ import annotations

import os

import pytest
import torch

from process_state import differences, snapshot


def test_unchanged_state_has_no_differences() -> None:
    torch.rand(3)
    assert differences(snapshot(), snapshot()) == []


def test_a_variable_is_named_without_the_rest_of_the_environment(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    before = snapshot()
    monkeypatch.setitem(os.environ, "LEFT_BEHIND", "1")
    (line,) = differences(before, snapshot())
    assert line == "os.environ: was {'LEFT_BEHIND': None}, is {'LEFT_BEHIND': '1'}"
