"""``torch.export`` of every layer, with dynamic batch and time."""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import partial

import pytest
import torch
from torch import nn as torch_nn
from torch.export import Dim

from representer import nn

INPUT, HIDDEN = 3, 4
LAYERS: dict[str, Callable[[], torch_nn.Module]] = {
    "n-grams": partial(
        nn.RKMCIFG, INPUT, HIDDEN, 2, filter_length=3, dilation=2, bidirectional=True
    ),
    "strings": partial(nn.StringKernelRNN, INPUT, HIDDEN, 2),
    "KBRN": partial(nn.KBRN, INPUT, HIDDEN),
    "batch first": partial(nn.RKMLSTM, INPUT, HIDDEN, batch_first=True, layer_norm=True),
    **{name: partial(build, INPUT, HIDDEN) for name, build in nn.TABLE1.items()},
    "RAN": partial(nn.RAN, INPUT, HIDDEN),
    "RKM": partial(nn.RKM, INPUT, HIDDEN),
    "RKM gaussian": partial(nn.RKM, INPUT, HIDDEN, q="gaussian"),
    "several lengths": partial(nn.CNN, INPUT, HIDDEN, filter_length={1: 2, 3: 2}),
    "wavelets": partial(nn.CNN, INPUT, HIDDEN, filters="wavelet", filter_length=3),
    "stride": partial(nn.CNN, INPUT, HIDDEN, stride=2, filter_length=2),
    "no feedback": partial(nn.LinearKernelRNN, INPUT, HIDDEN, feedback=False, output_gate=False),
    "gapped strings": partial(nn.StringKernelRNN, INPUT, HIDDEN, decay=0.5, normalized="exact"),
    "highway": partial(nn.StringKernelRNN, INPUT, INPUT, bidirectional=True, highway=True),
    "KBRN, layers": partial(nn.KBRN, INPUT, HIDDEN, 2, bidirectional=True, shared=True),
    "KBRN as it is": partial(nn.KBRN, INPUT, HIDDEN, normalize=False),
}
FAST = 4
CASES = [
    pytest.param(name, marks=[pytest.mark.slow] if i >= FAST else [])
    for i, name in enumerate(LAYERS)
]


@pytest.mark.parametrize("name", CASES)
def test_an_exported_layer_runs_at_other_lengths_and_batches(name: str):
    layer = LAYERS[name]().eval()
    time, batch = Dim("time", min=2, max=64), Dim("batch", min=2, max=64)
    steps = 2 * time if name == "stride" else time
    axes = {0: batch, 1: steps} if name == "batch first" else {0: steps, 1: batch}
    with torch.no_grad():
        program = torch.export.export(
            layer, (torch.randn(6, 4, INPUT),), dynamic_shapes={"input": axes}
        )
        file = io.BytesIO()
        torch.export.save(program, file)
        file.seek(0)
        loaded = torch.export.load(file).module()
        for sizes in ((12, 2), (4, 6), (20, 4)):
            x = torch.randn(*sizes, INPUT)
            torch.testing.assert_close(loaded(x)[0], layer(x)[0])
