"""Constructor options of a layer: their repr and checks."""

from __future__ import annotations

import inspect
import pydoc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from representer import nn
from representer.errors import ArgumentError
from representer.kernels import StringKernel

from .layers import build

SHOWN: list[tuple[Callable[[], torch.nn.Module], str]] = [
    (lambda: nn.RKMLSTM(3, 4), "RKMLSTM(3, 4)"),
    (
        lambda: nn.RKMLSTM(3, 4, 2, False, True, 0.5, True),
        "RKMLSTM(3, 4, num_layers=2, bias=False, batch_first=True, dropout=0.5, "
        "bidirectional=True)",
    ),
    (
        lambda: nn.RKMCIFG(3, 4, filter_length={1: 3, 2: 1}, dilation=2, layer_norm=True),
        "RKMCIFG(3, 4, filter_length={1: 3, 2: 1}, dilation=2, layer_norm=True)",
    ),
    (
        lambda: nn.RAN(3, 4, zoneout=0.1, weight_drop=0.2, variational_dropout=0.3),
        "RAN(3, 4, weight_drop=0.2, variational_dropout=0.3, zoneout=(0.1, 0.1))",
    ),
    (
        lambda: nn.RKMLSTM(3, 4, output_nonlinearity="tanh", forget_bias=1.0),
        "RKMLSTM(3, 4, forget_bias=1.0, output_nonlinearity='tanh')",
    ),
    (lambda: nn.CNN(3, 4, output_nonlinearity=torch.sin), "CNN(3, 4, output_nonlinearity='sin')"),
    (
        lambda: nn.LinearKernelRNN(3, 4, output_gate=False, static_gates=(0.1, 0.2)),
        "LinearKernelRNN(3, 4, output_gate=False, static_gates=(0.1, 0.2))",
    ),
    (lambda: nn.RKM(3, 4, q="inverse", feedback=False), "RKM(3, 4, q='inverse', feedback=False)"),
    (lambda: nn.RKM(3, 4, q=torch.nn.Tanh()), "RKM(3, 4, q='Tanh')"),
    (
        lambda: nn.StringKernelRNN(4, 4, order=3, decay="input", highway=True, hidden_dropout=0.2),
        "StringKernelRNN(4, 4, order=3, decay='input', highway=True, hidden_dropout=0.2)",
    ),
    (lambda: nn.StringKernelRNN(3, 4), "StringKernelRNN(3, 4)"),
]  # fmt: skip


@pytest.mark.parametrize(("layer", "shown"), SHOWN, ids=[shown for _, shown in SHOWN])
def test_the_repr_shows_options_that_differ_from_defaults(
    layer: Callable[[], torch.nn.Module], shown: str
):
    assert repr(layer()) == shown


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"output_nonlinearity": "tan"}, r"output_nonlinearity is 'tan'; expected one of .*tanh"),
        ({"output_nonlinearity": 3}, "output_nonlinearity is 3; expected a name, a callable"),
        ({"num_layers": 0}, "num_layers is 0; expected a positive integer"),
        ({"num_layers": True}, "num_layers is True; expected a positive integer"),
        ({"dilation": 0}, "dilation is 0; expected a positive integer"),
        ({"dropout": 2}, "dropout is 2; expected a number from 0 to 1"),
        ({"dropout": -0.1}, "dropout is -0.1; expected a number from 0 to 1"),
        ({"weight_drop": float("nan")}, "weight_drop is nan; expected a number from 0 to 1"),
        ({"variational_dropout": "0.5"}, "variational_dropout is '0.5'; expected a number"),
        ({"zoneout": 1.5}, "zoneout is 1.5; expected a number from 0 to 1"),
        ({"zoneout": (0.1, -1)}, "zoneout is -1; expected a number from 0 to 1"),
        ({"zoneout": (0.1,)}, r"zoneout is \(0.1,\); expected one number, or a pair"),
        ({"filter_length": 0}, "filter_length is 0; expected a positive integer, or a dict"),
        ({"filter_length": {1: 1, 2: 1}}, "sum to hidden_size = 4. They sum to 2"),
        ({"filter_length": {1: 4, 2: 0}}, "units that sum to hidden_size = 4"),
        ({"filter_length": {1: "4"}}, "units that sum to hidden_size = 4"),
    ],
    ids=lambda value: str(value)[:30],
)
def test_errors_for_options_out_of_range_name_the_range(options: dict[str, Any], message: str):
    with pytest.raises(ArgumentError, match=message):
        build("RKM-LSTM", **options)


@pytest.mark.parametrize("size", [0, -1, 2.0, "3", True, None])
@pytest.mark.parametrize("name", ["input_size", "hidden_size"])
def test_a_size_must_be_a_positive_integer(name: str, size: Any):
    sizes = {"input_size": 3, "hidden_size": 4, name: size}
    with pytest.raises(ArgumentError, match=f"{name} is {size!r}; expected a positive integer"):
        nn.RKMLSTM(**sizes)


@pytest.mark.parametrize("name", ["CNN", "Gated CNN"])
def test_zoneout_is_rejected_for_cells_without_memory(name: str):
    with pytest.raises(ArgumentError, match=r"zoneout is \(0.1, 0.1\).*no state to keep"):
        build(name, zoneout=0.1)


SIGNATURES = {
    **nn.TABLE1,
    "RAN": nn.RAN,
    "RKM": nn.RKM,
    "strings": nn.StringKernelRNN,
    "KBRN": nn.KBRN,
}


@pytest.mark.parametrize("name", SIGNATURES)
def test_a_signature_shows_every_option_with_type_and_default(name: str):
    constructor = getattr(SIGNATURES[name], "func", SIGNATURES[name])
    parameters = inspect.signature(constructor).parameters
    assert not [p for p in parameters.values() if p.kind is p.VAR_KEYWORD]
    assert list(parameters)[:2] == ["input_size", "hidden_size"]
    assert list(parameters)[-2:] == ["device", "dtype"]
    optional = {
        n: p.default for n, p in parameters.items() if n not in ("input_size", "hidden_size")
    }
    explicit = {n: v for n, v in optional.items() if n != "self"}
    assert repr(constructor(3, 4, **explicit)) == repr(constructor(3, 4))
    for option in parameters:
        assert option in pydoc.render_doc(constructor)


@pytest.mark.parametrize("name", SIGNATURES)
def test_an_unknown_option_is_a_type_error(name: str):
    problem = "got an unexpected keyword argument 'hiden_size'; did you mean 'hidden_size'"
    with pytest.raises(TypeError, match=problem):
        SIGNATURES[name](3, 4, hiden_size=2)


def test_an_option_of_another_library_says_what_exists_instead():
    with pytest.raises(TypeError, match=r"'proj_size'; add a torch\.nn\.Linear after the layer$"):
        nn.RKMLSTM(3, 4, proj_size=2)
    with pytest.raises(TypeError, match=r"'lam'; its arguments are order, decay, "):
        StringKernel(2, lam=0.5)
    with pytest.raises(TypeError, match=r"'activation'$"):  # and not dilation
        nn.RKMLSTM(3, 4, activation="tanh")
    for option, name in (("out_channels", "hidden_channels"), ("edge_channels", "edge_dim")):
        with pytest.raises(TypeError, match=f"did you mean '{name}'"):
            nn.WLKernelNN(3, 4, **{option: 4})


def test_options_that_rkm_does_not_have_are_rejected_by_name():
    for option in ("forget_bias", "output_nonlinearity"):
        with pytest.raises(TypeError, match=option):
            nn.RKM(3, 4, **{option: 1})


def test_rkm_takes_the_positional_arguments_of_an_lstm_except_a_bias():
    assert nn.RKM(3, 4, 1, False, True).batch_first
    with pytest.raises(ArgumentError, match=r"bias is True; expected False.*order of torch.nn"):
        nn.RKM(3, 4, 1, True, True)


@pytest.mark.parametrize("name", SIGNATURES)
def test_a_flag_that_is_not_a_bool_is_rejected(name: str):
    build = SIGNATURES[name]
    parameters = inspect.signature(build).parameters.items()
    flags = [option for option, p in parameters if isinstance(p.default, bool)]
    assert {"batch_first", "bidirectional"} <= set(flags)
    for option in flags:
        for value in ("False", 2, None):
            with pytest.raises(ArgumentError, match=f"{option} is {value!r}; expected"):
                build(3, 4, **{option: value})


def test_a_flag_may_be_1_and_a_dropout_of_numpy_as_in_torch():
    flags = {"bidirectional": 1, "batch_first": np.bool_(True)}
    layer = nn.RKMLSTM(3, 4, 2, dropout=np.float32(0.5), **flags)
    assert layer.bidirectional is True
    assert layer.batch_first is True
    assert layer.dropout == 0.5
    x = torch.randn(2, 5, 3)
    assert layer(x)[0].shape == (2, 5, 8)
    assert "bidirectional=True" in repr(layer)
    assert nn.StringKernelRNN(3, 4, decay=np.float32(0.25)).decay == 0.25
