"""Layers with the API of torch.nn, whose units compare their input with learned references.

The graph layers need torch_geometric, and are imported on first access.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import TYPE_CHECKING, Any

from representer.nn.activation.kernel_activation import KernelActivation, PiecewiseLinear
from representer.nn.activation.kernel_dag import KAN, KernelDAG
from representer.nn.activation.kernel_linear import KernelLinear
from representer.nn.activation.replace import (
    activation_groups,
    activation_penalty,
    replace_activations,
)
from representer.nn.recurrent.cells import (
    CNN,
    RAN,
    RKM,
    RKMCIFG,
    RKMLSTM,
    GatedCNN,
    LinearKernelRNN,
    NgramLSTM,
)
from representer.nn.recurrent.kbrn import KBRN
from representer.nn.recurrent.states import (
    KBRNState,
    RecurrentState,
    StringMassState,
    StringState,
    WindowedRecurrentState,
    WindowState,
)
from representer.nn.recurrent.stream import Stream
from representer.nn.recurrent.string import StringKernelRNN
from representer.nn.regularization import DropConnect, EmbeddingDropout, LockedDropout, drop_connect

if TYPE_CHECKING:
    from representer.nn.graph.tree_kernel_nn import TreeKernelNN
    from representer.nn.graph.walks import RandomWalkKernelNN, path_graph
    from representer.nn.graph.wl_kernel_nn import DeepGraphKernelNN, Relabeling, WLKernelNN
    from representer.nn.recurrent.cells import TABLE1

_GRAPH = {
    "DeepGraphKernelNN": "wl_kernel_nn",
    "RandomWalkKernelNN": "walks",
    "Relabeling": "wl_kernel_nn",
    "TreeKernelNN": "tree_kernel_nn",
    "WLKernelNN": "wl_kernel_nn",
    "path_graph": "walks",
}

__all__ = [
    "CNN", "KAN", "KBRN", "RAN", "RKM", "RKMCIFG", "RKMLSTM", "TABLE1", "DeepGraphKernelNN",
    "DropConnect", "EmbeddingDropout", "GatedCNN", "KBRNState", "KernelActivation", "KernelDAG",
    "KernelLinear", "LinearKernelRNN", "LockedDropout", "NgramLSTM", "PiecewiseLinear",
    "RandomWalkKernelNN", "RecurrentState", "Relabeling", "Stream", "StringKernelRNN",
    "StringMassState", "StringState", "TreeKernelNN", "WLKernelNN", "WindowState",
    "WindowedRecurrentState", "activation_groups", "activation_penalty", "drop_connect",
    "path_graph", "replace_activations",
]  # fmt: skip

if importlib.util.find_spec("torch_geometric") is None:  # a star import accesses all names
    __all__ = [n for n in __all__ if n not in _GRAPH]  # pyright: ignore[reportUnsupportedDunderAll]

__dir__ = __all__.copy  # what tab completion shows


def __getattr__(name: str) -> Any:
    if name == "TABLE1":  # on first access, since the packages of other cells import this one
        from representer.nn.recurrent.cells import table_with_installed

        return table_with_installed()
    if name in _GRAPH:
        return getattr(importlib.import_module(f"representer.nn.graph.{_GRAPH[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
