from __future__ import annotations

import pytest
import torch
from string_layers import EXACT, KINDS, gates_of, sequence, string_layer
from torch.testing import assert_close

from representer.errors import KindError
from representer.explain.string_parts import check_layer, string_parts
from representer.nn import StringKernelRNN


@pytest.mark.parametrize("kind", KINDS[::2], ids=lambda kind: " ".join(map(str, kind)))
def test_products_and_decays_are_the_layers_own(kind):
    layer, x = string_layer(kind, 3, 2), sequence(6, 2)
    parts = string_parts(layer, x)
    assert_close(parts.products, torch.einsum("ti,hni->tnh", x, layer.references()), **EXACT)
    assert_close(parts.decay, gates_of(layer, x).contiguous(), **EXACT)
    states = parts.states()[0][:, -1] * parts.read(torch.ones_like(parts.decay))
    assert_close(states, layer.cell_states(x)[:, -1].detach(), **EXACT)


def test_the_gates_of_a_layer_with_highway_see_its_whole_output():
    layer, x = string_layer(("multiply", False, "state"), 2, 3, highway=True), sequence(6, 3)
    parts = string_parts(layer, x)
    assert_close(parts.decay, gates_of(layer, x), **EXACT)
    h = torch.tanh(layer.cell_states(x)[:, -1])
    assert parts.highway is not None
    mixed = parts.highway * h + (1 - parts.highway) * x
    assert_close(mixed.detach(), layer(x)[0].detach(), **EXACT)


def test_one_unit_is_cut_out_with_its_highway():
    layer, x = string_layer(("multiply", True, "input"), 3, 3, highway=True), sequence(6, 3)
    parts, cut = string_parts(layer, x), string_parts(layer, x).of(2, 1)
    assert cut.chain.order == 2
    assert parts.highway is not None
    assert cut.highway is not None
    assert_close(cut.products, parts.products[:, :2, 1:2])
    assert_close(cut.decay, parts.decay[:, 1:2])
    assert_close(cut.highway, parts.highway[:, 1:2])
    assert_close(cut.weight, 1 - parts.decay[:, 1:2])


def test_the_parts_are_in_float64_and_without_a_graph():
    parts = string_parts(StringKernelRNN(3, 3, decay="learned"), torch.randn(4, 3))
    assert (parts.products.dtype, parts.decay.dtype) == (torch.float64, torch.float64)
    assert not parts.products.requires_grad
    assert not parts.decay.requires_grad


def test_another_layer_is_refused():
    with pytest.raises(KindError, match="layer is LSTM; expected a StringKernelRNN"):
        check_layer(torch.nn.LSTM(3, 3))
