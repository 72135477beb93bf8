"""Functions that a module calls become modules, if its forward pass is always the traced one."""

from __future__ import annotations

import copy
import io
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


def test_training_and_evaluation_keep_their_passes():
    model, other = net().train(), net().train()
    call_modules(model, NAMES)
    for _ in range(2):
        torch.manual_seed(1)
        found = model(X)
        torch.manual_seed(1)
        assert torch.equal(found, other(X))
        model.eval(), other.eval()


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


@pytest.mark.parametrize("how", ["deepcopy", "save"])
def test_copies_have_activations_of_their_own(how):
    model = replace_activations(net(), 9)
    if how == "deepcopy":
        again = copy.deepcopy(model)
    else:
        file = io.BytesIO()
        torch.save(model, file)
        again = torch.load(io.BytesIO(file.getvalue()), weights_only=False)
    assert torch.equal(again(X), model(X))
    expected = model(X)
    with torch.no_grad():
        for parameter in again.parameters():
            parameter.zero_()
    assert torch.equal(model(X), expected)
    assert not torch.equal(again(X), expected)
    assert torch.equal(copy.deepcopy(again)(X), again(X))
    again.load_state_dict(model.state_dict())
    assert torch.equal(again(X), expected)


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


def test_modules_in_modules_are_traced_each_alone():
    model = nn.Sequential(net(), nn.Linear(2, 3).double(), nn.Tanh())
    before = model(X)
    replace_activations(model, 60, X)
    assert sum(isinstance(m, KernelActivation) for m in model.modules()) == 7
    torch.testing.assert_close(model(X), before, rtol=0, atol=0.1)


def test_a_model_with_replaced_functions_is_compiled_and_traced():
    model = replace_activations(net(), 9)
    expected = model(X)
    torch.testing.assert_close(torch.compile(model, backend="eager", fullgraph=True)(X), expected)
    torch.testing.assert_close(torch.export.export(model, (X,)).module()(X), expected)
