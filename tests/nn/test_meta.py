"""Layers created on the meta device and loaded from a state dict equal the original."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import nn as torch_nn

from representer import nn

X, EDGES = torch.randn(5, 2, 3), torch.tensor([[0, 1, 2, 3, 4, 4], [1, 2, 3, 4, 0, 4]])
SEQUENCES = {
    **{name: partial(build, 3, 4) for name, build in nn.TABLE1.items()},
    "RAN": partial(nn.RAN, 3, 4),
    **{f"RKM {q}": partial(nn.RKM, 3, 4, q=q) for q in ("linear", "inverse", "gaussian", "tanh")},
    "learned gates": partial(nn.LinearKernelRNN, 3, 4, learn_static_gates=True),
    "given gates": partial(nn.LinearKernelRNN, 3, 4, static_gates=(0.3, 0.9)),
    "wavelets": partial(nn.CNN, 3, 4, filters="wavelet", filter_length=5, free_phase=True),
    "norm": partial(nn.RKMLSTM, 3, 4, 2, bidirectional=True, layer_norm=True, zoneout=0.1),
    "strings": partial(nn.StringKernelRNN, 3, 4, 2, decay="learned"),
    "exact strings": partial(nn.StringKernelRNN, 3, 4, normalized="exact", highway=False),
    "gated strings": partial(nn.StringKernelRNN, 3, 3, decay="state", highway=True),
    "KBRN": partial(nn.KBRN, 3, 4, num_layers=2),
    "KBRN as it is": partial(nn.KBRN, 3, 4, normalize=False),
}
GRAPHS = ("RandomWalkKernelNN", "WLKernelNN", "DeepGraphKernelNN")


def _restored(build: Callable[..., torch_nn.Module], original: torch_nn.Module) -> torch_nn.Module:
    with torch.device("meta"):
        empty = build()
    for tensor in (*empty.parameters(), *empty.buffers()):
        assert tensor.is_meta
    filled = empty.to_empty(device="cpu")
    filled.load_state_dict(original.state_dict())
    return filled.eval()


@pytest.mark.parametrize("name", SEQUENCES)
def test_a_sequence_layer(name: str):
    original = SEQUENCES[name]().eval()
    restored = _restored(SEQUENCES[name], original)
    assert torch.equal(restored(X)[0], original(X)[0])


@pytest.mark.parametrize("name", GRAPHS)
def test_a_graph_layer(name: str):
    pytest.importorskip("torch_geometric")
    build = partial(getattr(nn, name), 3, 4)
    original = build().eval()
    x = torch.randn(5, 3)
    assert torch.equal(_restored(build, original)(x, EDGES), original(x, EDGES))


@pytest.mark.parametrize("green", ["abs", "gaussian"])
def test_an_activation(green: str):
    build = partial(nn.KernelActivation, 3, green=green)
    original = build()
    assert torch.equal(_restored(build, original)(X), original(X))
