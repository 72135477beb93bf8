"""Names and shapes of parameters follow torch.nn, so that code for ``nn.LSTM`` applies."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import nn as torch_nn

from representer import nn

from .modules import SEQUENCES

SIZE = 64
CELLS = (nn.NgramLSTM, nn.RKMLSTM, nn.RKMCIFG, nn.RAN, nn.LinearKernelRNN, nn.RKM)
LAYERS: dict[str, Callable[[], torch_nn.Module]] = {
    **SEQUENCES,
    "mixed lengths": partial(nn.RKMCIFG, 3, 4, filter_length={1: 2, 2: 2}, bidirectional=True),
    "embedding dropout": nn.EmbeddingDropout,
    "activation": partial(nn.KernelActivation, 3, linear_term=True, normalize=True),
}


@pytest.mark.parametrize("name", LAYERS)
def test_no_bias_norm_or_decay_has_more_than_one_dimension_and_no_weight_more_than_two(name: str):
    for key, parameter in LAYERS[name]().named_parameters():
        assert parameter.dim() <= 2 or key.endswith("coefficients"), key  # of functions on edges
        is_vector = ("bias", "norm", "decay", "logit", "frequency")
        assert parameter.dim() == 1 or not any(word in key for word in is_vector), key


GRAPHS = ("RandomWalkKernelNN", "WLKernelNN", "DeepGraphKernelNN")


@pytest.mark.parametrize("name", GRAPHS)
def test_a_graph_layer_has_only_matrices_and_vectors(name: str):
    pytest.importorskip("torch_geometric")
    for decay in ("gated", "learned"):
        layer = getattr(nn, name)(3, 4, order=3, decay=decay, edge_dim=2)
        for key, parameter in layer.named_parameters():
            is_vector = any(word in key for word in ("bias", "logit"))
            assert parameter.dim() == (1 if is_vector else 2), key


@pytest.mark.parametrize("decay", ["gated", "state", "learned"])
def test_a_layer_of_trees_has_only_matrices_and_vectors(decay: str):
    pytest.importorskip("torch_geometric")
    for key, parameter in nn.TreeKernelNN(3, 4, 3, decay, ordered=True).named_parameters():
        is_vector = any(word in key for word in ("bias", "logit"))
        assert parameter.dim() == (1 if is_vector else 2), key


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("bidirectional", [False, True])
def test_names_and_shapes_of_an_ngram_lstm_are_those_of_torch(bias: bool, bidirectional: bool):
    options = {"num_layers": 3, "bias": bias, "bidirectional": bidirectional}
    theirs = torch.nn.LSTM(5, 4, **options)
    ours = nn.NgramLSTM(5, 4, **options)
    shapes = {n.replace("bias_ih", "bias"): p.shape for n, p in theirs.named_parameters()}
    shapes = {name: shape for name, shape in shapes.items() if "bias_hh" not in name}
    assert {n: p.shape for n, p in ours.named_parameters()} == shapes
    assert list(shapes) == [name for name, _ in ours.named_parameters()]
    wanted = [[p.shape for p in row][: 2 + bias] for row in theirs.all_weights]
    assert [[p.shape for p in row] for row in ours.all_weights] == wanted
    ours.flatten_parameters()


@pytest.mark.parametrize("cell", CELLS)
@pytest.mark.parametrize("n", [1, 3])
def test_matrix_initializers_give_each_gate_the_scale_of_an_lstm(cell, n: int):
    torch.manual_seed(0)
    lstm = torch.nn.LSTM(n * SIZE, SIZE)
    layer = cell(SIZE, SIZE, filter_length=n)
    for module in (lstm, layer):
        for parameter in module.parameters():
            if parameter.dim() > 1:
                torch.nn.init.xavier_uniform_(parameter)
    # of G stacked gates the bound is sqrt(6 / (G H + I)), for every one of them
    gates = len(layer.cell.gates)
    bound = (6 / (gates * SIZE + n * SIZE)) ** 0.5
    assert layer.weight_ih_l0.abs().max().item() == pytest.approx(bound, rel=0.02)
    if gates == 4:
        of_lstm = lstm.weight_ih_l0.std()
        torch.testing.assert_close(layer.weight_ih_l0.std(), of_lstm, rtol=0.03, atol=0)
        torch.testing.assert_close(
            layer.weight_hh_l0.std(), lstm.weight_hh_l0.std(), rtol=0.03, atol=0
        )


def test_a_gate_is_a_block_of_rows_in_the_order_of_the_filters():
    layer = nn.RKMLSTM(3, 4, filter_length=2)
    for block, (gate, filters) in zip(
        layer.weight_ih_l0.chunk(4), layer.filters().items(), strict=True
    ):
        present, before = block.chunk(2, dim=1)
        assert torch.equal(filters[..., 0], present), gate
        assert torch.equal(filters[..., 1], before), gate
    blocks = dict(zip(layer.cell.recurrent_gates, layer.weight_hh_l0.chunk(4), strict=True))
    assert all(torch.equal(blocks[gate], w) for gate, w in layer.recurrent().items())
    blocks = dict(zip(layer.cell.biased_gates, layer.bias_l0.chunk(3), strict=True))
    assert all(torch.equal(blocks[gate], b) for gate, b in layer.biases().items())


def test_all_weights_lists_every_parameter_of_a_direction_once():
    for build in SEQUENCES.values():
        layer = build()
        listed = [id(p) for row in layer.all_weights for p in row]
        # psi is a module of the user, the same one for all directions
        own = [id(p) for n, p in layer.named_parameters() if not n.startswith("psi.")]
        assert sorted(listed) == sorted(own)
