"""The recipe of parity: training, penalty, table and figure."""

from __future__ import annotations

import pytest
import torch

from representer_papers.kbdnn2018.networks import (
    CHARGES,
    FUNCTIONS,
    TITLES,
    SigmoidLSTM,
    SigmoidRNN,
    charging,
    charging_network,
    long_term_network,
    two_bits,
)
from representer_papers.kbdnn2018.xor import ParitySetting, train_parity
from representer_papers.shared.tables import one_thread


def flushes():
    """Say whether the processor takes numbers too small to be normal for 0."""
    return torch.full((1,), 1e-310, dtype=torch.float64).mul(1.0).item() == 0


@pytest.mark.slow
def test_one_unit_learns_parity_and_the_penalty_removes_coefficients():
    plain = train_parity(ParitySetting(2, 50, 0.0, 1, 600))
    assert plain["solved"] is not None
    assert plain["solved"] < 600
    assert plain["error"] < 0.01
    penalized = train_parity(ParitySetting(2, 50, 0.05, 1, 600))
    assert penalized["large"] < plain["large"]
    assert penalized["variation"] < plain["variation"]


def test_a_run_with_wrong_final_outputs_is_not_solved():
    assert train_parity(ParitySetting(4, 5, 0.0, 0, 3))["solved"] is None


@pytest.mark.skipif(not torch.set_flush_denormal(False), reason="this processor cannot")
def test_one_thread_restores_threads_and_denormals_even_after_an_error():
    before = torch.get_num_threads()
    torch.set_num_threads(2)
    try:
        with one_thread():
            assert flushes()
            assert torch.get_num_threads() == 1
        assert not flushes()
        assert torch.get_num_threads() == 2
        with pytest.raises(ZeroDivisionError), one_thread():
            raise ZeroDivisionError
        assert not flushes()
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(before)


# The problems of M18 section 4.


@pytest.mark.parametrize("preset", CHARGES)
def test_a_charge_lasts_as_many_steps_as_its_size(preset: str):
    x, y = charging(300, preset, torch.Generator().manual_seed(0))
    assert x.shape == (30, 300, 1)
    assert set(x.unique().tolist()) - {0.0} == set(
        range(max(1, CHARGES[preset][0]), CHARGES[preset][1] + 1)
    )
    assert (x > 0).sum(0).max() == 3
    for b in range(300):
        left = 0
        for t in range(30):
            left = int(x[t, b]) + max(0, left - 1)
            assert y[t, b] == (left > 0)


@pytest.mark.parametrize("function", FUNCTIONS)
def test_the_target_is_a_function_of_the_first_two_bits(function: str):
    x, y = two_bits(function, 7, 400, torch.Generator().manual_seed(0))
    assert x.shape == (7, 400, 1)
    python = {"or": lambda a, b: a or b, "and": lambda a, b: a and b,
              "xor": lambda a, b: a != b, "iff": lambda a, b: a == b}[function]  # fmt: skip
    wanted = [python(bool(a), bool(b)) for a, b in x[:2, :, 0].T.tolist()]
    assert y.tolist() == [float(w) for w in wanted]
    assert 0.4 < x.mean() < 0.6


# The networks that M18 compares: equations, initial weights, learned parameters.


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
