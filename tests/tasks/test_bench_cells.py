"""The benchmark of the cells."""

from __future__ import annotations

import pytest
import torch

from representer.nn import TABLE1
from representer.tasks.bench_cells import bench_cells

SIZES = {"length": 2, "batch_size": 2, "input_size": 3, "hidden_size": 4, "repeats": 1}


@pytest.mark.parametrize("forward_only", [False, True])
def test_every_cell_has_a_row_beside_the_peer(forward_only):
    text = bench_cells(**SIZES, forward_only=forward_only)
    rows = [line.split(" | ")[0].strip("| ") for line in text.splitlines() if line[:2] == "| "]
    assert rows == ["what", "torch.nn.LSTM", *TABLE1]
    assert text.startswith("forward, " if forward_only else "forward and backward, ")
    assert "(T, B, m, d) = (2, 2, 3, 4)" in text


def test_the_threads_are_those_requested():
    before = torch.get_num_threads()
    try:
        assert "1 threads" in bench_cells(**SIZES, threads=1)
    finally:
        torch.set_num_threads(before)
