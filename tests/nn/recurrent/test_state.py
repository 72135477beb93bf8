"""The NamedTuples that a layer carries from one call to the next."""

from __future__ import annotations

import torch

from representer.nn import RecurrentState, WindowState

from .layers import EVERY_LAYER, batch, build


@EVERY_LAYER
def test_a_detached_state_has_the_values_and_no_graph(name: str):
    state = build(name, filter_length=2, num_layers=2)(batch().requires_grad_())[1]
    detached = state.detach()
    assert type(detached) is type(state)
    torch.testing.assert_close(tuple(detached), tuple(state))
    assert state.window[1].requires_grad
    tensors = [*detached[:-1], *detached.window]
    assert not any(tensor.requires_grad for tensor in tensors)


def test_states_unpack_by_position_and_by_name():
    h, c, window = state = RecurrentState(torch.zeros(1), torch.ones(1), ())
    assert state.h is h
    assert state.c is c
    assert state.window == window
    assert WindowState(window).window == window
