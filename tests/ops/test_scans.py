"""Operators as scans of their definitions, compared with the operators."""

from __future__ import annotations

from collections.abc import Callable
from itertools import compress
from typing import Any

import pytest
import torch

from ops.samples import samples_of
from representer.ops import OPS
from representer.ops.scans import of_onnx

DECOMPOSITIONS = {
    getattr(torch.ops.representer, name).default: of_onnx(op) for name, op in OPS.items()
}
RECURRENT = ("rkm_scan", "string_scan", "gated_scan", "kbrn_scan")
OTHERS = ("kernel_activation", "separable_convolution", "walk_aggregate", "walk_rounds")


class Recorder(torch.overrides.TorchFunctionMode):
    """Collects the calls of the operators."""

    def __init__(self) -> None:
        super().__init__()
        self.calls: list[tuple[Any, tuple[Any, ...], Any]] = []

    def __torch_function__(
        self, func: Callable[..., Any], types: Any, args: Any = (), kwargs: Any = None
    ) -> Any:
        result = func(*args, **(kwargs or {}))
        if func in DECOMPOSITIONS:
            self.calls.append((func, args, result))
        return result


@pytest.mark.parametrize("name", [*RECURRENT, *OTHERS])
def test_an_operator_and_its_decomposition_agree(name: str):
    op, compared = OPS[name], 0
    with torch.no_grad():
        for sample in samples_of(op)[::3]:
            tensors = sample.make(torch.float64)
            if name == "rkm_scan":  # required, though some cells have none
                tensors.setdefault("weight", None)
            with Recorder() as recorder:
                op.function(**tensors, **sample.options)
            for operator, arguments, wanted in recorder.calls:
                found = DECOMPOSITIONS[operator](*arguments)
                if isinstance(wanted, tuple):  # without what is kept for the gradient
                    kept = [x.numel() > 0 for x in found]
                    found, wanted = (tuple(compress(x, kept)) for x in (found, wanted))
                torch.testing.assert_close(found, wanted)
                compared += 1
    assert compared
