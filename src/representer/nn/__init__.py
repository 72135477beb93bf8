"""Layers with the API of torch.nn, whose units compare their input with learned references.

The graph layers need torch_geometric, and are imported on first access.
"""

from __future__ import annotations

import importlib
import importlib.util
from typing import TYPE_CHECKING, Any

from representer.nn.activation.kernel_activation import KernelActivation
from representer.nn.activation.piecewise_linear import PiecewiseLinear
from representer.nn.activation.replace import (
    activation_groups,
    activation_penalty,
    replace_activations,
)
from representer.nn.recurrent.cells.cnn import CNN
from representer.nn.recurrent.cells.gated_cnn import GatedCNN
from representer.nn.recurrent.cells.linear_kernel_rnn import LinearKernelRNN
from representer.nn.recurrent.cells.ngram_lstm import NgramLSTM
from representer.nn.recurrent.cells.ran import RAN
from representer.nn.recurrent.cells.rkm import RKM
from representer.nn.recurrent.cells.rkm_cifg import RKMCIFG
from representer.nn.recurrent.cells.rkm_lstm import RKMLSTM
from representer.nn.recurrent.kbrn.kbrn import KBRN
from representer.nn.recurrent.states import (
    KBRNState,
    RecurrentState,
    StringMassState,
    StringState,
    WindowedRecurrentState,
    WindowState,
)
from representer.nn.recurrent.stream import Stream
from representer.nn.recurrent.string.string_kernel_rnn import StringKernelRNN
from representer.nn.regularization.drop_connect import DropConnect, drop_connect
from representer.nn.regularization.embedding_dropout import EmbeddingDropout
from representer.nn.regularization.locked_dropout import LockedDropout

if TYPE_CHECKING:
    from representer.nn.graph.deep_graph_kernel_nn import DeepGraphKernelNN
    from representer.nn.graph.path_graph import path_graph
    from representer.nn.graph.random_walk_kernel_nn import RandomWalkKernelNN
    from representer.nn.graph.relabeling import Relabeling
    from representer.nn.graph.wl_kernel_nn import WLKernelNN
    from representer.nn.recurrent.cells.table1 import TABLE1

_GRAPH = {
    "DeepGraphKernelNN": "deep_graph_kernel_nn",
    "RandomWalkKernelNN": "random_walk_kernel_nn",
    "Relabeling": "relabeling",
    "WLKernelNN": "wl_kernel_nn",
    "path_graph": "path_graph",
}

__all__ = [
    "CNN",
    "KBRN",
    "RAN",
    "RKM",
    "RKMCIFG",
    "RKMLSTM",
    "TABLE1",
    "DeepGraphKernelNN",
    "DropConnect",
    "EmbeddingDropout",
    "GatedCNN",
    "KBRNState",
    "KernelActivation",
    "LinearKernelRNN",
    "LockedDropout",
    "NgramLSTM",
    "PiecewiseLinear",
    "RandomWalkKernelNN",
    "RecurrentState",
    "Relabeling",
    "Stream",
    "StringKernelRNN",
    "StringMassState",
    "StringState",
    "WLKernelNN",
    "WindowState",
    "WindowedRecurrentState",
    "activation_groups",
    "activation_penalty",
    "drop_connect",
    "path_graph",
    "replace_activations",
]

if importlib.util.find_spec("torch_geometric") is None:  # a star import accesses all names
    __all__ = [n for n in __all__ if n not in _GRAPH]  # pyright: ignore[reportUnsupportedDunderAll]


def __getattr__(name: str) -> Any:
    if name == "TABLE1":  # on first access, since the packages of other cells import this one
        from representer.nn.recurrent.cells.table1 import table_with_installed

        return table_with_installed()
    if name in _GRAPH:
        return getattr(importlib.import_module(f"representer.nn.graph.{_GRAPH[name]}"), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
