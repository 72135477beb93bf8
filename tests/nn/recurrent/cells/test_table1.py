"""The rows of L19 Table 1 as constructors."""

from __future__ import annotations

import inspect

import pytest
import torch

from representer import nn
from representer.functional import rkm

ROWS = {
    "LSTM": (rkm.LSTM, 720_000, 1_440_000),
    "RKM-LSTM": (rkm.RKM_LSTM, 720_000, 1_440_000),
    "RKM-CIFG": (rkm.RKM_CIFG, 540_000, 1_080_000),
    "Linear Kernel w/ o_t": (rkm.LINEAR_KERNEL_GATED, 360_000, 720_000),
    "Linear Kernel": (rkm.LINEAR_KERNEL, 180_000, 360_000),
    "Gated CNN": (rkm.GATED_CNN, 180_000, 540_000),
    "CNN": (rkm.CNN, 90_000, 270_000),
}
EVERY_ROW = pytest.mark.parametrize("row", ROWS)
AS_IN_TORCH = ["input_size", "hidden_size", "num_layers", "bias", "batch_first", "dropout"]
AS_IN_TORCH += ["bidirectional"]
OWN = ["filter_length", "dilation", "filters", "layer_norm", "output_nonlinearity", "forget_bias"]


def test_the_rows_have_the_names_and_order_of_the_paper():
    assert list(nn.TABLE1)[: len(ROWS)] == list(ROWS)  # others follow


@EVERY_ROW
@pytest.mark.parametrize("n", [1, 3])
def test_the_numbers_of_parameters_are_those_of_table_2(row: str, n: int):
    """At m = d = 300; biases and norms are not counted (L19 Table 2)."""
    layer = nn.TABLE1[row](300, 300, filter_length=n, layer_norm=True, device="meta")
    counted = [p for p in layer.parameters() if p.dim() > 1]
    assert sum(p.numel() for p in counted) == ROWS[row][1 if n == 1 else 2]
    others = [k for k, p in layer.named_parameters() if p.dim() <= 1]
    assert all("bias" in k or "norm" in k for k in others)


@EVERY_ROW
def test_a_row_builds_its_cell(row: str):
    assert nn.TABLE1[row](3, 4).cell == ROWS[row][0]


@EVERY_ROW
def test_a_row_accepts_every_option_in_the_order_of_torch(row: str):
    parameters = list(inspect.signature(nn.TABLE1[row]).parameters)
    assert parameters[: len(AS_IN_TORCH)] == AS_IN_TORCH
    assert {*OWN, "device", "dtype"} <= set(parameters[len(AS_IN_TORCH) :])
    layer = nn.TABLE1[row](3, 4, 2, True, True, 0.5, True)
    assert layer(torch.zeros(2, 5, 3))[0].shape == (2, 5, 8)
