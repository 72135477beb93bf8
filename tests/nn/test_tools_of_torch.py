"""Layers in the tools of torch: padding, saved states, export, tracing, fake tensors, sharding."""

from __future__ import annotations

import copy
import io
from collections.abc import Callable
from functools import partial
from typing import Any

import pytest
import torch
from torch import Tensor
from torch._subclasses.fake_tensor import FakeTensorMode

from representer import nn
from representer.errors import KindError, ShapeError
from representer.ops import core

LAYERS: dict[str, Callable[..., Any]] = {
    "RKM-LSTM": partial(nn.RKMLSTM, filter_length={2: 1, 1: 3}), "RKM-CIFG": nn.RKMCIFG,
    "wavelets": partial(nn.RKMLSTM, filters="wavelet", filter_length=4),
    "callable output": partial(nn.RKMLSTM, output_nonlinearity=torch.sin), "CNN": nn.CNN,
    "long CNN": partial(nn.CNN, filter_length=3, bidirectional=True), "Gated CNN": nn.GatedCNN,
    "KBRN": nn.KBRN, "string": nn.StringKernelRNN,
    "string with masses": partial(nn.StringKernelRNN, normalized="exact", decay=0.5),
}  # fmt: skip
EVERY_LAYER = pytest.mark.parametrize("name", LAYERS)


def build(name: str) -> Any:
    return LAYERS[name](3, 4, dtype=torch.float64)


def batch(size: int = 2) -> Tensor:
    return torch.randn(6, size, 3, dtype=torch.float64)


class Tagger(torch.nn.Module):
    def __init__(self, name: str) -> None:
        super().__init__()
        self.layer = build(name)

    def forward(self, x: Tensor) -> Tensor:
        return self.layer(x)[0].sum(-1)


@EVERY_LAYER
def test_what_the_padding_holds_does_not_reach_a_gradient(name: str):
    original, x, lengths = build(name), batch(), torch.tensor([6, 2])
    gradients = []
    for padding in (0.0, float("nan"), float("inf")):
        x[2:, 1] = padding
        layer = copy.deepcopy(original)
        layer(x, lengths=lengths)[0].square().sum().backward()
        gradients.append([p.grad.clone() for p in layer.parameters()])
    assert all(gradient.isfinite().all() for gradient in gradients[0])
    torch.testing.assert_close(gradients[1], gradients[0], rtol=0, atol=0)
    torch.testing.assert_close(gradients[2], gradients[0], rtol=0, atol=0)


@EVERY_LAYER
def test_the_state_of_another_batch_size_is_refused(name: str):
    layer = build(name)
    state = layer(batch(2))[1]
    with pytest.raises(ShapeError, match=r"^state\."):
        layer(batch(3), state)


@EVERY_LAYER
def test_a_saved_state_loads_with_weights_only(name: str):
    file, state = io.BytesIO(), build(name)(batch())[1]
    torch.save({"hidden": state}, file)
    file.seek(0)
    loaded = torch.load(file, weights_only=True)["hidden"]
    assert type(loaded) is type(state)
    torch.testing.assert_close(tuple(loaded), tuple(state))


@pytest.mark.parametrize("name", ["CNN", "Gated CNN"])
def test_an_exported_batch_is_not_bounded_by_the_cores_of_the_machine(name: str, monkeypatch):
    monkeypatch.setattr(core, "MOST_THREADS", 1)
    layer = build(name).eval()
    dynamic = ({1: torch.export.Dim("batch", min=1)},)
    program = torch.export.export(layer, (batch(3),), dynamic_shapes=(*dynamic,)).module()
    for size in (2, 16, 40):
        x = batch(size)
        torch.testing.assert_close(program(x)[0], layer(x)[0])


# a Python function as nonlinearity fixes the number of steps
@pytest.mark.parametrize("name", [name for name in LAYERS if name != "callable output"])
def test_a_layer_in_training_is_exported_for_sequences_of_any_length(name: str):
    layer, length = build(name), torch.export.Dim("length", min=2)
    example = batch(3)[:4]
    program = torch.export.export(layer, (example,), dynamic_shapes=({0: length},)).module()
    for steps in (2, 9):
        x = torch.cat((batch(3), batch(3)))[:steps]
        torch.testing.assert_close(program(x)[0], layer(x)[0])


@EVERY_LAYER
@pytest.mark.filterwarnings("ignore")  # torch warns of every size that becomes a constant
def test_a_traced_layer_computes_the_same_and_can_be_trained(name: str):
    model, x = Tagger(name).eval(), batch()
    traced = torch.jit.trace(model, (x,))  # type: ignore[no-untyped-call]
    torch.testing.assert_close(traced(x), model(x))
    traced(x).sum().backward()
    gradients = [p.grad for p in model.parameters()]
    model.zero_grad()
    model(x).sum().backward()
    torch.testing.assert_close(gradients, [p.grad for p in model.parameters()])


@EVERY_LAYER
def test_a_layer_is_a_leaf_of_a_symbolic_trace(name: str):
    model, x = Tagger(name).eval(), batch()
    graph = torch.fx.symbolic_trace(model)
    calls = [node.target for node in graph.graph.nodes if node.op == "call_module"]
    assert calls == ["layer"]
    torch.testing.assert_close(graph(x), model(x))


@pytest.mark.parametrize(
    "module", [nn.KernelActivation(4), nn.RKMCIFG(3, 4), nn.StringKernelRNN(3, 4), nn.KBRN(3, 4),
               nn.CNN(3, 4), nn.WLKernelNN(3, 4), nn.RandomWalkKernelNN(3, 4)],
    ids=lambda module: type(module).__name__,
)  # fmt: skip
def test_a_symbolic_trace_of_a_module_itself_says_what_to_trace(module: torch.nn.Module):
    with pytest.raises(KindError, match="Trace a model that contains it"):
        torch.fx.symbolic_trace(module)


@EVERY_LAYER
def test_fake_tensors_give_shapes(name: str):
    real = build(name)
    with FakeTensorMode(allow_non_fake_inputs=True) as mode:
        x = mode.from_tensor(batch())
        for layer in (build(name), real):
            output, _ = layer(x)
            assert output.shape == (6, 2, 8 if layer.bidirectional else 4)


@pytest.mark.parametrize(
    "module",
    [nn.RKMCIFG(3, 4), nn.KBRN(3, 4), nn.StringKernelRNN(3, 4), nn.CNN(3, 4),
     nn.KernelActivation(4)],
    ids=lambda module: type(module).__name__,
)  # fmt: skip
def test_the_class_of_a_layer_can_be_replaced_as_fsdp_does(module: torch.nn.Module):
    class FSDPModule:
        pass

    module.__class__ = type("FSDP", (FSDPModule, type(module)), {})
    assert isinstance(module, FSDPModule)


def test_parameters_that_were_moved_to_meta_name_what_to_pass_to_accelerate():
    layer = nn.RKMLSTM(3, 4, layer_norm=True)
    layer.cell_norm_l0.to_empty(device="meta")
    with pytest.raises(KindError, match="preload_module_classes"):
        layer(torch.randn(5, 2, 3))


@pytest.mark.parametrize("name", ["RKMCIFG", "StringKernelRNN", "KBRN"])
def test_plain_tensors_may_replace_all_parameters_as_hypernetworks_do(name: str):
    layer, x = getattr(nn, name)(3, 4), torch.randn(5, 2, 3)
    wanted = layer.eval()(x)[0]
    for part in layer.modules():
        for key, parameter in list(part.named_parameters(recurse=False)):
            del part._parameters[key]
            setattr(part, key, parameter.detach().clone())
    torch.testing.assert_close(layer(x)[0], wanted, rtol=0, atol=0)


def test_layers_of_another_kind_compile_after_as_many_of_one_as_dynamo_keeps():
    """Dynamo keeps some versions of a code object, which layers of all kinds shared."""
    graphs: list[torch.fx.GraphModule] = []

    def backend(graph: torch.fx.GraphModule, example: Any) -> Any:
        graphs.append(graph)
        return graph.forward

    torch._dynamo.reset()
    with torch._dynamo.config.patch(recompile_limit=2):  # of which the default is eight
        for units in (1, 2):
            torch.compile(nn.KernelActivation(units, 3), backend=backend)(torch.zeros(2, units))
        before = len(graphs)
        torch.compile(nn.RKMLSTM(2, 3), backend=backend)(torch.zeros(2, 1, 2))
    torch._dynamo.reset()
    assert len(graphs) > before
