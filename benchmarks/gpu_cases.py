"""Cases of the GPU benchmark, layers and their baselines on one input, and the goals for them."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from itertools import product
from typing import Any, NamedTuple, cast
from unittest.mock import patch

import torch
from torch import Tensor, nn

from ops.samples import Sample
from ops.samples.rkm_scan import CELLS, tensors
from representer.estimators.language_training import CarriedState, detached, example_state
from representer.kernels import StringKernel
from representer.models import LanguageModelConfig, LanguageNetwork
from representer.nn import RKMCIFG, RKMLSTM, KernelActivation, StringKernelRNN
from representer.nn.recurrent import wavefront
from representer.ops import OPS, gated_scan, string_gram, use_backend
from representer.training.config import Loss
from representer.training.cuda_graphs import WARM_UP, CapturedSteps

DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32}
STEPWISE, ONE_PASS = "RKMLSTM, step by step", "gated_scan, one pass"
EAGER, CAPTURED = "launched from Python", "from a CUDA graph"
WHOLE = "with clipping and Adam in the graph"
FORWARD, TRAINING = "forward", "forward and backward"
Calls = dict[str, Callable[[], object]]  # by the name of the layer, the baseline first


class Case(NamedTuple):
    """Timed calls by passes, and the sizes and the dtype that name the case."""

    size: tuple[int, ...]
    dtype: str
    modes: dict[str, Calls]
    has_graphs: bool = True  # replays of captured graphs are timed, too


Make = Callable[[str], Case]  # from the device type


def passes(size: tuple[int, ...], dtype: str, layers: dict[str, Any], x: Tensor) -> Case:
    """Return the calls of functions of x, whose parameters are those of their ``layer``."""

    def forward(layer: Any) -> object:
        with torch.no_grad():
            return layer(x)

    def training(layer: Any) -> object:
        result = layer(x)
        output = result if isinstance(result, Tensor) else result[0]
        parameters = list(getattr(layer, "parameters", getattr(layer, "weights", None))())
        return torch.autograd.grad(output, parameters, torch.ones_like(output), allow_unused=True)

    modes = {FORWARD: forward, TRAINING: training}
    return Case(size, dtype, {mode: {name: partial(run, layer) for name, layer in layers.items()}
                              for mode, run in modes.items()})  # fmt: skip


def function_of(layer: nn.Module, run: Callable[[Tensor], Any]) -> Callable[[Tensor], Any]:
    """Return a function with the parameters of a layer, which it computes in another way."""
    run.weights = layer.parameters  # type: ignore[attr-defined]
    return run


def stepwise(layer: nn.Module) -> Callable[[Tensor], Any]:
    """Return a layer on the reference backend: a loop in torch over the steps."""

    def run(x: Tensor) -> Any:
        with use_backend("reference"):
            return layer(x)

    return function_of(layer, run)


class Scan(nn.Module):
    """c_t = f_t c_{t-1} + u_t by one function, whose operands are parameters in its own layout."""

    def __init__(self, run: Callable[[Tensor, Tensor], Tensor], u: Tensor, log_f: Tensor) -> None:
        super().__init__()
        self.run, self.u, self.log_f = run, nn.Parameter(u), nn.Parameter(log_f)

    def forward(self, x: Tensor) -> Tensor:
        """Return all states; there is no input besides the parameters."""
        return self.run(self.u, self.log_f)


def recurrent(size: tuple[int, int, int, int], dtype: str, device: str) -> Case:
    T, B, features, d = size
    ours = RKMLSTM(features, d)
    layers: dict[str, nn.Module] = {
        "nn.LSTM": nn.LSTM(features, d), "nn.GRU": nn.GRU(features, d),
        "StringKernelRNN": StringKernelRNN(features, d, decay="input"), "RKMLSTM": ours,
    }  # fmt: skip
    layers = {name: layer.to(device, DTYPES[dtype]) for name, layer in layers.items()}
    x = torch.randn(T, B, features, device=device, dtype=DTYPES[dtype])
    return passes(size, dtype, {**layers, STEPWISE: stepwise(ours)}, x)


def default(what: str, size: tuple[int, int, int, int], device: str) -> Case:
    """Return a layer as users call it in float32, beside cuDNN with products in TF32 and without.

    By default cuDNN computes recurrences in TF32; so do ours if matrix products may, and compiled
    ones run from a CUDA graph.
    """
    T, B, features, d = size
    is_both = "both directions" in what
    stacked = 3 if "layers" in what else 1
    makes: dict[str, Callable[[], nn.Module]] = {
        "RKMLSTM": lambda: RKMLSTM(features, d, stacked, bidirectional=is_both),
        "RKMCIFG": lambda: RKMCIFG(features, d, layer_norm=True),
        "StringKernelRNN": lambda: StringKernelRNN(features, d),
    }
    ours = makes[what.partition(",")[0]]().to(device)
    lstm = nn.LSTM(features, d, stacked, bidirectional=is_both).to(device)
    x = torch.randn(T, B, features, device=device)
    lengths = torch.randint(1, T + 1, (B,), device=device) if "lengths" in what else None

    def call(x: Tensor) -> Any:
        return ours(x) if lengths is None else ours(x, lengths=lengths)

    def side_by_side(x: Tensor) -> Any:
        with patch.dict(os.environ, {wavefront.CHUNKS: "8"}):
            return call(x)

    def in_ieee(x: Tensor) -> Any:
        with torch.backends.cudnn.flags(enabled=True, allow_tf32=False):
            return lstm(x)

    def in_tf32(x: Tensor) -> Any:
        before = torch.backends.cuda.matmul.allow_tf32
        torch.backends.cuda.matmul.allow_tf32 = True
        try:
            return call(x)
        finally:
            torch.backends.cuda.matmul.allow_tf32 = before

    layers: dict[str, Any] = {"nn.LSTM": lstm, "nn.LSTM, IEEE": function_of(lstm, in_ieee),
                              what: function_of(ours, call)}  # fmt: skip
    layers[f"{what}, TF32"] = function_of(ours, in_tf32)
    if stacked > 1:
        layers[f"{what}, wavefront"] = function_of(ours, side_by_side)
    if device == "cuda":
        compiled = torch.compile(ours, mode="reduce-overhead")
        layers[f"{what}, compiled"] = function_of(ours, lambda x: compiled(x))
    if "autocast" in what:
        layers = {name: function_of(lstm if "nn." in name else ours, _in_autocast(run, device))
                  for name, run in layers.items()}  # fmt: skip
    return passes(size, "bfloat16" if "autocast" in what else "float32", layers, x)


def _in_autocast(run: Callable[[Tensor], Any], device: str) -> Callable[[Tensor], Any]:
    def call(x: Tensor) -> Any:
        with torch.autocast(device, torch.bfloat16):
            return run(x)

    return call


def scan(size: tuple[int, int, int], device: str) -> Case:
    """Return the gated scan of T steps of B sequences of d units beside those that are installed.

    Raises:
        ValueError: A baseline computes something else.
    """
    u, log_f = torch.randn(2, *size, device=device)
    log_f = nn.functional.logsigmoid(log_f + 2)
    ours = Scan(lambda u, f: gated_scan(u, f.exp())[0], u, log_f)
    kernels = import_module("representer.ops.gated_scan.triton") if device == "cuda" else None
    layers: dict[str, Any] = {}
    if find_spec("fla") and kernels:
        from fla.ops.hgrn import chunk_hgrn  # pyright: ignore[reportMissingImports]

        u_BTd, f_BTd = (x.transpose(0, 1).contiguous() for x in (u, log_f))
        layers["fla chunk_hgrn"] = Scan(lambda u, f: chunk_hgrn(u, f)[0], u_BTd, f_BTd)
    if find_spec("accelerated_scan") and kernels:
        from accelerated_scan.warp import scan  # pyright: ignore[reportMissingImports]

        u_BdT, f_BdT = (x.permute(1, 2, 0).contiguous() for x in (u, log_f))
        layers["accelerated-scan"] = Scan(lambda u, f: scan(f.exp().contiguous(), u), u_BdT, f_BdT)
    layouts = {"fla chunk_hgrn": (1, 0, 2), "accelerated-scan": (2, 0, 1)}
    with torch.no_grad():
        for name, layer in layers.items():
            output, expected = layer(u).permute(layouts[name]), ours(u)
            if not torch.allclose(output, expected, rtol=1e-3, atol=1e-3):
                raise ValueError(f"{name} computes something else")
    if kernels:

        def one_pass(x: Tensor) -> Tensor:
            with patch.object(kernels, "chunk_steps", lambda time, batch, units: time):
                return ours(x)

        layers[ONE_PASS] = function_of(ours, one_pass)
    layers |= {"gated_scan, step by step": stepwise(ours), "gated_scan": ours}
    return passes(size, "float32", layers, u)


def activation(size: tuple[int, int, int], device: str) -> Case:
    """Return N × F activations with K centers beside the direct sum, eager and compiled."""
    N, F, K = size
    ours = KernelActivation(F, K).to(device)

    def direct_sum(x: Tensor) -> Tensor:
        definition = OPS["kernel_activation"].definition
        return definition(x, ours.centers, ours.coefficients, green=ours.green)

    layers: dict[str, Any] = {"direct sum": function_of(ours, direct_sum), "KernelActivation": ours}
    if device == "cuda":
        compiled = torch.compile(direct_sum)
        layers["direct sum, compiled"] = function_of(ours, lambda x: compiled(x))
    return passes(size, "float32", layers, torch.randn(N, F, device=device))


def learned_recurrent(size: tuple[int, int], device: str) -> Case:
    """Return the network with learned activations of M18 on T steps of B sequences."""
    from kbrn import loop, network

    layer = network().to(device)
    layers = {"step by step": function_of(layer, partial(loop, layer)), "KBRN": layer}
    x = torch.randint(0, 2, (*size, 1), device=device).float()
    return passes(size, "float32", layers, x)


def graph(size: tuple[int], device: str) -> Case:
    """Return graph networks on a batch of molecules; it needs PyTorch Geometric."""
    from torch_geometric.data import Batch

    from graphs import ATOMS, BONDS, LEVELS, WIDTH, Gine, molecules
    from representer.nn import WLKernelNN

    batch: Any = Batch.from_data_list(cast(Any, molecules()[: size[0]])).to(device)
    options: dict[str, Any] = {"label_channels": WIDTH, "sigma": "relu", "edge_dim": BONDS}
    gine = Gine().to(device)
    ours = WLKernelNN(ATOMS, WIDTH, depth=LEVELS, **options).to(device)
    runs: dict[str, tuple[nn.Module, Any]] = {"GINEConv": (gine, gine), "WLKernelNN": (ours, ours)}
    if device == "cuda":
        runs["GINEConv, compiled"] = gine, torch.compile(gine)
    rest = batch.edge_index, batch.edge_attr, batch.batch, batch.num_graphs
    layers = {name: function_of(layer, lambda x, run=run: run(x, *rest))
              for name, (layer, run) in runs.items()}  # fmt: skip
    return passes(size, "float32", layers, batch.x)


def gram(size: tuple[int, int, int, int], device: str) -> Case:
    """Return Gram matrices of N sequences of up to T steps of F features, or of tokens for 0."""
    N, T, features, order = size
    lengths = torch.randint(T // 2, T + 1, (N,)).tolist()
    if features:
        base, items = "linear", [torch.randn(n, features) / features**0.5 for n in lengths]
    else:
        base, items = "delta", [torch.randint(0, 30, (n,)) for n in lengths]
    kernel, X = StringKernel(order, base=base), [x.to(device) for x in items]

    def by_row() -> object:
        with patch.object(string_gram, "MOST_ORDER", 0):
            return kernel(X)

    if device == "cuda":  # also beside the core
        torch.testing.assert_close(kernel(X).cpu(), kernel(items), rtol=1e-3, atol=1e-3)
    calls: Calls = {"row by row": by_row, "StringKernel": lambda: kernel(X)}
    return Case(size, "float32" if features else "float64", {FORWARD: calls}, has_graphs=False)


def training_steps(size: tuple[int, int, int], device: str) -> Case:
    """Return training steps of a language model, T tokens of B streams with d units.

    All models start with the same weights. The gradient is clipped and Adam takes a step: launched
    from Python, also after a graph of loss and gradients, or in the graph.
    """
    names = (EAGER, CAPTURED, WHOLE) if device == "cuda" else (EAGER,)
    steps: Calls = {name: _training_step(size, device, name) for name in names}
    return Case(size, "float32", {TRAINING: steps}, has_graphs=False)


def _refuse(reason: str) -> None:
    raise RuntimeError(reason)


def _training_step(size: tuple[int, int, int], device: str, what: str) -> Callable:
    T, B, units = size
    torch.manual_seed(0)
    config = LanguageModelConfig(10_000, embedding_size=units, hidden_size=units, cell="rkm-lstm")
    model = LanguageNetwork(config).to(device)
    carried = CarriedState(lambda rows: example_state(model, rows))
    carried.value = example_state(model, B)
    tokens, following = torch.randint(10_000, (2, T, B), device=device)
    parameters = [*model.parameters()]
    optimizer = torch.optim.Adam(parameters, lr=1e-3, fused=True)

    def compute(batch: Any) -> Loss:
        result = model(batch[0], carried.value)
        carried.value = detached(result.state)
        loss = model.output.loss(result.features, batch[1]) / batch[1].numel()
        loss.backward()
        return Loss(loss, batch[1].numel())

    def update(loss: Loss) -> Tensor:
        norm = nn.utils.clip_grad_norm_(parameters, 1.0)
        optimizer.step()
        return norm

    captured = CapturedSteps(
        compute, update if what == WHOLE else None, optimizer, parameters, carried, _refuse
    )

    def step() -> None:
        if what == EAGER:
            optimizer.zero_grad()
            update(compute((tokens, following)))
            return
        loss, updated = captured((tokens, following))
        if updated is None:
            update(loss)

    for _ in range(WARM_UP):
        step()
    return step


DEFAULTS = {  # what users call, and the sizes of their batches
    "RKMLSTM": (1000, 64, 10, 100),
    "StringKernelRNN": (35, 20, 407, 407),
    "RKMLSTM, 650 units": (128, 16, 650, 650),
    "RKMCIFG, layer norm": (400, 32, 128, 128),
    "StringKernelRNN, 100 units": (200, 64, 30, 100),
    "RKMLSTM, 300 units": (200, 64, 30, 300),
    "RKMLSTM, 800 units": (128, 16, 800, 800),
    "RKMCIFG, layer norm, 650 units": (128, 32, 650, 650),
    "RKMLSTM, autocast": (128, 64, 650, 650),
    "RKMLSTM, both directions": (200, 64, 30, 100),
    "RKMLSTM, both directions, 300 units": (200, 16, 30, 300),
    "RKMLSTM, 1,150 units": (128, 16, 1150, 1150),
    "RKMLSTM, 3 layers": (1000, 16, 64, 64),
    "RKMLSTM, lengths": (200, 64, 30, 128),
    "StringKernelRNN, 200 units": (35, 20, 200, 200),
}


def sections(is_tiny: bool) -> dict[str, list[Make]]:
    """Return the cases by section, the most important ones of each first, the longest last."""
    if is_tiny:
        return {
            "defaults": [partial(default, what, (3, 2, 4, 4)) for what in DEFAULTS],
            "training steps": [partial(training_steps, (3, 2, 4))],
            "scans": [partial(scan, (3, 2, 4))],
            "activations": [partial(activation, (8, 4, 3))],
            "learned recurrent": [partial(learned_recurrent, (2, 3))],
            "graphs": [partial(graph, (2,))],
            "grams": [partial(gram, (3, 5, 0, 2))],
            "recurrent": [partial(recurrent, (3, 2, 4, 4), "float32")],
        }
    many = ((4096, 1024, 100), (4096, 1024, 32), (512, 200, 100))
    shapes = ((128, 16), (1024, 16), (35, 20), (128, 64))
    square = [(T, B, d, d) for d in (650, 300, 1150) for T, B in shapes]
    layers = [partial(recurrent, size, dtype) for size, dtype in product(square, DTYPES)]
    layers[3:3] = [
        partial(recurrent, (1000, 64, 10, 100), "float32"),
        *(partial(recurrent, (1024, 16, d, d), "float16") for d in (512, 768, 1024)),
        partial(recurrent, (1024, 128, 1150, 1150), "bfloat16"),
    ]
    return {
        "defaults": [partial(default, what, size) for what, size in DEFAULTS.items()],
        "graphs": [partial(graph, (256,))],
        "grams": [partial(gram, size) for size in ((400, 60, 64, 3), (1000, 100, 0, 4))],
        "training steps": [partial(training_steps, (35, 20, 200))],
        "scans": [partial(scan, size) for size in ((1024, 16, 128), (1024, 16, 1024))],
        "activations": [partial(activation, size) for size in many],
        "learned recurrent": [partial(learned_recurrent, (50, 500))],
        "recurrent": layers,
    }


def large_samples(op: str) -> list[Sample]:
    """Return samples of an op that are larger than its own, for kernels of many units or steps."""
    if op == "gated_scan":

        def long_scan(dtype: torch.dtype) -> dict[str, Tensor]:
            draw = torch.Generator().manual_seed(0)
            u, f = torch.rand(2, 1100, 3, 40, generator=draw, dtype=torch.float64).to(dtype)
            lengths = torch.tensor([700, 0, 1100])
            return {"u": u, "f": f, "c0": u[0].clone(), "lengths": lengths}

        return [Sample("chunks", long_scan, {"reverse": True}, ("lengths",))]
    if op != "rkm_scan":
        return []
    cells = {"lstm": "input hold", "rkm_cifg": "input", "linear_kernel_gated": "input norm"}
    sizes = ((40, 20, 300), (9, 32, 640), (5, 16, 1150))
    return [
        Sample(f"{name} {size}", partial(tensors, CELLS[name], size, options),
               {"cell": CELLS[name]}, ("hold",))
        for (name, options), size in product(cells.items(), sizes)
    ]  # fmt: skip


class Goal(NamedTuple):
    """A ratio of times to reach, in the cases of a section that it takes.

    ``least`` is the lowest acceptable ratio, ``good`` that of a good kernel, ``predicted`` the
    range that was expected before the first measurement.
    """

    what: str
    section: str
    ours: str
    baseline: str
    mode: str
    clock: str
    least: float
    good: float
    predicted: str
    takes: Callable[[Sequence[int], str], bool] = lambda size, dtype: True

    def ratios(self, rows: Sequence[dict[str, Any]]) -> list[float]:
        """Return the ratio of medians in each case of this goal that was timed."""
        times: dict[tuple[Any, ...], dict[str, float]] = {}
        for row in rows:
            is_same = row["section"] == self.section and "median" in row
            if is_same and (row["mode"], row["clock"]) == (self.mode, self.clock):
                case = times.setdefault((*row["size"], row["dtype"]), {})
                case[row["layer"]] = row["median"]
        return [
            time[self.baseline] / time[self.ours]
            for (*size, dtype), time in times.items()
            if {self.baseline, self.ours} <= time.keys() and self.takes(size, dtype)
        ]


def _is_long(size: Sequence[int], dtype: str) -> bool:
    T, B, features, d = size
    return dtype == "bfloat16" and features == d and T >= 128 and B * d <= 42_000


def _is_short(size: Sequence[int], dtype: str) -> bool:
    return dtype == "bfloat16" and size[0] == 35


def _is_standard(size: Sequence[int], dtype: str) -> bool:
    return dtype == "bfloat16" and size[1] <= 32 and size[3] in (300, 650, 1150)


def _is_persistent(size: Sequence[int], dtype: str) -> bool:
    return dtype == "float16" and size[3] in (512, 768, 1024)


def _is(*expected: int) -> Callable[[Sequence[int], str], bool]:
    return lambda size, dtype: tuple(size) == expected


_string = partial(Goal, section="recurrent", ours="StringKernelRNN", baseline="nn.LSTM",
                  mode=TRAINING, clock="graph")  # fmt: skip
_rkm = partial(Goal, section="recurrent", ours="RKMLSTM", baseline="nn.LSTM", mode=FORWARD,
               clock="graph", takes=_is_standard)  # fmt: skip
_scan = partial(Goal, section="scans", ours="gated_scan", mode=FORWARD, clock="graph",
                takes=_is(1024, 16, 128))  # fmt: skip
_activation = partial(Goal, section="activations", ours="KernelActivation", mode=TRAINING,
                      clock="graph", takes=_is(4096, 1024, 100))  # fmt: skip
_graph = partial(Goal, section="graphs", ours="WLKernelNN", mode=TRAINING, clock="eager")
_STRING = "String-kernel layer, gate on x, over `nn.LSTM`, bfloat16"
_RKM = "RKM-LSTM over `nn.LSTM`, bfloat16, 300 to 1,150 units, up to 32 sequences"
_MANY = "4.2 million activations with 100 centers over the direct sum"
_GRAPH = "WL network over GINEConv, 256 molecules"
_default = partial(Goal, section="defaults", ours="RKMLSTM", baseline="nn.LSTM", clock="graph")
_FLOAT32 = "RKM-LSTM in float32 over `nn.LSTM` in TF32"
GOALS: list[Goal] = [
    _string(f"{_STRING}: 128 steps or more, up to 42,000 states", least=10, good=30,
            predicted="10 to 80", takes=_is_long),
    _string(f"{_STRING}: 35 steps", least=8, good=20, predicted="18 to 42", takes=_is_short),
    _string("The same", clock="eager", least=2, good=4, predicted="2 to 4", takes=_is_short),
    _string(f"{_STRING}: 1,024 × 128 × 1,150", least=3, good=6, predicted="3 to 10",
            takes=_is(1024, 128, 1150, 1150)),
    _string("String-kernel layer over `nn.GRU`, 10 features, 100 units, 1,000 steps × 64",
            baseline="nn.GRU", least=3, good=10, predicted="10 to 40",
            takes=_is(1000, 64, 10, 100)),
    _rkm(_RKM, least=2, good=3.5, predicted="1.5 to 3"),
    _rkm("The same", mode=TRAINING, least=1.5, good=2.5,
         predicted="1.3 to 2.5: weights on the chip both ways"),
    _rkm("RKM-LSTM over `nn.LSTM` where cuDNN keeps the weights on the chip: float16, 512, 768 "
         "and 1,024 units", least=0.7, good=1, predicted="0.5 to 0.7", takes=_is_persistent),
    _rkm("RKM-LSTM over its loop in torch", baseline=STEPWISE, clock="eager", least=20, good=50,
         predicted="15 to 40"),
    _rkm("The same", baseline=STEPWISE, least=2, good=4, predicted="5 to 15"),
    _scan("Gated scan, 1,024 steps × 16 × 128 units, over `chunk_hgrn` of fla",
          baseline="fla chunk_hgrn", least=3, good=6, predicted="4 to 7: 32 chunks, two passes"),
    _scan("The same, over one pass without chunks", baseline=ONE_PASS, least=2, good=4,
          predicted="2 to 3"),
    Goal("Training step of a language model, 35 × 20 tokens, 200 units, from a CUDA graph over "
         "the same launched from Python", "training steps", CAPTURED, EAGER, TRAINING, "eager",
         1.5, 3, "1.5 to 4"),
    _activation(_MANY, baseline="direct sum", least=30, good=80, predicted="30 to 60"),
    _activation(f"{_MANY}, compiled", baseline="direct sum, compiled", least=1.5, good=3,
                predicted="1 to 2"),
    Goal("Network with learned activations over its loop, 50 steps", "learned recurrent", "KBRN",
         "step by step", TRAINING, "eager", 20, 60,
         "3 to 5: one program normalizes the batch, and sums over all centers"),
    _graph(_GRAPH, baseline="GINEConv", least=3, good=6, predicted="1 to 2"),
    _graph(f"{_GRAPH}, compiled", baseline="GINEConv, compiled", least=1.3, good=2.5,
           predicted="0.5 to 1"),
    Goal("Gram matrix of 400 sequences of 60 steps, string kernel of order 3, over the same row by "
         "row in torch", "grams", "StringKernel", "row by row", FORWARD, "eager", 5, 20,
         "10 to 40", _is(400, 60, 64, 3)),
    _default(f"{_FLOAT32}, 1,000 × 64 × 10 × 100", mode=FORWARD, least=2, good=3,
             predicted="2.5 to 3.3"),
    _default("The same", mode=TRAINING, least=1.5, good=2.4, predicted="2.0 to 2.4"),
    _default(f"{_FLOAT32}, 128 × 16 × 650 × 650", ours="RKMLSTM, 650 units", mode=FORWARD, least=2,
             good=4, predicted="2.2 to 3.8"),
    _default("RKM-CIFG with layer norm over `nn.LSTM`, 400 × 32 × 128 × 128",
             ours="RKMCIFG, layer norm", mode=FORWARD, least=1, good=2, predicted="2 to 3"),
    _default("String-kernel layer as by default over `nn.LSTM`, 35 × 20 × 407 × 407",
             ours="StringKernelRNN", mode=TRAINING, least=1, good=3, predicted="1.5 to 4"),
    _default("RKM-LSTM under autocast over `nn.LSTM`, 128 × 64 × 650 × 650",
             ours="RKMLSTM, autocast", mode=FORWARD, least=1, good=2, predicted="1 to 1.5"),
    _default("RKM-LSTM in both directions over `nn.LSTM`, 200 × 16 × 30 × 300",
             ours="RKMLSTM, both directions, 300 units", mode=FORWARD, least=1, good=3,
             predicted="1.5 to 3: one launch"),
    _default(f"{_FLOAT32}, 128 × 16 × 1,150 × 1,150", ours="RKMLSTM, 1,150 units", mode=FORWARD,
             least=1, good=2, predicted="1 to 2.5: a third of the weights from the L2 cache"),
    _default("Three layers of an RKM-LSTM as a wavefront of 8 chunks over one after another, "
             "1,000 × 16 × 64 × 64", ours="RKMLSTM, 3 layers, wavefront",
             baseline="RKMLSTM, 3 layers", mode=FORWARD, least=1.3, good=2.2,
             predicted="1.5 to 2.4: 10 eighths of a layer instead of 3 layers"),
    _default("The same", ours="RKMLSTM, 3 layers, wavefront", baseline="RKMLSTM, 3 layers",
             mode=TRAINING, least=1.3, good=2.2, predicted="1.3 to 2.4"),
]  # fmt: skip
