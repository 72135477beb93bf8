"""The deep layer: its options, layers, and why it may have no kernel."""

from __future__ import annotations

import pytest
import torch

from representer.errors import KindError
from representer.nn import DeepGraphKernelNN


def test_the_repr_shows_arguments_that_differ_from_defaults():
    net = DeepGraphKernelNN(3, 4, num_layers=3, nonlinear="relu")
    assert net.extra_repr() == "3, 4, nonlinear='relu', num_layers=3"
    assert DeepGraphKernelNN(3, 4).extra_repr() == "3, 4"


def test_references_are_walks_only_in_the_first_layer():
    net = DeepGraphKernelNN(3, 4, order=2)
    assert net.references().shape == (4, 2, 3)
    assert net.references(1).shape == (4, 2, 4)
    with pytest.raises(KindError, match="Its σ is not a Mercer kernel: tanh"):
        net.kernel  # noqa: B018


def test_labels_are_what_a_layer_reads_and_part_is_its_walks():
    net = DeepGraphKernelNN(3, 4, num_layers=3)
    x, ends = torch.randn(5, 3), torch.randint(0, 5, (2, 9))
    assert torch.equal(net.labels(x, ends, layer=0), x)
    for layer in (1, -1):
        states = net.node_states(x, ends, layer=layer)
        labels = net.labels(x, ends, layer=layer)
        torch.testing.assert_close(net.part(layer).node_states(labels, ends), states)


def test_initial_parameters_keep_the_scale_of_the_states():
    net, x = DeepGraphKernelNN(50, 40), torch.randn(30, 50)
    edges = torch.randint(0, 30, (2, 90))
    assert 0.1 < float(net(x, edges).detach().std()) < 30
    before = net.mixing[0].clone()
    net.reset_parameters()
    assert not torch.equal(net.mixing[0], before)
