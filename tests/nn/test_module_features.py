"""Every layer with every feature of torch that handles modules."""

from __future__ import annotations

import copy
import importlib
import io
import pickle
import sys
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor
from torch import nn as torch_nn
from torch.nn.utils import parametrizations, parametrize, prune
from torch.utils.checkpoint import checkpoint

from representer import nn
from representer.checks import check_integer
from representer.errors import ArgumentError, KindError
from representer.nn.layer import check_flag, check_probability

from .modules import GRAPHS, MODULES, SEQUENCES, inputs, output

replication = importlib.import_module("torch.nn.parallel.replicate")  # also a function
Build = Callable[[], torch_nn.Module]
Feature = Callable[[str, Build], None]
FEATURES: dict[str, Feature] = {}


def feature(function: Feature) -> Feature:
    FEATURES[function.__name__] = function
    return function


def assert_same(name: str, module: torch_nn.Module, other: torch_nn.Module) -> None:
    assert torch.equal(output(name, module.eval()), output(name, other.eval()))


def on_meta(build: Build) -> torch_nn.Module:
    with torch.device("meta"):
        return build()


def matrices(module: torch_nn.Module) -> list[tuple[torch_nn.Module, str]]:
    """Return the owner and name of each weight that is a matrix."""
    owned = [(m, n, p) for m in module.modules() for n, p in m.named_parameters(recurse=False)]
    return [(m, n) for m, n, p in owned if p.dim() == 2]


@feature
def copies(name: str, build: Build) -> None:
    module = build()
    output(name, module).sum().backward()
    for twin in (copy.deepcopy(module), pickle.loads(pickle.dumps(module))):
        assert_same(name, twin, module)


@feature
def states(name: str, build: Build) -> None:
    module, other, file = build(), build(), io.BytesIO()
    torch.save(module.state_dict(), file)
    file.seek(0)
    other.load_state_dict(torch.load(file, weights_only=True))
    assert_same(name, other, module)


@feature
def meta(name: str, build: Build) -> None:
    module, empty = build(), on_meta(build)
    assert all(x.is_meta for x in (*empty.parameters(), *empty.buffers()))
    filled = empty.to_empty(device="cpu")
    filled.load_state_dict(module.state_dict())
    assert_same(name, filled, module)
    assigned = on_meta(build)
    assigned.load_state_dict(module.state_dict(), assign=True)
    assert_same(name, assigned, module)


@feature
def parametrized(name: str, build: Build) -> None:
    module = build().eval()
    plain = output(name, module)
    for owner, weight in matrices(module):
        parametrizations.weight_norm(owner, weight)
    torch.testing.assert_close(output(name, module), plain)
    output(name, module).square().sum().backward()
    torch.optim.SGD(module.parameters(), 0.1).step()
    assert not torch.equal(output(name, module), plain)
    module = build().eval()
    for owner, weight in matrices(module):
        parametrizations.spectral_norm(owner, weight)
    scaled = output(name, module)
    for owner in [m for m in module.modules() if parametrize.is_parametrized(m)]:
        for weight in list(getattr(owner, "parametrizations")):  # noqa: B009
            parametrize.remove_parametrizations(owner, weight)
    torch.testing.assert_close(output(name, module), scaled)


@feature
def pruned(name: str, build: Build) -> None:
    module = build().eval()
    for owner, weight in matrices(module):
        prune.random_unstructured(owner, weight, 0.7)
    sparse = output(name, module)
    assert sparse.isfinite().all()
    sparse.sum().backward()
    for owner in module.modules():
        for weight in [n for n in owner._parameters if n.endswith("_orig")]:
            prune.remove(owner, weight.removesuffix("_orig"))
    torch.testing.assert_close(output(name, module), sparse)


@feature
def weights_set_through_data(name: str, build: Build) -> None:
    module, other = build().eval(), build().eval()
    for parameter in module.parameters():
        parameter.data = parameter.data * 1.5 + 0.1
    other.load_state_dict(module.state_dict())
    assert_same(name, module, other)
    for parameter in module.parameters():
        parameter.data.mul_(0.5)
    other.load_state_dict(module.state_dict())
    assert_same(name, module, other)


@feature
def checkpoints(name: str, build: Build) -> None:
    module, (x, *more) = build().eval(), inputs(name)
    gradients = []
    for use_reentrant in (None, False, True):
        point = x.clone().requires_grad_()

        def run(x: Tensor) -> Tensor:
            return output(name, module, x, *more)

        if use_reentrant is None:
            out = run(point)
        else:
            out = checkpoint(run, point, use_reentrant=use_reentrant)
        assert isinstance(out, Tensor)
        module.zero_grad()
        out.square().sum().backward()
        gradients.append([p.grad for p in (point, *module.parameters()) if p.grad is not None])
    for found in gradients[1:]:
        torch.testing.assert_close(found, gradients[0])


@feature
def shared_memory(name: str, build: Build) -> None:
    module = build().eval()
    before = output(name, module)
    module.share_memory()
    assert all(parameter.is_shared() for parameter in module.parameters())
    assert torch.equal(output(name, module), before)


@feature
def inference_mode(name: str, build: Build) -> None:
    module = build().eval()
    expected = output(name, module)
    with torch.inference_mode():
        assert torch.equal(output(name, module), expected)
        output(name, build().train())
    output(name, module.train()).sum().backward()


@feature
def autocast(name: str, build: Build) -> None:
    for dtype in (torch.bfloat16, torch.float16):
        module = build()
        with torch.autocast("cpu", dtype):
            output(name, module).float().square().sum().backward()
        for parameter in module.parameters():
            if parameter.grad is not None:
                assert parameter.grad.dtype == parameter.dtype
                assert parameter.grad.isfinite().all()


@feature
def dtypes(name: str, build: Build) -> None:
    x, *more = inputs(name)
    for dtype in (torch.bfloat16, torch.float64):
        module = build().to(dtype).eval()
        assert output(name, module, x.to(dtype), *more).dtype == dtype


@feature
def empty_batches(name: str, build: Build) -> None:
    module, (x, *more) = build(), inputs(name)
    is_normalized = getattr(module, "norm", None) is not None  # which needs two rows to train
    for is_training in (False, not is_normalized):
        module.train(is_training)
        given = (x[:0], EMPTY) if more else (x[:, :0],)
        found = output(name, module, *given)
        assert not found.any()  # an empty graph has a sum, 0
        found.sum().backward()


EMPTY = torch.zeros(2, 0, dtype=torch.int64)


@feature
def stacked_with_vmap(name: str, build: Build) -> None:
    modules = [build().eval() for _ in range(2)]
    stack = torch.func.stack_module_state(modules)  # type: ignore[arg-type]
    base = copy.deepcopy(modules[0]).to("meta")

    def run(parameters: dict[str, Tensor], buffers: dict[str, Tensor]) -> Tensor:
        found = torch.func.functional_call(base, (parameters, buffers), inputs(name))
        return found[0] if isinstance(found, tuple) else found

    for found, module in zip(torch.vmap(run)(*stack), modules, strict=True):
        torch.testing.assert_close(found, output(name, module))


@feature
def dynamic_quantization(name: str, build: Build) -> None:
    module = build().eval()
    model = torch_nn.ModuleList([module, torch_nn.Linear(3, 2)])
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # deprecated; torchao is to take its place
        quantized = torch.ao.quantization.quantize_dynamic(model, {torch_nn.Linear})
    assert "quantized" in type(quantized[1]).__module__
    assert_same(name, quantized[0], module)


@feature
def data_parallel_hooks(name: str, build: Build) -> None:
    module, seen, hook = build().eval(), [], sys.excepthook

    def halved(_, bucket):  # torch reads annotations, which must be no strings
        seen.append(bucket.buffer().numel())
        done = torch.futures.Future()
        done.set_result(bucket.buffer() / 2)
        return done

    twin = copy.deepcopy(module)
    output(name, module).sum().backward()
    store = torch.distributed.HashStore()
    torch.distributed.init_process_group("gloo", store=store, rank=0, world_size=1)
    try:
        parallel = torch_nn.parallel.DistributedDataParallel(twin, find_unused_parameters=True)
        parallel.register_comm_hook(None, halved)
        output(name, parallel).sum().backward()
        del parallel  # as the last owner of the group it would join its threads holding the GIL
    finally:
        torch.distributed.destroy_process_group()
        sys.excepthook = hook
    assert sum(seen) == sum(p.numel() for p in twin.parameters() if p.requires_grad)
    for own, other in zip(module.parameters(), twin.parameters(), strict=True):
        if own.grad is not None and other.grad is not None:
            torch.testing.assert_close(2 * other.grad, own.grad)
    assert any(parameter.grad is not None for parameter in twin.parameters())


@pytest.mark.suite
@pytest.mark.parametrize("name", MODULES)
@pytest.mark.parametrize("kind", FEATURES)
def test_a_layer_supports(kind: str, name: str):
    torch.manual_seed(0)
    FEATURES[kind](name, MODULES[name])


@pytest.mark.parametrize("name", SEQUENCES)
def test_a_replica_of_data_parallel_runs_and_gives_gradients(name: str, monkeypatch):
    def copied(tensors: list[Tensor], devices: list[int], detach: bool = False) -> list[Any]:
        return [[tensor.clone() for tensor in tensors] for _ in devices]

    monkeypatch.setattr(replication, "_broadcast_coalesced_reshape", copied)  # it needs GPUs
    module = MODULES[name]().eval()
    (replica,) = replication.replicate(module, [0])
    found, wanted = output(name, replica), output(name, module)
    assert torch.equal(found, wanted)
    gradients = (torch.autograd.grad(y.sum(), [*module.parameters()]) for y in (found, wanted))
    torch.testing.assert_close(*gradients)


@pytest.mark.suite
@pytest.mark.slow
@pytest.mark.parametrize("name", [n for n in SEQUENCES if n != "module as output"])  # a loop
def test_a_compiled_layer_is_not_compiled_again_for_other_lengths_and_batches(name: str):
    from torch._dynamo.testing import CompileCounterWithBackend

    torch._dynamo.reset()
    counter = CompileCounterWithBackend("aot_eager")
    layer = MODULES[name]()
    compiled, counts = torch.compile(layer, backend=counter, dynamic=True), []
    # no size of the first is a width of a layer, of which torch would take it as the same number
    for time, batch in ((15, 5), (17, 8), (9, 7), (16, 11)):
        compiled(torch.randn(time, batch, 3))[0].sum().backward()
        counts.append(counter.frame_count)
    assert len(set(counts)) == 1


def test_the_cases_have_every_layer():
    kinds = {type(build()).__name__ for build in MODULES.values()}
    assert {"RKMLSTM", "StringKernelRNN", "KBRN", "KernelActivation"} <= kinds
    graphs = {"WLKernelNN", "RandomWalkKernelNN", "DeepGraphKernelNN", "TreeKernelNN"}
    assert not GRAPHS or graphs <= kinds


# Checks of the options of layers.


def test_valid_values_are_returned():
    assert check_integer("n", 3) == 3
    assert check_probability("p", 1) == 1.0
    assert check_probability("p", np.float32(0.5)) == 0.5
    values = (True, False, 1, 0, np.bool_(True))
    assert [check_flag("n", value) for value in values] == [True, False, True, False, True]


@pytest.mark.parametrize(("check", "value", "message"), [
    (check_integer, 0, "n is 0; expected a positive integer"),
    (check_integer, True, "n is True; expected a positive integer"),
    (lambda name, value: check_integer(name, value, 0), -1, "an integer of at least 0"),
    (lambda name, value: check_integer(name, value, 2, 4), 5, "an integer from 2 to 4"),
    (check_probability, 1.5, "n is 1.5; expected a number from 0 to 1"),
    (check_probability, False, "n is False; expected a number from 0 to 1"),
    (check_flag, "False", "n is 'False'; expected True or False"),
    (check_flag, 2, "n is 2; expected True or False"),
    (check_flag, 1.0, "n is 1.0; expected True or False"),
    (check_flag, None, "n is None; expected True or False"),
])  # fmt: skip
def test_other_values_are_named(check: Any, value: Any, message: str):
    with pytest.raises(ArgumentError, match=message):
        check("n", value)


@pytest.mark.parametrize(
    "layer", [nn.RKMCIFG(3, 4), nn.KBRN(3, 4), nn.CNN(3, 4), nn.KernelActivation(3)],
    ids=lambda layer: type(layer).__name__,
)  # fmt: skip
@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")
def test_inputs_that_are_no_dense_tensors_are_refused(layer: torch.nn.Module):
    parts = [torch.ones(2, 3), torch.ones(4, 3)]
    for value, message in (
        (torch.ones(5, 2, 3).to_sparse(), "torch.sparse_coo; expected a dense tensor"),
        (torch.nested.as_nested_tensor(parts, layout=torch.jagged), "a nested tensor; expected"),
        (torch.nested.as_nested_tensor(parts), "a nested tensor; expected"),
        ([[1.0, 2.0, 3.0]], "input is list; expected a tensor"),
    ):
        with pytest.raises(KindError, match=message):
            layer(value)


@pytest.mark.filterwarnings("ignore:The PyTorch API of nested tensors:UserWarning")
def test_nested_tensors_are_no_nodes_and_no_step():
    parts = torch.nested.as_nested_tensor([torch.ones(2, 3), torch.ones(4, 3)])
    edges = torch.tensor([[0], [1]])
    for layer in (nn.RandomWalkKernelNN(3, 4), nn.WLKernelNN(3, 4), nn.DeepGraphKernelNN(3, 4)):
        with pytest.raises(KindError, match="x is a nested tensor; expected a dense tensor"):
            layer(parts, edges)
    with pytest.raises(KindError, match="x_t is a nested tensor; expected a dense tensor"):
        nn.RKMCIFG(3, 4).step(parts)


def test_another_layer_of_torch_is_no_lstm():
    with pytest.raises(KindError, match=r"lstm is GRU; expected a torch.nn.LSTM"):
        nn.NgramLSTM.from_torch(torch.nn.GRU(3, 4))  # type: ignore[arg-type]
