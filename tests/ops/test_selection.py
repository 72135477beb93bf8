"""The backend of a block of code."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
import torch

from representer import nn
from representer.ops import core
from representer.ops.op import chosen_backend, explain_backend, is_recording, use_backend


def test_nested_blocks_restore_the_outer_backend():
    with use_backend("reference"):
        with use_backend("other"):
            assert chosen_backend() == "other"
        with use_backend(None):
            assert chosen_backend() is None
        assert chosen_backend() == "reference"
    assert chosen_backend() is None


def test_an_error_inside_a_block_restores_the_backend():
    with pytest.raises(RuntimeError), use_backend("reference"):
        raise RuntimeError
    assert chosen_backend() is None


def test_explain_backend_reports_the_backend_and_reasons_of_each_call():
    layer = nn.RKMLSTM(3, 4, num_layers=2)
    with use_backend("reference"):
        first, second = explain_backend(layer, torch.randn(5, 2, 3))
    assert first == second
    assert (first.op, first.backend) == ("rkm_scan", "reference")
    assert str(first).startswith("rkm_scan runs on reference (cpp: ")


def test_explain_backend_names_an_unsupported_dtype():
    (choice,) = explain_backend(nn.RKMLSTM(3, 4).half(), torch.randn(5, 2, 3).half())
    assert choice.backend == "reference"
    assert core.MISSING or "torch.float16" in choice.unavailable["cpp"]


def test_nothing_is_recorded_outside_explain_backend():
    explain_backend(nn.CNN(3, 4), torch.randn(5, 2, 3))
    assert not is_recording()


def test_selection_and_recording_are_per_thread():
    layer, x = nn.RKMLSTM(3, 4), torch.randn(5, 2, 3)
    meet = threading.Barrier(2, timeout=60)

    def run(name: str | None) -> tuple[str | None, list[str]]:
        with use_backend(name):
            meet.wait()  # both are inside their blocks
            chosen = chosen_backend()
            recorded = [choice.backend for choice in explain_backend(layer, x)]
            meet.wait()
        return chosen, recorded

    with ThreadPoolExecutor(2) as pool:
        reference, default = pool.map(run, ("reference", None))
    assert reference == ("reference", ["reference"])
    assert default[0] is None
    assert len(default[1]) == 1


def test_calls_of_other_threads_are_not_recorded():
    layer, x = nn.RKMLSTM(3, 4), torch.randn(5, 2, 3)

    class Elsewhere(torch.nn.Module):
        def forward(self, x: torch.Tensor) -> None:
            with ThreadPoolExecutor(1) as pool:
                pool.submit(layer, x).result()

    assert explain_backend(Elsewhere(), x) == []
