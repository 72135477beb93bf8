from __future__ import annotations

import pytest
import torch
from string_layers import EXACT, KINDS, decays_of, sequence, string_layer
from torch.testing import assert_close

from representer.errors import KindError
from representer.explain.string_parts import check_layer, string_parts
from representer.nn import StringKernelRNN


@pytest.mark.parametrize("kind", KINDS[::2], ids=lambda kind: " ".join(map(str, kind)))
def test_products_decays_and_states_match_the_layer(kind):
    layer, x = string_layer(kind, 3, 2), sequence(6, 2)
    parts = string_parts(layer, x)
    assert_close(parts.products, torch.einsum("ti,hni->tnh", x, layer.references()), **EXACT)
    assert_close(parts.decay, decays_of(layer, x).contiguous(), **EXACT)
    states = parts.states()[0][:, -1] * parts.divide_by_mass(torch.ones_like(parts.decay))
    assert_close(states, layer.cell_states(x)[:, -1].detach(), **EXACT)


def test_gates_with_highway_depend_on_the_output_after_the_highway():
    layer, x = string_layer(("multiply", False, "state"), 2, 3, highway=True), sequence(6, 3)
    parts = string_parts(layer, x)
    assert_close(parts.decay, decays_of(layer, x), **EXACT)
    h = torch.tanh(layer.cell_states(x)[:, -1])
    assert parts.highway is not None
    mixed = parts.highway * h + (1 - parts.highway) * x
    assert_close(mixed.detach(), layer(x)[0].detach(), **EXACT)


def test_selecting_a_unit_includes_its_highway():
    layer, x = string_layer(("multiply", True, "input"), 3, 3, highway=True), sequence(6, 3)
    parts, selected = string_parts(layer, x), string_parts(layer, x).select(2, 1)
    assert selected.chain.order == 2
    assert parts.highway is not None
    assert selected.highway is not None
    assert_close(selected.products, parts.products[:, :2, 1:2])
    assert_close(selected.decay, parts.decay[:, 1:2])
    assert_close(selected.highway, parts.highway[:, 1:2])
    assert_close(selected.weight, 1 - parts.decay[:, 1:2])


def test_parts_are_float64_and_detached():
    parts = string_parts(StringKernelRNN(3, 3, decay="learned"), torch.randn(4, 3))
    assert (parts.products.dtype, parts.decay.dtype) == (torch.float64, torch.float64)
    assert not parts.products.requires_grad
    assert not parts.decay.requires_grad


def test_other_layers_are_rejected():
    with pytest.raises(KindError, match="layer is LSTM; expected a StringKernelRNN"):
        check_layer(torch.nn.LSTM(3, 3))
