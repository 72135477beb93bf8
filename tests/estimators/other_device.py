"""Estimators and kernels on a device whose tensors mix with no others; run as a script.

The device computes on the CPU, but its tensors are of another device to torch: an operation that
gets one of them and one of the CPU fails, as on a GPU. Only scalars and copies may mix.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any
from unittest.mock import patch

import numpy as np
import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves, tree_map
from torch.utils.backend_registration import _setup_privateuseone_for_python_backend
from torch_geometric.data import Data

import representer.estimators.base
import representer.training.state
from representer.estimators import (
    LanguageModel,
    MoleculeClassifier,
    SignalClassifier,
    TextClassifier,
    load,
)
from representer.kernels import (
    DeepGraphKernel,
    DeepStringKernel,
    Gaussian,
    Kernel,
    RandomWalkKernel,
    RecurrentKernel,
    StringKernel,
    WeisfeilerLehmanKernel,
    walk_kernels,
)

_setup_privateuseone_for_python_backend("other")
torch.__future__.set_swap_module_params_on_conversion(True)  # the optimizer knows the parameters
OTHER = torch.device("other:0")
ATEN = torch.ops.aten
LIBRARY = torch.library.Library("aten", "IMPL")
MIXING = (  # indices may be on the CPU
    ATEN._to_copy.default, ATEN.copy_.default, ATEN.index.Tensor, ATEN.index_put_.default,
    ATEN._index_put_impl_.default,
)  # fmt: skip


class OtherTensor(Tensor):
    """A tensor of the other device, with its values on the CPU."""

    on_cpu: Tensor

    @staticmethod
    def __new__(cls, on_cpu: Tensor) -> OtherTensor:
        made = Tensor._make_wrapper_subclass(
            cls, on_cpu.shape, strides=on_cpu.stride(), storage_offset=on_cpu.storage_offset(),
            dtype=on_cpu.dtype, device=OTHER,
        )  # fmt: skip
        made.on_cpu = on_cpu
        return made

    def tolist(self) -> Any:
        return self.on_cpu.tolist()

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {})


class OtherDevice(TorchDispatchMode):
    """Makes tensors on the device."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return _run(func, args, kwargs or {})


def _run(func: Any, args: Any, kwargs: dict[str, Any]) -> Any:
    tensors = [one for one in tree_leaves((args, kwargs)) if isinstance(one, Tensor)]
    there = [isinstance(one, OtherTensor) for one in tensors]
    mixed = [one for one, is_there in zip(tensors, there, strict=True) if one.ndim and not is_there]
    if any(there) and mixed and func not in MIXING:
        raise RuntimeError(f"{func} has tensors of two devices")
    is_result_there = there[0] if func in MIXING else any(there)
    if (device := kwargs.get("device")) is not None:
        is_result_there = torch.device(device).type == OTHER.type
        kwargs = {**kwargs, "device": "cpu", "pin_memory": False}
    unwrapped = tree_map(lambda x: x.on_cpu if isinstance(x, OtherTensor) else x, (args, kwargs))
    result = func(*unwrapped[0], **unwrapped[1])
    alias = func._schema.returns[0].alias_info if func._schema.returns else None
    if alias is not None and alias.is_write:
        return args[0] if args else kwargs["out"]
    wrap = is_result_there and func is not ATEN._local_scalar_dense.default
    return tree_map(lambda x: OtherTensor(x) if wrap and isinstance(x, Tensor) else x, result)


def _empty_strided(size: Any, stride: Any, *, dtype: Any = None, **others: Any) -> Tensor:
    return OtherTensor(torch.empty_strided(size, stride, dtype=dtype))


def _copy_from(values: Tensor, to: OtherTensor, non_blocking: bool = False) -> Tensor:
    to.on_cpu.copy_(values)
    return to


# torch.tensor(..., device=...) calls them, which no mode sees
LIBRARY.impl("empty_strided", _empty_strided, "PrivateUse1")
LIBRARY.impl("_copy_from", _copy_from, "PrivateUse1")

TEXTS = ["good film of a day", "bad film", "good play", "bad play today"] * 5
LABELS = ["+", "-"] * 10
SMILES = ["CCO", "CCN", "CCC", "CNC"] * 5
SIGNALS = np.random.default_rng(0).normal(size=(20, 3, 40))
USUAL: dict[str, Any] = {"epochs": 1, "random_state": 0, "verbose": 0, "answer": "network"}
CASES: tuple[tuple[Callable[..., Any], dict[str, Any], Any, Any, Any], ...] = (
    (TextClassifier, {"dropout": 0.0}, TEXTS, LABELS, TEXTS[:3]),
    (TextClassifier, {"cell": "string-kernel", "dropout": 0.0}, TEXTS, LABELS, TEXTS[:3]),
    (SignalClassifier, {"sampling_rate": 100, "dropout": 0.0}, SIGNALS, LABELS, SIGNALS[:3]),
    (MoleculeClassifier, {}, SMILES, LABELS, SMILES[:3]),
    (
        LanguageModel,
        {"cell": "string-kernel", "hidden_size": 8, "unroll": 10, "batch_size": 2},
        "the cat sat on the mat . " * 40, None, ["the cat", "the mat"],
    ),
)  # fmt: skip


KERNELS: tuple[Kernel, ...] = (
    StringKernel(order=2), StringKernel(order=9), StringKernel(order=2, normalized="exact"),
    StringKernel(order=3, combine="add"), StringKernel(order=2, trailing=False, base=Gaussian()),
    DeepStringKernel(), RecurrentKernel(),
)  # fmt: skip


TOKEN_KERNELS = (
    StringKernel(order=2, base="delta"),
    StringKernel(order=2, base="delta", normalized="exact"),
    DeepStringKernel(base="delta", activation=Gaussian()),
)
GRAPH_KERNELS: tuple[Kernel, ...] = (
    RandomWalkKernel(3), RandomWalkKernel(3, base="delta"), RandomWalkKernel(3, edges=True),
    RandomWalkKernel(2, combine="add", nonlinear="exponential"),
    RandomWalkKernel(2, base=Gaussian()), RandomWalkKernel(2, base="delta", edges=True),
    DeepGraphKernel(2, 2),
    WeisfeilerLehmanKernel(), WeisfeilerLehmanKernel(RandomWalkKernel(2), edges=True),
    WeisfeilerLehmanKernel(DeepGraphKernel(2, 1), depth=1),
)  # fmt: skip


def compare_kernels() -> None:
    """Compare Gram matrices of vectors, tokens and graphs on the device with those on the CPU."""
    draw = torch.Generator().manual_seed(0)
    x, y = (
        [0.3 * torch.randn(length, 3, generator=draw).double() for length in lengths]
        for lengths in ((4, 6, 2, 5), (3, 7))
    )
    tokens = [torch.randint(0, 4, (n,), generator=draw) for n in (4, 6, 1, 5, 3)]
    graphs = []
    for n in (3, 5, 1, 4):
        edges = torch.randint(0, n, (2, 2 * n), generator=draw)
        names = torch.randint(0, 3, (n, 1), generator=draw), torch.randint(0, 2, (2 * n, 1))
        graphs.append(Data(x=names[0].double(), edge_index=edges, edge_attr=names[1].double()))
    cases = *(
        (kernel, *sides)
        for kernels, sides in (
            (KERNELS, (x, y)), (TOKEN_KERNELS, (tokens[:3], tokens[3:])),
            (GRAPH_KERNELS, (graphs[:2], graphs[2:])),
        )
        for kernel in kernels
    ),  # fmt: skip
    with OtherDevice(), patch.object(walk_kernels, "_ENTRIES", 16):  # several blocks of counts
        for kernel, x, y in cases:
            there = [[one.clone().to(OTHER) for one in items] for items in (x, y)]
            found = kernel(*there), kernel(there[0]), kernel.diag(there[0])
            for own, known in zip(found, (kernel(x, y), kernel(x), kernel.diag(x)), strict=True):
                assert isinstance(own, OtherTensor), kernel
                torch.testing.assert_close(own.cpu(), known)


def main() -> None:
    """Compare training, saving, loading, predictions and explanations with those of the CPU."""
    import tempfile

    representer.training.state.require_device = lambda name, processes=1: _device(name)
    representer.estimators.base.require_device = _device
    with OtherDevice(), tempfile.TemporaryDirectory() as folder:
        for k, (kind, options, X, y, some) in enumerate(CASES):
            estimators = [
                kind(**USUAL | options, device=device).fit(X, y) for device in ("cpu", "cuda")
            ]
            estimators[1].save(f"{folder}/{k}")
            estimators.append(load(f"{folder}/{k}", device="cuda"))
            places = [str(next(one.network_.parameters()).device) for one in estimators]
            assert places == ["cpu", "other:0", "other:0"], places
            expected = estimators[0].predict_proba(some)
            for one in estimators[1:]:
                np.testing.assert_allclose(one.predict_proba(some), expected, atol=1e-5)
                for own, known in zip(one.explain(some), estimators[0].explain(some), strict=True):
                    assert abs(own.score - known.score) < 1e-4
                one.report(f"{folder}/report.html", some if y is not None else X)
    compare_kernels()
    print("ok")


def _device(name: str) -> torch.device:
    return torch.device("cpu") if name == "cpu" else OTHER


if __name__ == "__main__":
    main()
