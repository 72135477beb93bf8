"""Checks of the options of layers."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from representer import nn
from representer.checks import check_integer
from representer.errors import ArgumentError, KindError
from representer.nn.checks import check_flag, check_probability


def test_valid_values_are_returned():
    assert check_integer("n", 3) == 3
    assert check_probability("p", 1) == 1.0
    assert check_probability("p", np.float32(0.5)) == 0.5
    values = (True, False, 1, 0, np.bool_(True))
    assert [check_flag("n", value) for value in values] == [True, False, True, False, True]


@pytest.mark.parametrize(
    ("check", "value", "message"),
    [
        (check_integer, 0, "n is 0; expected a positive integer"),
        (check_integer, True, "n is True; expected a positive integer"),
        (lambda name, value: check_integer(name, value, 0), -1, "an integer of at least 0"),
        (lambda name, value: check_integer(name, value, 2, 4), 5, "an integer from 2 to 4"),
        (check_probability, 1.5, "n is 1.5; expected a number from 0 to 1"),
        (check_probability, False, "n is False; expected a number from 0 to 1"),
        (check_flag, "False", "n is 'False'; expected True or False"),
        (check_flag, 2, "n is 2; expected True or False"),
        (check_flag, 1.0, "n is 1.0; expected True or False"),
        (check_flag, None, "n is None; expected True or False"),
    ],
)
def test_other_values_are_named(check: Any, value: Any, message: str):
    with pytest.raises(ArgumentError, match=message):
        check("n", value)


@pytest.mark.parametrize(
    "layer", [nn.RKMCIFG(3, 4), nn.KBRN(3, 4), nn.CNN(3, 4), nn.KernelActivation(3)],
    ids=lambda layer: type(layer).__name__,
)  # fmt: skip
def test_inputs_that_are_no_dense_tensors_are_refused(layer: torch.nn.Module):
    parts = [torch.ones(2, 3), torch.ones(4, 3)]
    for value, message in (
        (torch.ones(5, 2, 3).to_sparse(), "torch.sparse_coo; expected a dense tensor"),
        (torch.nested.as_nested_tensor(parts, layout=torch.jagged), "a nested tensor; expected"),
        ([[1.0, 2.0, 3.0]], "input is list; expected a tensor"),
    ):
        with pytest.raises(KindError, match=message):
            layer(value)


def test_another_layer_of_torch_is_no_lstm():
    with pytest.raises(KindError, match=r"lstm is GRU; expected a torch.nn.LSTM"):
        nn.NgramLSTM.from_torch(torch.nn.GRU(3, 4))  # type: ignore[arg-type]
