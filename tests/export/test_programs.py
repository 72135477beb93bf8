"""Exported layers compute what the layers do, at other lengths and batches."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn as torch_nn

from representer import nn
from representer.errors import ArgumentError, KindError, MissingExtraError, StorageError
from representer.export import ExportError, lowered, programs, to_onnx, to_torch
from representer.export.programs import TOLERANCE, interface, onnx_run
from representer.kernels import (
    DeepStringKernel,
    Gaussian,
    Polynomial,
    RandomWalkKernel,
    RecurrentKernel,
    StringKernel,
)
from representer.models import (
    SequenceClassifierConfig,
    SequenceNetwork,
    SignalClassifierConfig,
    SignalNetwork,
)
from representer.storage import atomic

INPUT, HIDDEN = 3, 4
LAYERS: dict[str, Callable[[], torch_nn.Module]] = {
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
    "KBRN, batch": partial(nn.KBRN, INPUT, HIDDEN, eval_statistics="batch"),
    "KBRN as it is": partial(nn.KBRN, INPUT, HIDDEN, normalize=False),
    "kernel": partial(StringKernel(2).network, INPUT, HIDDEN),
    "sum of kernels": partial(
        (StringKernel(2, base=Gaussian()) ** 2 + 0.5 * StringKernel(3)).network, INPUT, HIDDEN
    ),
    "cosine of kernels": partial(
        (DeepStringKernel((1, 2)) + StringKernel(2)).cosine().network, INPUT, HIDDEN
    ),
    "exact kernel": partial(StringKernel(2).network, INPUT, HIDDEN, fused=False),
    "kernel of vectors": partial((Polynomial(2) + Gaussian()).cosine().network, INPUT, HIDDEN),
    "activation": partial(nn.KernelActivation, INPUT),
    "edges": partial(nn.KernelLinear, INPUT, HIDDEN, green="cubic"),
    "KAN": partial(nn.KAN, (INPUT, 5, HIDDEN)),
    "walks": partial(nn.RandomWalkKernelNN, INPUT, HIDDEN, 3, decay="gated", nonlinear=True),
    "walks of layers": partial(nn.DeepGraphKernelNN, INPUT, HIDDEN, edge_dim=2),
    "relabelings": partial(nn.WLKernelNN, INPUT, HIDDEN),
    "relabelings with edges": partial(nn.WLKernelNN, INPUT, HIDDEN, edge_dim=2, decay="gated"),
    "n-grams": partial(
        nn.RKMCIFG, INPUT, HIDDEN, 2, filter_length=3, dilation=2, bidirectional=True
    ),
}
AHEAD = SequenceClassifierConfig(
    9, 2, "rkm-lstm", embedding_size=INPUT, hidden_size=HIDDEN, head_size=HIDDEN,
    filter_length=3, filter_padding="same", candidate_bias=True,
)  # fmt: skip
FAST = 1
CASES = [
    pytest.param(name, marks=[pytest.mark.slow] if i >= FAST else [])
    for i, name in enumerate(LAYERS)
]


@pytest.mark.slow
def test_a_network_that_looks_ahead_runs_at_other_lengths_and_batches(tmp_path: Path):
    found = to_torch(SequenceNetwork(AHEAD).eval(), tmp_path / "model.pt2")
    assert len({(each.time, each.batch) for each in found}) == 3
    assert max(each.difference for each in found) <= TOLERANCE


@pytest.mark.slow
def test_a_network_of_windows_of_one_length_runs_at_other_batches(tmp_path: Path):
    config = SignalClassifierConfig(
        2, 3, 50.0, hidden_size=HIDDEN, stride=4, filter_length=8, pooling="flatten",
        window_length=30,
    )  # fmt: skip
    found = to_torch(SignalNetwork(config).eval(), tmp_path / "model.pt2")
    assert [each.time for each in found] == [30, 30, 30]
    assert len({each.batch for each in found}) == 3
    assert max(each.difference for each in found) <= TOLERANCE


@pytest.mark.parametrize("name", CASES)
def test_an_exported_program_runs_at_other_lengths_and_batches(name: str, tmp_path: Path):
    found = to_torch(LAYERS[name]().eval(), tmp_path / "layer.pt2")
    assert len({(each.time, each.batch) for each in found}) == 3
    assert max(each.difference for each in found) <= TOLERANCE


LOWERED: dict[str, Callable[[], torch_nn.Module]] = {
    "two directions": partial(nn.RKMCIFG, INPUT, HIDDEN, filter_length=2, bidirectional=True),
    "texts": lambda: SequenceNetwork(AHEAD),
    "stride": LAYERS["stride"],
    "strings": LAYERS["strings"],
    "KBRN": LAYERS["KBRN as it is"],
    "without memory": partial(nn.GatedCNN, INPUT, HIDDEN, filter_length=2),
    "walks": LAYERS["walks"],
    "relabelings with edges": LAYERS["relabelings with edges"],
}
ONCE = "stride", "without memory", "walks", "relabelings with edges"  # these need no loop


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=[pytest.mark.slow] * (k > 0)) for k, name in enumerate(LOWERED)],
)
def test_a_lowered_program_has_operators_of_torch_alone_and_runs_at_other_lengths(name: str):
    torch.manual_seed(0)
    model = LOWERED[name]().eval()
    program, described = lowered(model, longest=64), interface(model)
    assert not [node for node in program.graph.nodes if "representer" in str(node.target)]
    loops = [node for node in program.graph.nodes if node.target is torch.ops.higher_order.scan]
    assert bool(loops) == (name not in ONCE)
    for time in (2, 9, 40):
        inputs = described.example({"time": time, "batch": 1})
        with torch.no_grad():
            results = program.module()(*inputs)
        for found, wanted in zip(results, described(*inputs), strict=True):
            torch.testing.assert_close(found, wanted, rtol=TOLERANCE, atol=TOLERANCE)


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> tuple[torch_nn.Module, Path]:
    """Return a layer that runs in both directions, and its ONNX file."""
    torch.manual_seed(0)
    layer = nn.RKMCIFG(INPUT, HIDDEN, filter_length=2, bidirectional=True).eval()
    path = tmp_path_factory.mktemp("onnx") / "layer.onnx"
    to_onnx(layer, path)
    return layer, path


@pytest.mark.slow
def test_an_onnx_file_has_one_scan_per_direction_and_named_axes(
    exported: tuple[torch_nn.Module, Path],
):
    import onnx

    graph = onnx.load(exported[1]).graph
    assert [node.op_type for node in graph.node].count("Scan") == 2
    shapes = [
        [axis.dim_param or axis.dim_value for axis in each.type.tensor_type.shape.dim]
        for each in (*graph.input, *graph.output)
    ]
    assert shapes == [
        ["time", "batch", INPUT], ["batch"], ["time", "batch", 2 * HIDDEN],
        [2, "batch", HIDDEN], [2, "batch", HIDDEN],
        ["batch", 1, INPUT], ["batch", 1, INPUT],
    ]  # fmt: skip
    assert [each.name for each in graph.output] == ["output", "h", "c", "window0", "window1"]


@pytest.mark.slow
@pytest.mark.parametrize(("time", "batch"), [(1, 1), (7, 1), (25, 6)])
def test_an_onnx_file_computes_the_outputs_of_a_layer(
    exported: tuple[torch_nn.Module, Path], time: int, batch: int
):
    layer, path = exported
    x = torch.randn(time, batch, INPUT)
    lengths = torch.arange(batch) % time + 1
    with torch.no_grad():
        wanted, state = layer(x, lengths=lengths)
    output, h, c, *windows = onnx_run(path)(x, lengths)
    for found, expected in zip(
        (output, h, c, *windows), (wanted, state.h, state.c, *state.window), strict=True
    ):
        np.testing.assert_allclose(found, expected, atol=TOLERANCE)


@pytest.mark.slow
@pytest.mark.parametrize("name", LAYERS)
def test_every_layer_is_exported_to_onnx(name: str, tmp_path: Path):
    found = to_onnx(LAYERS[name]().eval(), tmp_path / "layer.onnx")
    assert max(each.difference for each in found) <= TOLERANCE


def test_a_file_that_differs_from_the_model_is_an_error(tmp_path: Path):
    described = interface(LAYERS["strings"]().eval())

    def run(*inputs: torch.Tensor) -> list[Any]:
        output, *rest = (each.numpy() for each in described(*inputs))
        return [output + 2e-5, *rest]

    path = tmp_path / "layer.onnx"
    path.write_text("older")
    with pytest.raises(ExportError, match=r"differs from the model by 2\.\de-05 at 2 steps"):
        programs._written(described, lambda content: run, b"newer", path, TOLERANCE)
    assert path.read_text() == "older"


@pytest.mark.parametrize("write", [to_torch, pytest.param(to_onnx, marks=pytest.mark.slow)])
def test_an_export_follows_no_link_and_leaves_the_old_file_on_a_full_disk(
    write: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    """The writer of torch ends the process where the disk is full."""
    layer, path = nn.RKMLSTM(INPUT, HIDDEN).eval(), tmp_path / "layer.pt2"
    (tmp_path / "outside").write_text("precious")
    path.symlink_to(tmp_path / "outside")
    with pytest.raises(StorageError, match=r"layer\.pt2 cannot be written: it is a symbolic link"):
        write(layer, path)
    path.unlink()
    path.write_text("older")
    monkeypatch.setenv("REPRESENTER_FAILPOINT", "pt2.begun:enospc")
    atomic.reset()
    with pytest.raises(StorageError, match="no space left on device"):
        write(layer, path)
    assert path.read_text() == "older"
    assert (tmp_path / "outside").read_text() == "precious"
    assert len(list(tmp_path.iterdir())) == 2


def test_a_model_that_cannot_be_exported_is_named(tmp_path: Path):
    with pytest.raises(KindError, match=r"model is Linear; expected a recurrent or graph layer"):
        to_torch(torch_nn.Linear(2, 3).eval(), tmp_path / "layer.pt2")
    with pytest.raises(KindError, match=r"in training mode; expected one after model\.eval"):
        to_torch(nn.RKMLSTM(2, 3), tmp_path / "layer.pt2")
    recurrent = RecurrentKernel("polynomial").cosine()
    with pytest.raises(KindError, match=r"sequences of any length.* nests q over all steps"):
        to_onnx((2 * recurrent).network(2, 3).eval(), tmp_path / "layer.onnx")
    with pytest.raises(KindError, match="model is a network of graphs; expected one of sequences"):
        to_torch(
            (RandomWalkKernel(2) + RandomWalkKernel(3)).network(2, 3).eval(), tmp_path / "layer.pt2"
        )


class Last(nn.RKMCIFG):
    """A layer with a forward of its own."""

    def forward(self, x, labels=None):
        return super().forward(x)[0][:, -1]


class Tagger(torch_nn.Module):
    """A model with a layer inside."""

    def __init__(self):
        super().__init__()
        self.embedding, self.head = torch_nn.Embedding(20, 3), torch_nn.Linear(4, 5)
        self.layer = nn.RKMCIFG(3, 4, batch_first=True)

    def forward(self, tokens):
        return self.head(self.layer(self.embedding(tokens))[0])


@pytest.mark.parametrize("model", [Last(3, 4), Tagger()])
def test_a_model_of_a_user_is_refused_with_what_writes_it(model: torch_nn.Module, tmp_path: Path):
    with pytest.raises(KindError, match=r"torch\.onnx\.export\(model, inputs, path, dynamo=True\)"):
        to_torch(model.eval(), tmp_path / "model.pt2")


def streamed(run: Callable[..., Any], x: torch.Tensor, state: list[Any], cuts: list[int]) -> Any:
    """Return the outputs of the parts of a sequence, and the last state."""
    outputs = []
    for part in torch.tensor_split(x, cuts):
        output, *state = run(part, *state)
        outputs.append(np.asarray(output))
    return [np.concatenate(outputs), *map(np.asarray, state)]


def test_a_layer_with_its_state_reads_a_sequence_in_parts():
    layer = nn.RKMCIFG(INPUT, HIDDEN, 2, filter_length=3, dilation=2).double().eval()
    described = interface(layer, state=True)
    assert [*described.inputs] == ["input", "h", "c", "window0", "window1"]
    assert described.outputs == ("output", "new_h", "new_c", "new_window0", "new_window1")
    x, *drawn = described.example({"time": 12, "batch": 3})
    state = [torch.zeros_like(part) for part in drawn]
    whole = described(x, *state)
    for found, wanted in zip(streamed(described, x, state, [1, 2, 7]), whole, strict=True):
        np.testing.assert_allclose(found, wanted, atol=1e-12)


@pytest.mark.parametrize("model", [nn.RKMLSTM(2, 3, bidirectional=True), nn.KernelActivation(3)])
def test_a_state_of_a_model_that_reads_no_parts_is_refused(model: torch_nn.Module):
    with pytest.raises(ArgumentError, match="state is True; expected False but for a recurrent"):
        interface(model.eval(), state=True)


STREAMING = [
    name for name, build in LAYERS.items() if getattr(build(), "bidirectional", True) is False
]


@pytest.mark.slow
@pytest.mark.parametrize("name", STREAMING)
def test_parts_of_a_sequence_in_any_split_equal_the_whole_in_onnx(name: str, tmp_path: Path):
    layer = LAYERS[name]().eval()
    to_onnx(layer, tmp_path / "layer.onnx", state=True)
    run, described = onnx_run(tmp_path / "layer.onnx"), interface(layer, state=True)
    x, *drawn = described.example({"time": 12, "batch": 3})
    if layer.batch_first:
        x = x.transpose(0, 1)
    state = [torch.zeros_like(part) for part in drawn]
    turned = (lambda a, *b: run(a.transpose(0, 1), *b)) if layer.batch_first else run
    axis = 1 if layer.batch_first else 0
    whole = run(x.transpose(0, 1) if layer.batch_first else x, *state)
    for cuts in ([1, 2, 7], [6], [*range(1, 12)]):
        steps = [cut * layer.stride for cut in cuts]
        output, *last = streamed(
            lambda part, *s: (lambda o, *r: [np.moveaxis(o, axis, 0), *r])(*turned(part, *s)),
            x, [part.numpy() for part in state], steps,
        )  # fmt: skip
        np.testing.assert_allclose(np.moveaxis(output, 0, axis), whole[0], atol=TOLERANCE)
        for found, wanted in zip(last, whole[1:], strict=True):
            np.testing.assert_allclose(found, wanted, atol=TOLERANCE)


class OfGraphs(torch_nn.Module):
    """A model with a graph layer inside, which counts the graphs itself."""

    def __init__(self, layer: torch_nn.Module):
        super().__init__()
        self.layer, self.head = layer, torch_nn.Linear(4, 2)

    def forward(self, x, edge_index, batch):
        return self.head(self.layer(x, edge_index, None, batch))


@pytest.mark.slow
@pytest.mark.parametrize("build", [nn.RandomWalkKernelNN, nn.WLKernelNN])
def test_torch_writes_a_model_of_a_user_with_a_graph_layer(build: Any, tmp_path: Path):
    def graphs(count: int, nodes: int) -> tuple[torch.Tensor, ...]:
        first = nodes * torch.arange(count).repeat_interleave(2 * nodes)
        ends = torch.randint(nodes, (2, len(first))) + first
        return torch.randn(count * nodes, 3), ends, torch.arange(count).repeat_interleave(nodes)

    model, path, dynamic = (
        OfGraphs(build(3, 4)).eval(), tmp_path / "m.onnx", torch.export.Dim.DYNAMIC,
    )  # fmt: skip
    with torch.no_grad():
        torch.onnx.export(
            model, graphs(3, 5), str(path), dynamo=True, verbose=False,
            dynamic_shapes=({0: dynamic}, {1: dynamic}, {0: dynamic}),
        )  # fmt: skip
        for inputs in (graphs(1, 4), graphs(6, 3)):
            (found,) = onnx_run(path)(*inputs)
            np.testing.assert_allclose(found, model(*inputs), atol=TOLERANCE)


@pytest.mark.slow
def test_torch_writes_a_model_of_a_user_as_onnx(tmp_path: Path):
    model, path = Tagger().eval(), str(tmp_path / "model.onnx")
    tokens, sizes = torch.randint(20, (3, 9)), dict.fromkeys((0, 1), torch.export.Dim.DYNAMIC)
    with torch.no_grad():
        torch.onnx.export(
            model, (tokens[:2, :6],), path, dynamo=True, verbose=False, dynamic_shapes=(sizes,)
        )
        (result,) = onnx_run(path)(tokens)
        torch.testing.assert_close(torch.as_tensor(result), model(tokens), rtol=0, atol=1e-5)


@pytest.mark.slow
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16])
def test_torch_writes_layers_of_any_precision_that_require_gradients(
    dtype: torch.dtype, tmp_path: Path
):
    layer, x = nn.RKMLSTM(3, 4).to(dtype).eval(), torch.randn(7, 2, 3, dtype=dtype)
    sizes = dict.fromkeys((0, 1), torch.export.Dim.DYNAMIC)
    path = str(tmp_path / "layer.onnx")
    torch.onnx.export(
        layer, (x[:5],), path, dynamo=True, verbose=False, dynamic_shapes={"input": sizes}
    )
    result, *_ = onnx_run(path)(x)
    assert result.dtype == x.numpy().dtype
    np.testing.assert_allclose(result, layer(x)[0].detach(), atol=2 * torch.finfo(dtype).eps)


@pytest.mark.slow
def test_a_python_function_as_nonlinearity_is_refused(tmp_path: Path):
    layer = nn.RKMLSTM(2, 3, output_nonlinearity=torch.sin).eval()
    with pytest.raises(KindError, match=r"one with fixed sizes.*as nonlinearity fixes them"):
        to_torch(layer, tmp_path / "layer.pt2")


def test_missing_packages_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(programs.importlib.util, "find_spec", lambda name: None)
    with pytest.raises(MissingExtraError, match=r"ONNX needs onnx.*\[onnx\]"):
        to_onnx(nn.RKMLSTM(2, 3).eval(), tmp_path / "layer.onnx")


@pytest.mark.parametrize(
    "options", [{"filter_length": 3}, {"filters": "wavelet", "filter_length": 8}]
)
def test_an_exported_layer_with_strides_takes_batches_of_any_size(options, tmp_path):
    torch.manual_seed(0)
    layer = nn.CNN(3, 4, stride=2, **options).eval()
    to_torch(layer, tmp_path / "layer.pt2")
    run, described = programs.torch_run(tmp_path / "layer.pt2"), interface(layer)
    for batch in (1, 2, 3):
        inputs = described.example({"time": 8, "batch": batch}, 1)
        np.testing.assert_allclose(run(*inputs)[0], described(*inputs)[0].detach(), atol=TOLERANCE)
