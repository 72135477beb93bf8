"""The networks that M18 compares: equations, initial weights, learned parameters."""

from __future__ import annotations

import pytest
import torch

from representer_papers.kbdnn2018.networks import (
    TITLES,
    SigmoidLSTM,
    SigmoidRNN,
    charging_network,
    long_term_network,
)

BITS = torch.randint(0, 2, (5, 9, 1), generator=torch.Generator().manual_seed(0)).float()


@pytest.mark.parametrize("preset", ["paper", "authors_code"])
@pytest.mark.parametrize("cell", [cell for cell in TITLES if cell != "rnn"])
def test_every_network_makes_one_prediction_per_sequence(cell: str, preset: str):
    torch.manual_seed(0)
    network = long_term_network(cell, preset, 4, 6)
    predictions = network(BITS)
    assert predictions.shape == (9,)
    predictions.sum().backward()
    of_f = [p for n, p in network.named_parameters() if "centers" in n or "coefficients" in n]
    assert all((p.grad is None) == cell.startswith("tanh") for p in of_f)
    is_plain = cell.startswith("lstm") and preset == "authors_code"
    assert network.squashes is not is_plain


def test_fixed_units_compute_tanh():
    torch.manual_seed(0)
    f = long_term_network("tanh", "paper").layer.activation()
    x = torch.linspace(-3, 3, 61)[:, None].expand(-1, 20)
    torch.testing.assert_close(f(x), x.tanh(), rtol=0, atol=1e-3)


@pytest.mark.parametrize("cell", ["kbrn-long", "kbrn-long-grown", "tanh-long-grown"])
def test_networks_for_long_sequences_have_orthogonal_recurrent_weights(cell: str):
    torch.manual_seed(0)
    part = long_term_network(cell, "paper").layer
    torch.testing.assert_close(part.weight_hh_l0 @ part.weight_hh_l0.T, torch.eye(20))
    assert part.weight_ih_l0.abs().max() <= 0.6


@pytest.mark.parametrize("preset", ["paper", "authors_code"])
def test_the_green_function_is_the_rectifier_without_its_linear_term(preset: str):
    # M18 section 3: g(x) = -(|x| + x) / 2, "neglect the linear terms"; the code has |x|, too
    for network in (long_term_network("kbrn", preset), charging_network("kbrn")):
        f = network.layer.activation()
        assert f.green == "abs"
        assert not f.coefficients.any()


def test_the_charging_unit_has_unit_weights_and_a_state_without_sigmoid():
    network = charging_network("kbrn")
    part = network.layer
    assert part.weight_ih_l0.item() == part.weight_hh_l0.item() == 1.0
    with torch.no_grad():
        part.activation().coefficients.fill_(0.1)
    x = torch.ones(3, 2, 1)
    output, _ = network.layer(x)
    torch.testing.assert_close(network(x), torch.sigmoid(output[..., 0]))


@pytest.mark.parametrize("cell", ["rnn", "lstm", "lstm-sigmoid"])
def test_other_cells_predict_their_output(cell: str):
    network = charging_network(cell)
    torch.testing.assert_close(network(BITS), network.layer(BITS)[0][..., 0])


def test_sigmoid_cells_follow_their_equations():
    rnn, lstm = SigmoidRNN(1, 1), SigmoidLSTM(1, 1)
    with torch.no_grad():
        for layer in (rnn, lstm):
            for parameter in layer.parameters():
                parameter.fill_(1.0)
    s = torch.sigmoid
    x = torch.tensor([[[2.0]], [[0.0]]])
    h1 = s(torch.tensor(3.0))
    torch.testing.assert_close(rnn(x)[0].flatten(), torch.stack((h1, s(h1 + 1))))
    gate = s(torch.tensor(3.0))
    c = gate * gate
    h = gate * s(c)
    gate2 = s(h + 1)
    c2 = gate2 * c + gate2 * gate2
    torch.testing.assert_close(lstm(x)[0].flatten(), torch.stack((h, gate2 * s(c2))))


def test_forget_biases_are_initialized_to_one():
    biases = long_term_network("lstm-sigmoid", "paper", 3).layer.sums.bias
    assert biases.tolist() == [0.0] * 6 + [1.0] * 3 + [0.0] * 3
    layer = long_term_network("lstm", "paper", 3).layer
    assert layer.biases()["forget"].tolist() == [1.0] * 3
