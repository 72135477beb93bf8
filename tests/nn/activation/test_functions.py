"""Functions that a module calls become modules, if its forward pass is always the traced one."""

from __future__ import annotations

import copy
import warnings

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from representer.nn import KernelActivation, replace_activations
from representer.nn.activation.replace import CalledFunction, call_modules

NAMES = {"relu", "leakyrelu", "gelu", "sigmoid", "tanh", "silu", "elu"}


class Net(nn.Module):
    """Calls activations in each form, and dropout."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second, self.last = nn.Linear(3, 8), nn.Linear(8, 6), nn.Linear(6, 2)

    def forward(self, x):
        x = F.dropout(F.relu(self.first(x)), 0.5, training=self.training)
        x = F.leaky_relu(self.second(x).tanh(), negative_slope=0.3)
        return torch.sigmoid(input=self.last(F.gelu(x, approximate="tanh").relu_()))


X = torch.randn(50, 3, generator=torch.Generator().manual_seed(0), dtype=torch.float64)


def net() -> Net:
    torch.manual_seed(0)
    return Net().double().eval()


def test_every_function_becomes_a_module_with_the_same_values():
    model, expected = net(), net()(X)
    found = call_modules(model, NAMES)
    assert found == ["relu", "tanh", "leaky_relu", "gelu", "relu_", "sigmoid"]
    own = [m for m in model.children() if isinstance(m, CalledFunction)]
    assert len(own) == 6
    assert torch.equal(model(X), expected)
    assert torch.equal(model(x=X), expected)
    assert isinstance(model, Net)
    assert type(model).__name__ == "Net"


def test_a_second_call_changes_nothing():
    model = replace_activations(net(), 9)
    kind, state = type(model), copy.deepcopy(model.state_dict())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        replace_activations(model, 9)
    assert type(model) is kind
    assert list(model.state_dict()) == list(state)


def test_replaced_functions_keep_the_predictions_and_are_learned():
    model, before = net(), net()(X)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert replace_activations(model, 60, X) is model
    own = [m for m in model.modules() if isinstance(m, KernelActivation)]
    assert [m.num_features for m in own] == [8, 6, 6, 6, 6, 2]
    torch.testing.assert_close(model(X), before, rtol=0, atol=0.05)
    model(X).sum().backward()
    assert all(m.coefficients.grad is not None for m in own)


class Optional(nn.Module):
    def forward(self, x, mask=None):
        return F.relu(x if mask is None else x * mask)


class Stores(nn.Module):
    def forward(self, x):
        self.seen = F.relu(x)
        return self.seen


class Noisy(nn.Module):
    def forward(self, x):
        return F.relu(x + torch.randn(3))


class Overwrites(nn.Module):
    def forward(self, x):
        return F.relu(x, inplace=True) + x


class Depends(nn.Module):
    def forward(self, x):
        return F.relu(x) if x.sum() > 0 else x


class OnlyInTraining(nn.Module):
    def forward(self, x):
        return F.relu(x) if self.training else torch.tanh(x)


class OfTensors(nn.Module):
    def forward(self, x):
        return F.leaky_relu(x, x.mean())


@pytest.mark.parametrize(
    "kind", [Optional, Stores, Noisy, Overwrites, Depends, OnlyInTraining, OfTensors]
)
def test_what_a_traced_pass_could_change_stays_as_it_is_and_is_named(kind):
    model = kind()
    assert call_modules(model, NAMES) == []
    assert type(model) is kind
    assert not list(model.children())
    with pytest.warns(UserWarning, match=f"{kind.__name__}: .*relu"):
        replace_activations(model)


def test_a_function_that_a_module_has_as_an_attribute_is_replaced():
    torch.manual_seed(0)
    model = nn.TransformerEncoderLayer(4, 2, 8, dropout=0.0, batch_first=True).eval()  # of F.relu
    x = torch.randn(2, 3, 4)
    before = model(x)
    replace_activations(model, 60, x)
    assert isinstance(model.activation, KernelActivation)
    assert model.activation.num_features == 8
    torch.testing.assert_close(model(x), before, rtol=0, atol=0.05)


def test_a_model_with_replaced_functions_is_compiled_and_traced():
    model = replace_activations(net(), 9)
    expected = model(X)
    torch.testing.assert_close(torch.compile(model, backend="eager", fullgraph=True)(X), expected)
    torch.testing.assert_close(torch.export.export(model, (X,)).module()(X), expected)
