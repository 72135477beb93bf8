"""The registry of cells."""

from __future__ import annotations

import pytest
import torch

from representer import nn
from representer.errors import ArgumentError
from representer.models import CELLS, build_cell, resolve_cell


def test_every_row_of_table_1_has_a_name() -> None:
    assert set(nn.TABLE1.values()) <= set(CELLS.values())


@pytest.mark.parametrize("name", CELLS)
def test_every_cell_accepts_batch_first_and_returns_its_units(name: str) -> None:
    output, _ = build_cell(name, 3, 4, {"bidirectional": True})(torch.randn(2, 5, 3))
    assert output.shape == (2, 5, 8)


@pytest.mark.parametrize(
    ("wrong", "right"),
    [("rkm-cfig", "rkm-cifg"), ("RKM_LSTM", "rkm-lstm"), ("Gated CNN", "gated-cnn")],
)
def test_the_error_for_a_misspelled_cell_suggests_the_closest_name(wrong: str, right: str) -> None:
    with pytest.raises(ArgumentError, match=f"Did you mean {right!r}"):
        resolve_cell(wrong)


def test_the_error_for_an_unknown_cell_lists_all_cells() -> None:
    with pytest.raises(ArgumentError, match=r"expected one of lstm, rkm-lstm, .*torch-lstm\.$"):
        resolve_cell("transformer")


@pytest.mark.parametrize(
    ("cell", "option", "value"),
    [
        ("torch-lstm", "layer_norm", True), ("torch-lstm", "filter_length", 3),
        ("rkm", "forget_bias", 1.0), ("lstm", "learn_static_gates", True),
        ("string-kernel", "layer_norm", True), ("string-kernel", "filter_length", 3),
        ("rkm-cifg", "order", 3), ("rkm-cifg", "decay", "input"),
    ],
)  # fmt: skip
def test_an_option_that_a_cell_does_not_have_is_rejected(
    cell: str, option: str, value: object
) -> None:
    with pytest.raises(ArgumentError, match=f"{option} is {value!r}.*{cell!r} has no such option"):
        build_cell(cell, 3, 4, {option: value})


def test_learned_static_gates_are_passed_to_the_linear_kernel() -> None:
    cell = build_cell("linear-kernel", 3, 4, {"learn_static_gates": True})
    fixed = build_cell("linear-kernel", 3, 4, {})
    count = [sum(p.numel() for p in c.parameters()) for c in (cell, fixed)]
    assert count[0] > count[1]


def test_order_and_decay_are_passed_to_the_string_kernel() -> None:
    cell = build_cell("string-kernel", 3, 4, {"order": 3, "decay": "input"})
    assert isinstance(cell, nn.StringKernelRNN)
    assert (cell.order, cell.decay) == (3, "input")
    usual = build_cell("string-kernel", 3, 4, {"order": 2, "decay": 0.5})
    assert isinstance(usual, nn.StringKernelRNN)
    assert (usual.order, usual.decay) == (2, 0.5)


def test_every_option_is_passed_to_torch_lstm() -> None:
    options = {"num_layers": 2, "dropout": 0.3, "bidirectional": True}
    cell = build_cell("torch-lstm", 3, 4, options, batch_first=False)
    assert isinstance(cell, torch.nn.LSTM)
    assert (cell.num_layers, cell.dropout, cell.bidirectional) == (2, 0.3, True)
    assert (cell.input_size, cell.hidden_size, cell.bias, cell.batch_first) == (3, 4, True, False)
