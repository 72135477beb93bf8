"""The recurrent kernel machine of any q."""

from __future__ import annotations

import copy
import pickle

import pytest
import torch

from representer.errors import ArgumentError
from representer.functional import (
    NONLINEARITIES,
    gaussian_kernel_definition,
    recurrent_kernel_definition,
)
from representer.nn import RKM

from ..layers import HIDDEN, INPUT, batch


def _layer(**options) -> RKM:
    return RKM(INPUT, HIDDEN, dtype=torch.float64, **options)


@pytest.mark.parametrize("q", [q for q in NONLINEARITIES if q != "gaussian"])
def test_without_feedback_every_unit_equals_the_kernel_with_its_reference(q: str):
    layer, x = _layer(q=q, feedback=False, filter_length=2), batch()
    windows = torch.stack((torch.cat((torch.zeros_like(x[:1]), x[:-1])), x), dim=2)  # (T, B, n, I)
    similarities = torch.einsum("tbni,hni->tbh", windows, layer.references())
    output, state = layer(x)
    for t in range(len(x)):
        expected = recurrent_kernel_definition(similarities, NONLINEARITIES[q].value, t + 1)
        torch.testing.assert_close(output[t], expected)
    torch.testing.assert_close(NONLINEARITIES[q].value(state.c[0]), state.h[0])


def test_the_gaussian_form_equals_the_kernel_of_unit_vectors():
    layer, x = _layer(q="gaussian", feedback=False), batch() + 0.1
    references = layer.references()[:, 0]
    torch.testing.assert_close(references.norm(dim=1), torch.ones(HIDDEN, dtype=torch.float64))
    unit = x / x.norm(dim=-1, keepdim=True)
    distances = (unit[:, :, None] - references).square().sum(-1)
    for t in range(1, len(x) + 1):
        expected = gaussian_kernel_definition(distances[:t])
        torch.testing.assert_close(layer(x[:t])[0][-1], expected)


@pytest.mark.parametrize("packed", [False, True])
def test_the_gaussian_form_has_finite_gradients_where_an_input_is_zero(packed: bool):
    layer, x = _layer(q="gaussian", num_layers=2, bidirectional=True), batch()
    x[2:4] = 0
    x.requires_grad_()
    given = x
    if packed:
        given = torch.nn.utils.rnn.pack_padded_sequence(x, torch.tensor([6, 4, 1]))
    output = layer(given)[0]
    (output.data if packed else output).sum().backward()
    gradients = [x.grad, *(p.grad for p in layer.parameters())]
    assert all(g is not None and g.isfinite().all() for g in gradients)


def test_a_reference_is_a_filter_oldest_slot_first():
    layer = _layer(filter_length=3)
    references, filters = layer.references(), layer.filters()["candidate"]
    assert references.shape == (HIDDEN, 3, INPUT)
    for s in range(3):
        assert torch.equal(references[:, 2 - s], filters[..., s])


@pytest.mark.parametrize("feedback", [False, True])
def test_a_callable_or_module_as_q_matches_the_q_of_that_name(feedback: bool):
    named, x = _layer(q="sigmoid", feedback=feedback), batch()
    for q in (torch.sigmoid, torch.nn.Sigmoid(), lambda z: 1 / (1 + (-z).exp())):
        other = _layer(q=q, feedback=feedback)
        other.load_state_dict(named.state_dict())
        torch.testing.assert_close(other(x)[0], named(x)[0])
        assert other.q is q
    assert named.q == "sigmoid"


def test_a_layer_with_a_module_as_q_can_be_copied_and_pickled():
    layer, x = _layer(q=torch.nn.PReLU(dtype=torch.float64)), batch()
    for twin in (copy.deepcopy(layer), pickle.loads(pickle.dumps(layer))):
        torch.testing.assert_close(twin(x)[0], layer(x)[0])
        assert twin.q is not layer.q


def test_the_memory_before_the_first_step_is_0_and_not_q_of_0():
    layer = _layer(q="sigmoid", feedback=False)
    x = batch(1)
    expected = torch.sigmoid(x @ layer.filters()["candidate"][..., 0].T)
    torch.testing.assert_close(layer(x)[0], expected)


def test_there_are_no_biases_and_only_feedback_has_a_matrix():
    assert _layer().biases() == {}
    assert set(_layer().recurrent()) == {"candidate"}
    assert _layer(feedback=False).recurrent() == {}


def test_an_unknown_q_is_rejected():
    with pytest.raises(ArgumentError, match=r"q is 'gelu'; expected a callable or one of .*"):
        _layer(q="gelu")
