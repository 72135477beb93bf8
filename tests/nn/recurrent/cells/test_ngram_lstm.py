"""The n-gram LSTM against torch.nn.LSTM."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor
from torch.nn.utils.rnn import PackedSequence, pack_sequence

from representer.nn import NgramLSTM

from ..layers import HIDDEN, INPUT, batch, build

TORCH_ORDER = ("input", "forget", "candidate", "output")


def torch_twin(layer: NgramLSTM) -> torch.nn.LSTM:
    """Return a torch.nn.LSTM with the layer's weights; its second bias is 0."""
    twin = torch.nn.LSTM(
        layer.input_size, layer.hidden_size, layer.num_layers, batch_first=layer.batch_first,
        bidirectional=layer.bidirectional, dtype=torch.float64,
    )  # fmt: skip
    weights = {}
    for k in range(layer.num_layers):
        for reverse in (False, True)[: layer.num_directions]:
            end = f"l{k}{'_reverse' * reverse}"
            filters, recurrent = layer.filters(k, reverse), layer.recurrent(k, reverse)
            biases = layer.biases(k, reverse)
            weights[f"weight_ih_{end}"] = torch.cat([filters[g][..., 0] for g in TORCH_ORDER])
            weights[f"weight_hh_{end}"] = torch.cat([recurrent[g] for g in TORCH_ORDER])
            weights[f"bias_ih_{end}"] = torch.cat([biases[g] for g in TORCH_ORDER])
            weights[f"bias_hh_{end}"] = torch.zeros_like(weights[f"bias_ih_{end}"])
    twin.load_state_dict(weights)
    return twin


def test_packed_bidirectional_stacked_layers_match_torch_in_values_and_gradients():
    layer = build("LSTM", num_layers=2, bidirectional=True, forget_bias=1.0)
    assert isinstance(layer, NgramLSTM)
    twin = torch_twin(layer)
    sequences = [torch.randn(t, INPUT, dtype=torch.float64) for t in (3, 7, 1, 5)]
    start = [torch.randn(4, 4, HIDDEN, dtype=torch.float64) for _ in range(2)]
    found = []
    for module in (layer, twin):
        leaves = [s.clone().requires_grad_() for s in sequences]
        h, c = (x.clone().requires_grad_() for x in start)
        output, state = module(pack_sequence(leaves, enforce_sorted=False), (h, c))
        assert isinstance(output, PackedSequence)
        weight = torch.linspace(-1, 1, output.data.numel(), dtype=torch.float64)
        loss = (output.data.flatten() * weight).sum() + state[0].square().sum() + state[1].sum()
        loss.backward()
        found.append(
            [output.data, state[0], state[1], h.grad, c.grad, *(leaf.grad for leaf in leaves)]
        )
    torch.testing.assert_close(*found)
    for k in range(2):
        for end in ("", "_reverse"):
            for own, name in (("weight_ih",) * 2, ("weight_hh",) * 2, ("bias", "bias_ih")):
                expected = twin.get_parameter(f"{name}_l{k}{end}").grad
                assert expected is not None
                by_gate = dict(zip(TORCH_ORDER, expected.chunk(4), strict=True))
                torch.testing.assert_close(
                    layer.get_parameter(f"{own}_l{k}{end}").grad,
                    torch.cat([by_gate[gate] for gate in layer.cell.gates]),
                )


def test_the_layer_is_a_drop_in_replacement_in_code_that_passes_h_and_c():
    layer = build("LSTM")
    assert isinstance(layer, NgramLSTM)
    x = batch()

    def greedy(module: torch.nn.Module) -> Tensor:
        output, (h, c, *_) = module(x)
        for _ in range(3):
            output, (h, c, *_) = module(output[..., :INPUT], (h, c))
        return output

    torch.testing.assert_close(greedy(layer), greedy(torch_twin(layer)))


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("bidirectional", [True, False])
def test_from_torch_matches_the_torch_lstm(bias, bidirectional):
    lstm = torch.nn.LSTM(
        3, 4, 2, bias, batch_first=True, bidirectional=bidirectional, dtype=torch.float64
    ).eval()
    copy = NgramLSTM.from_torch(lstm)
    x = torch.randn(2, 5, 3, dtype=torch.float64)
    (ours, state), (theirs, (h, c)) = copy(x), lstm(x)
    torch.testing.assert_close((ours, state.h, state.c), (theirs, h, c))
    assert not copy.training
    assert copy.weight_hh_l0.data_ptr() != lstm.weight_hh_l0.data_ptr()


def test_from_torch_rejects_projections():
    with pytest.raises(ValueError, match=r"proj_size is 2; expected 0"):
        NgramLSTM.from_torch(torch.nn.LSTM(3, 4, proj_size=2))
