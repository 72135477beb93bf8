"""A case of every layer, with the options that change its modules and parameters."""

from __future__ import annotations

import importlib.util
from collections.abc import Callable
from functools import partial

import torch
from torch import Tensor
from torch import nn as torch_nn

from representer import nn

TIME, BATCH, INPUT, HIDDEN = 5, 2, 3, 4
EDGES = torch.tensor([[0, 1, 2, 3, 0], [1, 2, 3, 0, 2]])
TREE = torch.tensor([[1, 2, 3, 4, 5], [0, 0, 1, 1, 2]])


def _prelu() -> torch_nn.Module:
    return nn.RKMLSTM(INPUT, HIDDEN, output_nonlinearity=torch_nn.PReLU())


SEQUENCES: dict[str, Callable[[], torch_nn.Module]] = {
    "two layers": partial(
        nn.RKMLSTM, INPUT, HIDDEN, 2, bidirectional=True, layer_norm=True, zoneout=0.1,
        weight_drop=0.1, variational_dropout=0.1, dropout=0.1,
    ),
    "given gates": partial(nn.LinearKernelRNN, INPUT, HIDDEN, static_gates=(0.3, 0.9)),
    "RKM gaussian": partial(nn.RKM, INPUT, HIDDEN, q="gaussian"),
    "wavelets": partial(
        nn.CNN, INPUT, HIDDEN, filters="wavelet", filter_length=5, free_phase=True
    ),
    "strings": partial(nn.StringKernelRNN, INPUT, HIDDEN, 2, decay="learned"),
    "KBRN": partial(nn.KBRN, INPUT, HIDDEN, num_layers=2, max_steps=9),
    **{name: partial(build, INPUT, HIDDEN) for name, build in nn.TABLE1.items()},
    "RAN": partial(nn.RAN, INPUT, HIDDEN),
    **{f"RKM {q}": partial(nn.RKM, INPUT, HIDDEN, q=q) for q in ("linear", "inverse", "tanh")},
    "learned gates": partial(nn.LinearKernelRNN, INPUT, HIDDEN, learn_static_gates=True),
    "no feedback": partial(
        nn.LinearKernelRNN, INPUT, HIDDEN, feedback=False, output_gate=False
    ),
    "n-grams": partial(nn.RKMCIFG, INPUT, HIDDEN, filter_length=2, recompute_gates=True),
    "lengths": partial(nn.CNN, INPUT, HIDDEN, filter_length={1: 2, 3: 2}),
    "module as output": _prelu,
    "exact strings": partial(nn.StringKernelRNN, INPUT, HIDDEN, normalized="exact", decay=0.5),
    "gated strings": partial(nn.StringKernelRNN, INPUT, INPUT, decay="state", highway=True),
    "KBRN as it is": partial(nn.KBRN, INPUT, HIDDEN, normalize=False, linear_term=True),
    "KBRN of edges": partial(nn.KBRN, INPUT, HIDDEN, input_layer=nn.KernelLinear, max_steps=9),
    "cells of edges": partial(
        nn.RKMLSTM, INPUT, HIDDEN, filter_length=2, input_layer=nn.KernelLinear
    ),
    "KBRN shared": partial(nn.KBRN, INPUT, HIDDEN, bidirectional=True, shared=True, max_steps=9),
}  # fmt: skip
ACTIVATIONS: dict[str, Callable[[], torch_nn.Module]] = {
    "activation": partial(nn.KernelActivation, INPUT, normalize=True),
    "gaussian activation": partial(nn.KernelActivation, INPUT, green="gaussian"),
    "fitted activation": partial(nn.KernelActivation, INPUT, init=torch.sin),
    "edges": partial(nn.KernelLinear, INPUT, INPUT),
    "cubic edges": partial(nn.KernelLinear, INPUT, INPUT, green="cubic", learn_centers=True),
}
GRAPHS: dict[str, Callable[[], torch_nn.Module]] = {}
if importlib.util.find_spec("torch_geometric") is not None:
    GRAPHS = {
        "Weisfeiler-Lehman": partial(nn.WLKernelNN, INPUT, HIDDEN),
        "walks": partial(nn.RandomWalkKernelNN, INPUT, HIDDEN, decay="gated"),
        "deep graph": partial(nn.DeepGraphKernelNN, INPUT, HIDDEN, decay="learned"),
        "relabeling": partial(nn.Relabeling, INPUT),
        "trees": partial(nn.TreeKernelNN, INPUT, HIDDEN, 2, "state", ordered=True),
    }
MODULES = {**SEQUENCES, **ACTIVATIONS, **GRAPHS}


def inputs(name: str) -> tuple[Tensor, ...]:
    """Return the same input of a module at every call."""
    values = torch.linspace(-1, 1, TIME * BATCH * INPUT)
    if name not in GRAPHS:
        return (values.view(TIME, BATCH, INPUT),)
    return values.view(-1, INPUT), TREE if name == "trees" else EDGES


def output(name: str, module: torch_nn.Module, *given: Tensor) -> Tensor:
    """Return the output of a module, without its state."""
    found = module(*(given or inputs(name)))
    return found[0] if isinstance(found, tuple) else found
