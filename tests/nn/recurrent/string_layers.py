"""The string-kernel layers for the tests."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from torch import Tensor

from representer import nn

TIME, BATCH, INPUT, HIDDEN = 6, 3, 4, 4  # of one size, so that highways may be laid

STRING_LAYERS: dict[str, dict[str, Any]] = {
    "multiply": {"activation": None},
    "order 1": {"order": 1, "decay": 0.9},
    "order 4": {"order": 4, "decay": 0.7, "activation": "sigmoid"},
    "no decay": {"decay": 1.0},
    "no memory": {"decay": 0.0, "order": 3},
    "learned": {"decay": "learned", "order": 3},
    "input gate": {"decay": "input", "normalized": True},
    "state gate": {"decay": "state", "activation": "relu", "readout": "sum"},
    "add": {"combine": "add", "order": 3},
    "add_exact": {"combine": "add_exact", "order": 3, "activation": None},
    "normalized": {"normalized": True, "decay": 0.3},
    "exact": {"normalized": "exact", "order": 3},
    "sum": {"readout": "sum", "order": 3, "activation": "relu"},
    "highway": {"order": 1, "decay": "state", "normalized": True, "activation": None,
                "highway": True},
    "everything": {"order": 3, "decay": "state", "combine": "add_exact", "normalized": "exact",
                   "readout": "sum", "highway": True},
}  # fmt: skip
EVERY_STRING_LAYER = pytest.mark.parametrize("name", STRING_LAYERS)


def build_string(name: str, **options: Any) -> nn.StringKernelRNN:
    """Return a layer of a row of ``STRING_LAYERS`` in float64."""
    settings = {"decay": 0.5, "dtype": torch.float64, **STRING_LAYERS[name], **options}
    return nn.StringKernelRNN(INPUT, HIDDEN, **settings)


def string_batch(time: int = TIME, size: int = BATCH) -> Tensor:
    """Return random sequences ``(T, B, I)``."""
    return torch.randn(time, size, INPUT, dtype=torch.float64)
