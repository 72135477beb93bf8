"""Cases of the GPU benchmark: layers of this library and their baselines on one input."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.util import find_spec
from itertools import product
from typing import Any, cast
from unittest.mock import patch

import torch
from torch import Tensor, nn

from representer.nn import RKMLSTM, KernelActivation, StringKernelRNN
from representer.ops import OPS, Sample, gated_scan, use_backend
from representer.ops.rkm_scan.samples import CELLS, tensors

DTYPES = {"bfloat16": torch.bfloat16, "float16": torch.float16, "float32": torch.float32}
STEPWISE, ONE_PASS = "RKMLSTM, step by step", "gated_scan, one pass"


@dataclass(frozen=True)
class Case:
    """Layers on one input, the baseline first, with the sizes and the dtype that name the case."""

    size: tuple[int, ...]
    dtype: str
    layers: dict[str, nn.Module]
    x: Tensor


Make = Callable[[str], Case]  # given the device type


class Stepwise(nn.Module):
    """A layer on the reference backend: a loop in torch over the steps."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Any:
        """Return what the layer returns."""
        with use_backend("reference"):
            return self.layer(x)


class DirectSum(nn.Module):
    """The activation as a sum over a tensor of inputs × centers."""

    def __init__(self, like: KernelActivation) -> None:
        super().__init__()
        self.layer = like

    def forward(self, x: Tensor) -> Tensor:
        """Return f(x)."""
        layer = self.layer
        return OPS["kernel_activation"].definition(
            x, layer.centers, layer.coefficients, green=layer.green
        )


class Given(nn.Module):
    """A network with all its arguments but the first."""

    def __init__(self, network: nn.Module, *arguments: Any) -> None:
        super().__init__()
        self.network, self.arguments = network, arguments

    def forward(self, x: Tensor) -> Tensor:
        """Return what the network returns for the arguments."""
        return self.network(x, *self.arguments)


class Loop(nn.Module):
    """A layer by a function that loops over the steps in torch."""

    def __init__(self, layer: nn.Module, run: Callable[[Any, Tensor], Tensor]) -> None:
        super().__init__()
        self.layer, self.run = layer, run

    def forward(self, x: Tensor) -> Tensor:
        """Return what the function returns."""
        return self.run(self.layer, x)


class Scan(nn.Module):
    """c_t = f_t c_{t-1} + u_t by one function, whose operands are parameters in its own layout."""

    def __init__(self, run: Callable[[Tensor, Tensor], Tensor], u: Tensor, log_f: Tensor) -> None:
        super().__init__()
        self.run, self.u, self.log_f = run, nn.Parameter(u), nn.Parameter(log_f)

    def forward(self, x: Tensor) -> Tensor:
        """Return all states; there is no input besides the parameters."""
        return self.run(self.u, self.log_f)


class OnePass(nn.Module):
    """A gated scan whose forward pass does not cut sequences into chunks."""

    def __init__(self, layer: nn.Module) -> None:
        super().__init__()
        self.layer = layer

    def forward(self, x: Tensor) -> Tensor:
        """Return what the layer returns."""
        kernels = import_module("representer.ops.gated_scan.triton")
        with patch.object(kernels, "chunk_steps", lambda time, batch, units: time):
            return self.layer(x)


def long_scan(dtype: torch.dtype) -> dict[str, Tensor]:
    """Return operands of a gated scan whose sequences are cut into chunks."""
    draw = torch.Generator().manual_seed(0)
    u, f = torch.rand(2, 1100, 3, 40, generator=draw, dtype=torch.float64).to(dtype)
    return {"u": u, "f": f, "c0": u[0].clone(), "lengths": torch.tensor([700, 0, 1100])}


def large_samples(op: str) -> list[Sample]:
    """Return samples of an op that are larger than its own, for kernels of many units or steps."""
    if op == "gated_scan":
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


def recurrent(size: tuple[int, int, int, int], dtype: str, device: str) -> Case:
    """Return recurrent layers on T steps of B sequences of I features, with d units."""
    T, B, features, d = size
    ours = RKMLSTM(features, d)
    made = {
        "nn.LSTM": nn.LSTM(features, d),
        "nn.GRU": nn.GRU(features, d),
        "StringKernelRNN": StringKernelRNN(features, d, decay="input"),
        "RKMLSTM": ours,
        STEPWISE: Stepwise(ours),
    }
    made = {name: layer.to(device, DTYPES[dtype]) for name, layer in made.items()}
    return Case(size, dtype, made, torch.randn(T, B, features, device=device, dtype=DTYPES[dtype]))


def scan(size: tuple[int, int, int], device: str) -> Case:
    """Return the gated scan of T steps of B sequences of d units beside those that are installed.

    Raises:
        ValueError: A baseline computes something else.
    """
    u, log_f = torch.randn(2, *size, device=device)
    log_f = nn.functional.logsigmoid(log_f + 2)
    ours = Scan(lambda u, f: gated_scan(u, f.exp())[0], u, log_f)
    made: dict[str, nn.Module] = {}
    if find_spec("fla") and device == "cuda":
        from fla.ops.hgrn import chunk_hgrn  # pyright: ignore[reportMissingImports]

        u_BTd, f_BTd = (x.transpose(0, 1).contiguous() for x in (u, log_f))
        made["fla chunk_hgrn"] = Scan(lambda u, f: chunk_hgrn(u, f)[0], u_BTd, f_BTd)
    if find_spec("accelerated_scan") and device == "cuda":
        from accelerated_scan.warp import scan  # pyright: ignore[reportMissingImports]

        u_BdT, f_BdT = (x.permute(1, 2, 0).contiguous() for x in (u, log_f))
        made["accelerated-scan"] = Scan(lambda u, f: scan(f.exp().contiguous(), u), u_BdT, f_BdT)
    if device == "cuda":
        made[ONE_PASS] = OnePass(ours)
    made |= {"gated_scan, step by step": Stepwise(ours), "gated_scan": ours}
    layouts = {"fla chunk_hgrn": (1, 0, 2), "accelerated-scan": (2, 0, 1)}
    with torch.no_grad():
        for name in layouts.keys() & made.keys():
            found, expected = made[name](u).permute(layouts[name]), ours(u)
            if not torch.allclose(found, expected, rtol=1e-3, atol=1e-3):
                raise ValueError(f"{name} computes something else")
    return Case(size, "float32", made, u)


def activation(size: tuple[int, int, int], device: str) -> Case:
    """Return N × F activations with K centers beside the direct sum, eager and compiled."""
    N, F, K = size
    ours = KernelActivation(F, K).to(device)
    made: dict[str, nn.Module] = {"direct sum": DirectSum(ours), "KernelActivation": ours}
    if device == "cuda":
        made["direct sum, compiled"] = cast(nn.Module, torch.compile(DirectSum(ours)))
    return Case(size, "float32", made, torch.randn(N, F, device=device))


def learned_recurrent(size: tuple[int, int], device: str) -> Case:
    """Return the network with learned activations of M18 on T steps of B sequences."""
    from kbrn import loop, network

    layer = network().to(device)
    made = {"step by step": Loop(layer, loop), "KBRN": layer}
    return Case(size, "float32", made, torch.randint(0, 2, (*size, 1), device=device).float())


def graph(size: tuple[int], device: str) -> Case:
    """Return graph networks on a batch of molecules; it needs PyTorch Geometric."""
    from torch_geometric.data import Batch

    from graphs import ATOMS, BONDS, LEVELS, WIDTH, Gine, molecules
    from representer.nn import WLKernelNN

    of_all: list[Any] = [*molecules()[: size[0]]]
    batch: Any = Batch.from_data_list(of_all)
    joined = batch.to(device)
    others = joined.edge_index, joined.edge_attr, joined.batch, joined.num_graphs
    options: dict[str, Any] = {"label_channels": WIDTH, "sigma": "relu"}
    ours = WLKernelNN(ATOMS, WIDTH, depth=LEVELS, edge_dim=BONDS, **options)
    made: dict[str, nn.Module] = {"GINEConv": Gine(), "WLKernelNN": ours}
    if device == "cuda":
        made["GINEConv, compiled"] = cast(nn.Module, torch.compile(made["GINEConv"]))
    made = {name: Given(layer, *others).to(device) for name, layer in made.items()}
    return Case(size, "float32", made, joined.x)


def sections(is_tiny: bool) -> dict[str, list[Make]]:
    """Return the cases by section, the most important ones of each first."""
    if is_tiny:
        return {
            "recurrent": [partial(recurrent, (3, 2, 4, 4), "float32")],
            "scans": [partial(scan, (3, 2, 4))],
            "activations": [partial(activation, (8, 4, 3))],
            "learned recurrent": [partial(learned_recurrent, (2, 3))],
            "graphs": [partial(graph, (2,))],
        }
    square = [
        (T, B, d, d)
        for d in (650, 300, 1150)
        for T, B in ((128, 16), (1024, 16), (35, 20), (128, 64))
    ]
    layers = [partial(recurrent, size, dtype) for size, dtype in product(square, DTYPES)]
    layers[3:3] = [
        partial(recurrent, (1000, 64, 10, 100), "float32"),
        *(partial(recurrent, (1024, 16, d, d), "float16") for d in (512, 768, 1024)),
        partial(recurrent, (1024, 128, 1150, 1150), "bfloat16"),
    ]
    return {
        "recurrent": layers,
        "scans": [partial(scan, size) for size in ((1024, 16, 128), (1024, 16, 1024))],
        "activations": [
            partial(activation, s) for s in ((4096, 1024, 100), (4096, 1024, 32), (512, 200, 100))
        ],
        "learned recurrent": [partial(learned_recurrent, (50, 500))],
        "graphs": [partial(graph, (256,))],
    }
