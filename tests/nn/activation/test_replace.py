"""Learned activations are initialized as the functions that they replace in a model."""

from __future__ import annotations

import pytest
import torch
from torch import nn

from representer.nn import (
    KernelActivation,
    activation_groups,
    activation_penalty,
    replace_activations,
)


def own(network):
    return [m for m in network.modules() if isinstance(m, KernelActivation)]


def test_neurons_share_one_function_unless_an_example_input_gives_their_number():
    network = nn.Sequential(nn.Linear(3, 8), nn.Tanh())
    replace_activations(network)
    assert own(network)[0].num_features == 1
    assert network(torch.zeros(2, 5, 3)).shape == (2, 5, 8)


def test_channels_of_images_have_a_function_each():
    network = nn.Sequential(nn.Conv2d(1, 6, 3), nn.ReLU(inplace=True), nn.Conv2d(6, 2, 3))
    x = torch.randn(2, 1, 8, 8)
    before = network(x)
    replace_activations(network, example_input=x)
    (activation,) = own(network)
    assert (activation.num_features, activation.dim) == (6, 1)
    torch.testing.assert_close(network(x), before, rtol=0, atol=1e-4)


@pytest.mark.parametrize(
    ("network", "shape", "features", "dim"),
    [
        (nn.Conv1d(1, 8, 5), (4, 1, 100), 8, 1),
        (nn.Conv1d(1, 8, 5), (1, 100), 8, 0),  # unbatched
        (nn.Sequential(nn.Conv1d(1, 8, 5), nn.BatchNorm1d(8)), (4, 1, 100), 8, 1),
        (nn.Sequential(nn.Conv1d(1, 8, 5), nn.MaxPool1d(2)), (4, 1, 100), 8, 1),
        (nn.ConvTranspose1d(1, 8, 5), (4, 1, 100), 8, 1),
        (nn.Conv3d(1, 5, 2), (2, 1, 4, 4, 4), 5, 1),
        (nn.Linear(3, 7), (2, 10, 3), 7, -1),
        (nn.Linear(3, 7), (2, 10, 11, 3), 7, -1),  # channels last
        (nn.Sequential(nn.Conv1d(1, 8, 5), nn.Flatten()), (4, 1, 9), 40, -1),
    ],
    ids=str,
)
def test_channels_have_a_function_each_for_any_length(network, shape, features, dim):
    torch.manual_seed(0)  # of 40 draws, one is 2e-4 off where the inputs are largest
    for module in network.modules():
        if hasattr(module, "reset_parameters"):
            module.reset_parameters()
    network = nn.Sequential(network, nn.ReLU())
    x = torch.randn(shape)
    before = network(x)
    replace_activations(network, example_input=x)
    (activation,) = own(network)
    assert (activation.num_features, activation.dim) == (features, dim)
    torch.testing.assert_close(network(x), before, rtol=0, atol=1e-4)
    if isinstance(network[0], nn.Conv1d):
        network(torch.cat((x, x), dim=-1))


class WithFunctions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear, self.relu = nn.Linear(2, 2), nn.ReLU()

    def forward(self, x):
        return self.relu(self.hidden(x))

    def hidden(self, x):
        return nn.functional.leaky_relu(self.linear(x))

    def other(self, x):
        return torch.tanh(self.hidden(x))


def test_activations_that_forward_does_not_call_are_named():
    with pytest.warns(UserWarning, match="WithFunctions: tanh is not changed"):
        network = replace_activations(WithFunctions())
    assert len(own(network)) == 2


def test_a_shared_activation_stays_shared():
    shared = nn.Tanh()
    network = nn.Sequential(nn.Linear(3, 4), shared, nn.Linear(4, 4), shared, nn.Linear(4, 7))
    replace_activations(network, example_input=torch.zeros(2, 3))
    assert network[1] is network[3]
    assert own(network)[0].num_features == 4
    widths = nn.Sequential(nn.Linear(3, 4), shared, nn.Linear(4, 5), shared)
    replace_activations(widths, example_input=torch.zeros(2, 3))
    assert own(widths)[0].num_features == 1


def test_the_example_input_does_not_change_running_statistics():
    network = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU()).train()
    replace_activations(network, example_input=torch.randn(9, 3))
    assert network[1].num_batches_tracked == 0
    assert network.training


def test_frozen_parts_of_a_network_in_training_stay_frozen():
    network = nn.Sequential(nn.Linear(3, 4), nn.BatchNorm1d(4), nn.ReLU()).train()
    network[1].eval()
    replace_activations(network, example_input=torch.randn(9, 3))
    assert [module.training for module in network] == [True, False, True]


def test_a_transformer_uses_the_learned_activation_in_inference_too():
    torch.manual_seed(0)
    options = {"activation": nn.ReLU(), "dropout": 0.0, "batch_first": True}
    network = nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, **options), 1).eval()
    x, is_padding = torch.randn(2, 3, 4), torch.tensor([[False] * 3, [False, False, True]])
    replace_activations(network, example_input=x)
    with torch.no_grad():
        own(network)[0].coefficients.mul_(-1)
        found = [network(x), network(x, src_key_padding_mask=is_padding)[~is_padding]]
    wanted = [network(x), network(x, src_key_padding_mask=is_padding)[~is_padding]]
    torch.testing.assert_close(found, wanted)


def test_options_are_passed_on():
    network = nn.Sequential(nn.Linear(2, 3), nn.ReLU())
    replace_activations(
        network, 7, torch.zeros(1, 2), green="gaussian", bandwidth=0.5, limits=(-2.0, 2.0)
    )
    (activation,) = own(network)
    assert (activation.green, activation.bandwidth, activation.limits) == ("gaussian", 0.5, (-2, 2))
    assert activation.line is None


def test_groups_partition_the_parameters_and_penalties_are_summed():
    network = nn.Sequential(nn.Linear(2, 3), KernelActivation(3, normalize=True), nn.Linear(3, 1))
    rest, shapes = activation_groups(network, lr=0.5, weight_decay=0.0)
    assert {id(p) for g in (rest, shapes) for p in g["params"]} == {
        id(p) for p in network.parameters()
    }
    assert [p.shape for p in shapes["params"]] == [(3, 20)] * 2
    assert (shapes["lr"], shapes["weight_decay"]) == (0.5, 0.0)
    torch.optim.Adam([rest, shapes], 0.1)
    assert "lr" not in activation_groups(network)[1]
    torch.testing.assert_close(activation_penalty(network), own(network)[0].penalty())
    assert activation_penalty(nn.Linear(1, 1)).item() == 0


def test_activations_with_weights_noise_or_a_jump_stay_and_are_named():
    model = nn.Sequential(nn.Linear(3, 4), nn.PReLU(), nn.Threshold(0.1, 0.0), nn.Softshrink())
    with pytest.warns(UserWarning, match="^PReLU, Threshold is not changed"):
        replace_activations(model, example_input=torch.zeros(2, 3))
    assert isinstance(model[1], nn.PReLU)
    assert isinstance(model[3], KernelActivation)


def squashed(x):
    return helper(x) + x.sigmoid()


helper = torch.nn.functional.silu  # by another name


class Hidden(nn.Module):
    """Calls activations by another name, in a function, and by a method."""

    def __init__(self, depends_on_values=False):
        super().__init__()
        self.linear = nn.Linear(2, 2)
        self.relu = nn.ReLU()
        self.depends_on_values = depends_on_values
        self.last = None

    def forward(self, x):
        self.last = squashed(self.relu(self.linear(x)))
        if self.depends_on_values and self.last.sum() > 0:
            return self.last.tanh()
        return self.last


def test_activations_behind_other_names_and_functions_are_named():
    model = Hidden()
    with pytest.warns(UserWarning, match=r"Hidden: (silu|sigmoid), Hidden: (silu|sigmoid) is not"):
        replace_activations(model, example_input=torch.randn(3, 2))
    assert isinstance(model.relu, KernelActivation)
    assert isinstance(model.last, torch.Tensor)  # of the example, and no proxy
    with pytest.warns(UserWarning, match="Hidden: tanh"):  # by its name in the code
        replace_activations(Hidden(depends_on_values=True))
