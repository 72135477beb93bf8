"""Writing a model as a program of torch.export or as ONNX, and comparing it with the model."""

from __future__ import annotations

import importlib.util
import io
import logging
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch
import torch.nn.functional as F
from numpy.typing import NDArray
from torch import Tensor, nn
from torch._dynamo.exc import UserError
from torch.export import Dim, ExportedProgram
from torch.utils._pytree import tree_flatten, tree_leaves, tree_unflatten

from representer.errors import ArgumentError, KindError, MissingExtraError, RepresenterError
from representer.models import (
    GraphEnsemble,
    GraphRegressionNetwork,
    LanguageNetwork,
    SequenceNetwork,
    SignalNetwork,
)
from representer.models.graph_regressor import GINE
from representer.models.sequence_classifier import SeriesNetwork, StackedClassifier
from representer.nn import KAN, KernelActivation, KernelLinear
from representer.nn.recurrent.sequence_layer import SequenceLayer
from representer.ops import OPS
from representer.ops.scans import of_onnx
from representer.storage import atomic

# The tensors that an exported model takes and returns, by kind of model.

Axes = tuple[str | int, ...]  # a name is a size that may differ from call to call
Sizes = Mapping[str, int]
TRACED = {"time": 6, "batch": 3}  # no size of a model, and not 1, which torch would take as fixed
_KNOWN = (
    "a recurrent or graph layer of representer.nn, a KernelActivation, a KernelLinear, a KAN, "
    "a network of a kernel of sequences or vectors, or the network of a run"
)


@dataclass(frozen=True)
class Interface:
    """A model for inference, as a function of tensors."""

    module: nn.Module  # it takes the inputs in order, and returns the outputs in a flat tuple
    inputs: dict[str, Axes]  # the axes of each input
    outputs: tuple[str, ...]  # names of the outputs
    # from the sizes of named axes and a generator to inputs
    draw: Callable[[Sizes, torch.Generator], tuple[Tensor, ...]]
    step: int = 1  # the time must be a multiple of it
    time: int | None = None  # the only time, or None if it may differ

    def steps(self, sizes: Sizes) -> int:
        """Return the time of an example: that of ``sizes`` times `step`, if it may differ."""
        return self.time or sizes["time"] * self.step

    def example(self, sizes: Sizes = TRACED, seed: int = 0) -> tuple[Tensor, ...]:
        """Return random inputs of given sizes; the time is `steps`."""
        rounded = dict(sizes) | {"time": self.steps(sizes)}
        return self.draw(rounded, torch.Generator().manual_seed(seed))

    def __call__(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        """Return the outputs, without gradients."""
        with torch.no_grad():
            return self.module(*inputs)


def interface(model: nn.Module, *, state: bool = False) -> Interface:
    """Return how a model of this library is exported.

    With ``state``, it takes the state before the input, and returns the one after it.
    """
    for cls, describe in _kinds(model).items():
        # the forward of a user's subclass may take anything
        if isinstance(model, cls) and type(model).forward.__module__.startswith("representer."):
            if model.training:
                raise KindError("model", "in training mode", "one after model.eval()")
            for net in model.modules():
                if isinstance(net, nn.RNNBase | GINE):
                    raise KindError("model", f"one with the baseline {type(net).__name__}", _KNOWN)
            if not state or isinstance(model, LanguageNetwork):
                return describe(model)
            if isinstance(model, SequenceLayer) and not model.bidirectional:
                return _streaming(model)
            expected = "False but for a recurrent layer of one direction, or a language network"
            raise ArgumentError("state", state, expected)
    hint = "torch.onnx.export(model, inputs, path, dynamo=True) writes any other."
    raise KindError("model", type(model).__name__, _KNOWN, hint=hint)


class _Flat(nn.Module):
    """A model whose outputs are a flat tuple."""

    def __init__(self, model: nn.Module, run: Callable[..., Any]) -> None:
        super().__init__()
        self.model, self.run = model, run

    def forward(self, *inputs: Tensor) -> tuple[Tensor, ...]:
        return tuple(tree_leaves(self.run(self.model, *inputs)))


def _layer(model: Any) -> Interface:
    first = ("batch", "time") if model.batch_first else ("time", "batch")
    axes: Axes = (*first, model.input_size)
    windows = [f"window{k}" for k in range(len(model.suffixes))]
    fields = [name for name in model.layout.type._fields if name != "window"]
    has_window = "window" in model.layout.type._fields

    def draw(sizes: Sizes, generator: torch.Generator) -> tuple[Tensor, ...]:
        shape = [sizes.get(str(axis), axis) for axis in axes]
        dtype = next(model.parameters()).dtype
        x = torch.randn(shape, generator=generator, dtype=dtype)  # type: ignore[arg-type]
        return x, _lengths(sizes, generator, model.stride)

    return Interface(
        _Flat(model, lambda layer, x, lengths: layer(x, lengths=lengths)),
        {"input": axes, "lengths": ("batch",)},
        ("output", *fields, *(windows if has_window else ())), draw, model.stride,
    )  # fmt: skip


def _streaming(model: Any) -> Interface:
    """Return how a layer reads a part of a sequence: its state is an input and an output."""
    described = _layer(model)
    first = described.inputs["input"]

    def start(batch: int, time: int = 1, generator: torch.Generator | None = None) -> Any:
        sizes = {"time": time * model.stride, "batch": batch}
        shape = [sizes.get(str(axis), axis) for axis in first]
        dtype = next(model.parameters()).dtype
        with torch.no_grad():
            return model(torch.randn(shape, generator=generator, dtype=dtype))[1]  # type: ignore[arg-type]

    two, spec = tree_flatten(start(2))
    axes = {
        name: tuple(a if a == b else "batch" for a, b in zip(x.shape, y.shape, strict=True))
        for name, x, y in zip(described.outputs[1:], two, tree_leaves(start(3)), strict=True)
    }

    def draw(sizes: Sizes, generator: torch.Generator) -> tuple[Tensor, ...]:
        x, _ = described.draw(sizes, generator)
        return x, *tree_leaves(start(sizes["batch"], 7, generator))

    def read(layer: Any, x: Tensor, *state: Tensor) -> Any:
        return layer(x, tree_unflatten(list(state), spec))

    outputs = ("output", *(f"new_{name}" for name in axes))
    return Interface(_Flat(model, read), {"input": first, **axes}, outputs, draw, model.stride)


def _activation(model: Any) -> Interface:
    first: Any = model.layers[0] if isinstance(model, KAN) else model
    features, dtype = first.centers.shape[0], first.centers.dtype
    axes: Axes = ("batch", "time", features)

    def draw(sizes: Sizes, generator: torch.Generator) -> tuple[Tensor, ...]:
        shape = sizes["batch"], sizes["time"], features
        return (2 * torch.randn(shape, generator=generator, dtype=dtype),)

    return Interface(_Flat(model, lambda f, x: f(x)), {"input": axes}, ("output",), draw)


def _texts(model: Any) -> Interface:
    def draw(sizes: Sizes, generator: torch.Generator) -> tuple[Tensor, ...]:
        shape, words = (sizes["batch"], sizes["time"]), model.embedding.num_embeddings
        return (torch.randint(words, shape, generator=generator), _lengths(sizes, generator))

    inputs: dict[str, Axes] = {"tokens": ("batch", "time"), "lengths": ("batch",)}
    run = _Flat(model, lambda network, tokens, lengths: network(tokens, lengths))
    return Interface(run, inputs, ("scores",), draw)


def _signals(model: Any) -> Interface:
    channels = model.config.num_channels
    only = model.config.window_length if model.config.pooling == "flatten" else None
    axes: Axes = ("batch", channels, only or "time")

    def draw(sizes: Sizes, generator: torch.Generator) -> tuple[Tensor, ...]:
        shape = sizes["batch"], channels, sizes["time"]
        return (torch.randn(shape, generator=generator),)

    run = _Flat(model, lambda network, signal: network(signal))
    return Interface(run, {"signal": axes}, ("scores",), draw, model.config.stride, only)


def _series(model: Any) -> Interface:
    axes: Axes = ("batch", "time", model.config.num_channels)

    def draw(sizes: Sizes, generator: torch.Generator) -> tuple[Tensor, ...]:
        shape = sizes["batch"], sizes["time"], model.config.num_channels
        return torch.randn(shape, generator=generator), _lengths(sizes, generator)

    run = _Flat(model, lambda network, series, lengths: network(series, lengths))
    return Interface(run, {"series": axes, "lengths": ("batch",)}, ("scores",), draw)


def _language(model: Any) -> Interface:
    """Return log-probabilities of the next token at every step, and the state after the last."""

    def read(network: Any, tokens: Tensor, *state: Tensor) -> Any:
        features, _, after = network(tokens, unflatten(state))
        return network.output.log_probabilities(features), after

    def start(batch: int) -> Any:
        with torch.no_grad():
            return model(torch.zeros(1, batch, dtype=torch.int64)).state

    leaves, spec = tree_flatten(start(2))

    def unflatten(state: tuple[Tensor, ...]) -> Any:
        return tree_unflatten(list(state), spec)

    names = [f"state{k}" for k in range(len(leaves))]
    axes = {
        name: tuple(a if a == b else "batch" for a, b in zip(two.shape, three.shape, strict=True))
        for name, two, three in zip(names, leaves, tree_leaves(start(3)), strict=True)
    }

    def draw(sizes: Sizes, generator: torch.Generator) -> tuple[Tensor, ...]:
        words, shape = model.config.vocabulary_size, (sizes["time"], sizes["batch"])
        tokens = torch.randint(words, shape, generator=generator)
        state = tree_leaves(start(sizes["batch"]))
        return tokens, *state

    inputs: dict[str, Axes] = {"tokens": ("time", "batch"), **axes}
    outputs = ("log_probabilities", *(f"new_{name}" for name in names))
    return Interface(_Flat(model, read), inputs, outputs, draw)


def _graphs(model: Any) -> Interface:
    """Return the outputs of each graph of a batch, whose graphs are numbered without gaps."""
    layer = model
    while not hasattr(layer, "in_channels"):  # of an ensemble or of a network with a head
        layer = layer.members[0] if hasattr(layer, "members") else layer.network
    nodes, edges = layer.in_channels, layer.edge_dim
    inputs: dict[str, Axes] = {"x": ("nodes", nodes), "edge_index": (2, "edges")}
    inputs |= {} if edges is None else {"edge_attr": ("edges", edges)}

    def run(network: Any, x: Tensor, edge_index: Tensor, *rest: Tensor) -> Tensor:
        *edge_attr, batch = rest
        graphs: Any = batch.max().item() + 1
        torch._check(graphs >= 1)
        torch._check(graphs <= x.shape[0])
        return network(x, edge_index, *(edge_attr or (None,)), batch, graphs)

    def draw(sizes: Sizes, generator: torch.Generator) -> tuple[Tensor, ...]:
        """Return graphs of `time` nodes with random edges, the number of which differs."""
        nodes_of_one, graphs, dtype = sizes["time"], sizes["batch"], next(model.parameters()).dtype
        x = torch.randn(graphs * nodes_of_one, nodes, generator=generator, dtype=dtype)
        first = nodes_of_one * torch.arange(graphs).repeat_interleave(2 * nodes_of_one + 1)
        ends = torch.randint(nodes_of_one, (2, len(first)), generator=generator) + first
        features = torch.randn(len(first), edges or 0, generator=generator, dtype=dtype)
        batch = torch.arange(graphs).repeat_interleave(nodes_of_one)
        return x, ends, *(() if edges is None else (features,)), batch

    return Interface(_Flat(model, run), inputs | {"batch": ("nodes",)}, ("output",), draw)


def _kernel(model: Any) -> Interface:
    """Return the kernel of sequences or vectors with each reference."""
    from representer.kernel_network import no_program

    features, dtype = model.input_size, next(model.parameters()).dtype
    if model.kernel.objects not in ("sequences", "vectors"):
        expected = "one of sequences or vectors"
        hint = "torch.export.export writes it for graphs of fixed sizes."
        raise KindError("model", f"a network of {model.kernel.objects}", expected, hint=hint)
    is_vectors = model.kernel.objects == "vectors"
    if not is_vectors and (reason := no_program(model.kernel)):
        expected = "one that takes sequences of any length"
        raise KindError("model", f"the network of {model.kernel!r}", expected, hint=reason)

    def draw(sizes: Sizes, generator: torch.Generator) -> tuple[Tensor, ...]:
        shape = sizes["batch"], *(() if is_vectors else (sizes["time"],)), features
        # Of norm 1/2: deep kernels refuse sums over a sequence whose product with itself reaches 2,
        # and with a decay of 0.5 such a sum is at most twice a vector.
        x = F.normalize(torch.randn(shape, generator=generator, dtype=dtype), dim=-1) / 2
        return (x,) if is_vectors else (x, _lengths(sizes, generator))

    inputs: dict[str, Axes] = {"input": ("batch", features)}
    if not is_vectors:
        inputs = {"input": ("batch", "time", features), "lengths": ("batch",)}
    return Interface(_Flat(model, lambda net, *given: net(*given)), inputs, ("output",), draw)


def _lengths(sizes: Sizes, generator: torch.Generator, stride: int = 1) -> Tensor:
    """Return random lengths; one is that of the padded sequence."""
    most = sizes["time"] // stride
    lengths = torch.randint(1, most + 1, (sizes["batch"],), generator=generator)
    lengths[-1] = most
    return lengths * stride


def _kinds(model: nn.Module) -> dict[type[nn.Module], Callable[[Any], Interface]]:
    """Return the description of each kind of model; graph layers are imported if one is given."""
    kinds: dict[type[nn.Module], Callable[[Any], Interface]] = {
        SequenceLayer: _layer,
        KernelActivation: _activation,
        KernelLinear: _activation,
        KAN: _activation,
        SequenceNetwork: _texts,
        StackedClassifier: _texts,
        SignalNetwork: _signals,
        SeriesNetwork: _series,
        LanguageNetwork: _language,
        GraphRegressionNetwork: _graphs,
        GraphEnsemble: _graphs,
    }
    if type(model).__module__.startswith("representer.nn.graph"):
        from representer.nn.graph.walks import GraphNetwork

        kinds[GraphNetwork] = _graphs
    if type(model).__module__.startswith("representer.kernel_network"):
        from representer.kernel_network import KernelNetwork

        kinds[KernelNetwork] = _kernel
    return kinds


OPSET = 20
TOLERANCE = 1e-5  # of float32, relative to the largest output if that is above 1
SIZES = ({"time": 2, "batch": 5}, {"time": 11, "batch": 2}, {"time": 40, "batch": 4})

Run = Callable[..., Sequence[Any]]


class Parity(NamedTuple):
    """The largest difference of an exported model from the original on random inputs.

    Attributes:
        time: Steps of the padded sequences.
        batch: Number of sequences.
        difference: The largest difference of an output, divided by the largest output if that is
            above 1.
    """

    time: int
    batch: int
    difference: float


class ExportError(RepresenterError, RuntimeError):
    """An exported model does not compute what the original does."""


def to_torch(
    model: nn.Module, path: str | Path, *, state: bool = False, tolerance: float = TOLERANCE
) -> list[Parity]:
    """Write a model as a program of ``torch.export``, and return its parity.

    ``torch.export.load(path).module()`` runs it; importing `representer` gives it the operators.

    Args:
        model: A layer or a network of this library, in evaluation mode.
        path: The file, ``.pt2``.
        state: Take the state of a recurrent layer before the input, and return the one after it:
            parts of a sequence, in any split, give the outputs of the whole.
        tolerance: The largest difference that is no error, see `Parity`.

    Raises:
        KindError: The model is of a kind that cannot be exported.
        ArgumentError: `state` is requested of another model than a recurrent layer.
        ExportError: The program does not compute what the model does.
    """
    described, content = interface(model, state=state), io.BytesIO()
    torch.export.save(exported(described), content)  # its writer of files aborts on a full disk
    return _written(described, torch_run, content.getvalue(), path, tolerance)


def to_onnx(
    model: nn.Module, path: str | Path, *, state: bool = False, tolerance: float = TOLERANCE
) -> list[Parity]:
    """Write a model as ONNX with dynamic batch and time, and return its parity.

    Each direction of each layer is one Scan node.

    Args:
        model: A layer or a network of this library, in evaluation mode.
        path: The file, ``.onnx``.
        state: Take the state of a recurrent layer before the input, and return the one after it:
            parts of a sequence, in any split, give the outputs of the whole.
        tolerance: The largest difference that is no error, see `Parity`.

    Raises:
        KindError: The model is of a kind that cannot be exported.
        MissingExtraError: ONNX or its runtime are not installed.
        ArgumentError: `state` is requested of another model than a recurrent layer.
        ExportError: The file does not compute what the model does.
    """
    require_onnx()
    described = interface(model, state=state)
    with torch.no_grad(), quiet():
        program = exported(described).run_decompositions(_scans())
        written = torch.onnx.export(
            program, dynamo=True, opset_version=OPSET, input_names=list(described.inputs),
            output_names=list(described.outputs), verbose=False,
        )  # fmt: skip
    assert written is not None
    _tidy(written.model, described)
    content = written.model_proto.SerializeToString()
    return _written(described, onnx_run, content, path, tolerance)


def lowered(model: nn.Module, *, state: bool = False, longest: int = 1024) -> ExportedProgram:
    """Return a model as a program of torch's operators alone, for runtimes without this library.

    Its batch is one sequence of 2 to `longest` steps, which a loop of torch (``scan``) reads, or
    graphs of 2 to `longest` nodes and up to eight times as many edges in all; the runtime of
    ExecuTorch runs it. See `step_program` for runtimes without loops.

    Args:
        model: A layer or a network of this library, in evaluation mode.
        state: As of `to_onnx`.
        longest: The largest number of steps or nodes, for which runtimes reserve memory.

    Raises:
        KindError: The model is of a kind that cannot be exported.
        ArgumentError: `state` is requested of another model than a recurrent layer.
    """
    described = interface(model, state=state)
    step = described.step
    dims: dict[Any, Any] = {
        name: Dim(name, min=2, max=most * longest)
        for name, most in {"time": 1, "nodes": 1, "edges": 8}.items()
    }
    dims["time"] = dims["time"] * step if step > 1 else dims["time"]
    shapes = tuple(
        {i: dims[axis] for i, axis in enumerate(axes) if axis in dims}
        for axes in described.inputs.values()
    )
    example = described.example({"time": TRACED["time"], "batch": 1})
    with torch.no_grad(), quiet():
        program = torch.export.export(described.module, example, dynamic_shapes={"inputs": shapes})
        return program.run_decompositions(_scans())


def _scans() -> dict[Any, Callable[..., Any]]:
    """Return the operators of this library as loops of torch."""
    return {getattr(torch.ops.representer, name).default: of_onnx(o) for name, o in OPS.items()}


def _written(
    described: Interface, load: Callable[[bytes], Run], content: bytes, path: str | Path,
    tolerance: float,
) -> list[Parity]:  # fmt: skip
    """Write a program that computes what the model does, and return its parity."""
    parity = checked(described, load(content), path, tolerance)
    atomic.write_bytes(path, content)
    return parity


def exported(described: Interface) -> ExportedProgram:
    """Return the program of a model, with every named axis dynamic."""
    shapes = tuple(
        {i: Dim.DYNAMIC for i, axis in enumerate(axes) if isinstance(axis, str)}
        for axes in described.inputs.values()
    )
    try:
        with torch.no_grad(), quiet():
            return torch.export.export(
                described.module, described.example(), dynamic_shapes={"inputs": shapes}
            )
    except UserError as error:
        hint = "A Python function as nonlinearity fixes them; use one by name."
        expected = f"one whose time and batch may differ ({str(error).splitlines()[0]})"
        raise KindError("model", "one with fixed sizes", expected, hint=hint) from None


def torch_run(program: str | Path | bytes) -> Run:
    """Return a program of ``torch.export`` as a function from tensors to arrays."""
    file = io.BytesIO(program) if isinstance(program, bytes) else program
    loaded = torch.export.load(file).module()

    def run(*inputs: Tensor) -> list[np.ndarray]:
        with torch.no_grad():
            return [x.numpy() for x in loaded(*inputs)]

    return run


def onnx_run(program: str | Path | bytes, threads: int = 0) -> Run:
    """Return an ONNX file as a function from tensors or arrays to arrays.

    0 threads are all.
    """
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    session = onnxruntime.InferenceSession(program, options, providers=["CPUExecutionProvider"])
    names = [each.name for each in session.get_inputs()]
    return lambda *x: session.run(None, dict(zip(names, map(np.asarray, x), strict=True)))


def parity(described: Interface, run: Run) -> list[Parity]:
    """Compare a function of arrays with a model, at the sizes of `SIZES`."""
    rows = []
    for seed, sizes in enumerate(SIZES):
        inputs = described.example(sizes, seed)
        wanted, results = described(*inputs), run(*inputs)
        worst = max(map(_difference, results, wanted))
        rows.append(Parity(described.steps(sizes), sizes["batch"], worst))
    return rows


def checked(
    described: Interface, run: Run, path: str | Path, tolerance: float = TOLERANCE
) -> list[Parity]:
    """Return the parity of an exported model."""
    rows = parity(described, run)
    for time, batch, difference in rows:
        if not difference <= tolerance:  # NaN too
            raise ExportError(
                f"{path} differs from the model by {difference:.1e} at {time} steps and a batch "
                f"of {batch}; expected at most {tolerance:g}. Check that its weights are finite; "
                "a layer that amplifies rounding errors needs a larger tolerance."
            )
    return rows


def require_onnx() -> None:
    """Check that ONNX can be written and run."""
    for name in ("onnx", "onnxscript", "onnxruntime"):
        if importlib.util.find_spec(name) is None:
            raise MissingExtraError("ONNX", name, "onnx")


def _difference(result: Any, wanted: Tensor) -> float:
    if not wanted.numel():
        return 0.0
    reference = wanted.double()
    apart = (torch.as_tensor(np.asarray(result)).double() - reference).abs().max()
    return float(apart / reference.abs().max().clamp(min=1.0))


def _tidy(model: Any, described: Interface) -> None:
    """Remove what nothing reads and where it came from; name dynamic axes as the interface does."""
    from onnx_ir import Shape
    from onnx_ir.passes.common import ClearMetadataAndDocStringPass, RemoveUnusedNodesPass

    RemoveUnusedNodesPass()(model)
    ClearMetadataAndDocStringPass()(model)
    named = {}
    for value, axes in zip(model.graph.inputs, described.inputs.values(), strict=True):
        for size, axis in zip(value.shape, axes, strict=True):
            if isinstance(axis, str):
                named[size.value] = axis
    values = [*model.graph.inputs]
    for node in model.graph.all_nodes():
        values.extend(node.outputs)
        for attribute in node.attributes.values():
            if attribute.name == "body":
                values.extend(attribute.value.inputs)
    for value in values:
        if value.shape is not None:
            sizes = (size if isinstance(size, int) else size.value for size in value.shape)
            value.shape = Shape([named.get(size, size) for size in sizes])


@contextmanager
def quiet() -> Iterator[None]:
    """Silence what the exporter says of packages that no model here needs."""
    loggers = [logging.getLogger(name) for name in ("torch.onnx", "onnx_ir")]
    levels = [logger.level for logger in loggers]
    for logger in loggers:
        logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        for logger, level in zip(loggers, levels, strict=True):
            logger.setLevel(level)


# Weights of 8 bits in an ONNX file; activations and everything else stay in float32.

LEAST = 1024  # entries of a weight; smaller ones save nothing


def to_int8(source: str | Path, path: str | Path) -> None:
    """Write an ONNX file with every large matrix of weights in 8 bits.

    A weight is :math:`s_i q_i` with one scale for each index i of one axis, the axis that
    loses least. Rows of an embedding are converted after they are selected.

    Args:
        source: An ONNX file in float32, as `to_onnx` writes it.
        path: The file to write.
    """
    import onnx_ir as ir

    model = ir.load(source)
    graph = model.graph
    for weight in [*graph.initializers.values()]:
        assert weight.const_value is not None
        values = weight.const_value.numpy()
        if values.dtype != np.float32 or values.ndim < 2 or values.size < LEAST:
            continue
        gathers = [node for node, k in weight.uses() if node.op_type == "Gather" and k == 0]
        axis, quantized, scale = quantize(values, (0,) if gathers else range(values.ndim))
        name = str(weight.name)
        graph.initializers.pop(name)
        q, s = (_initializer(graph, f"{name}_{suffix}", array)
                for suffix, array in (("int8", quantized), ("scale", scale)))  # fmt: skip
        for node in gathers:
            _gather_then_scale(ir, node, q, s)
        if weight.uses():
            made = ir.node("DequantizeLinear", [q, s], {"axis": axis})
            graph.insert_before(graph[0], made)
            weight.replace_all_uses_with(made.outputs[0])
    atomic.write_bytes(path, ir.to_proto(model).SerializeToString())


def quantize(
    values: NDArray[np.float32], axes: Any
) -> tuple[int, NDArray[np.int8], NDArray[np.float32]]:
    """Return the axis with the smallest squared error, the integers and the scales."""
    best: tuple[float, int, Any, Any] | None = None
    for axis in axes:
        others = tuple(i for i in range(values.ndim) if i != axis)
        most = np.abs(values).max(axis=others, keepdims=True)
        scale = np.where(most > 0, most / 127, 1).astype(np.float32)
        integers = np.rint(values / scale).astype(np.int8)
        error = float(np.square(integers * scale - values).sum())
        if best is None or error < best[0]:
            best = error, axis, integers, scale.ravel()
    assert best is not None
    return best[1:]


def _initializer(graph: Any, name: str, array: Any) -> Any:
    import onnx_ir as ir

    value = ir.val(name, const_value=ir.tensor(array, name=name))
    graph.register_initializer(value)
    return value


def _gather_then_scale(ir: Any, node: Any, q: Any, s: Any) -> None:
    """Select rows as integers, and multiply them by their scales."""
    old, graph = node.outputs[0], node.graph
    rows = ir.node("Gather", [q, node.inputs[1]], {"axis": 0})
    cast = ir.node("Cast", [rows.outputs[0]], {"to": ir.DataType.FLOAT})
    scales = ir.node("Gather", [s, node.inputs[1]], {"axis": 0})
    last = _initializer(graph, f"{q.name}_last_axis", np.array([-1]))
    wide = ir.node("Unsqueeze", [scales.outputs[0], last])
    product = ir.node("Mul", [cast.outputs[0], wide.outputs[0]])
    graph.insert_before(node, [rows, cast, scales, wide, product])
    old.replace_all_uses_with(product.outputs[0])
    graph.remove(node, safe=True)
