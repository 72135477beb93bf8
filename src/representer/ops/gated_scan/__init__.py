"""c_t = f_t * c_{t-1} + u_t on every backend (L19 (9), (15))."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from representer import functional
from representer.ops import core
from representer.ops.gated_scan import cpp, reference
from representer.ops.gated_scan.arguments import Operands, Results
from representer.ops.op import Backend, Op, Sample, normal
from representer.ops.table import Table


def gated_scan(
    u: Tensor,
    f: Tensor,
    c0: Tensor | None = None,
    *,
    lengths: Tensor | None = None,
    reverse: bool = False,
    backend: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Run c_t = f_t * c_{t-1} + u_t over a sequence.

    Args:
        u: Input of each step.
        f: Decay of each step.
        c0: State before the first step; zeros by default.
        lengths: True lengths; beyond them the state does not change and the output is 0.
        reverse: Whether to run from the last true step to the first.
        backend: Name of a backend, which runs or raises; None for the fastest available one.

    Shape:
        - u ``(T, B, H)``; f a scalar, ``(H,)`` or ``(T, B, H)``; c0 ``(B, H)``; lengths ``(B,)``
        - returns c_1..c_T ``(T, B, H)`` and the final state ``(B, H)``

    Raises:
        ShapeError: If the shapes do not fit.
        KindError: If dtypes or devices do not.
        ArgumentError: If a length is negative or larger than T.
        BackendError: If the requested backend cannot run the call.

    References:
        Liang et al., Kernel-Based Approaches for Sequence Modeling, NeurIPS 2019, (9), (15).
    """
    c0 = u.new_zeros(u.shape[1:]) if c0 is None else c0
    return OP(Operands(u, f, c0, lengths, reverse), backend)


def _samples() -> Iterator[Sample]:
    def make(dtype: torch.dtype, decay: str, time: int, batch: int, units: int):
        draw = normal(time + batch + units, dtype)
        shape = {"scalar": (), "vector": (units,), "full": (time, batch, units)}[decay]
        return {
            "u": draw(time, batch, units),
            "f": torch.sigmoid(draw(*shape)),
            "c0": draw(batch, units),
        }

    for decay in ("scalar", "vector", "full"):
        for time, batch, units in ((1, 1, 1), (2, 3, 17), (7, 2, 3)):
            for reverse in (False, True):

                def of(dtype: torch.dtype, sizes=(decay, time, batch, units)):
                    return make(dtype, *sizes)

                label = f"{decay}-{time}x{batch}x{units}-{'reverse' if reverse else 'forward'}"
                yield Sample(label, of, {"reverse": reverse})
                if time > 2:

                    def ragged(dtype: torch.dtype, make_full=of, time=time):
                        return {**make_full(dtype), "lengths": torch.tensor([time - 3, time])}

                    yield Sample(f"{label}-ragged", ragged, {"reverse": reverse}, ("lengths",))


OP = Op("gated_scan", gated_scan, functional.gated_scan, _samples)
OP.register(Table(Operands, Results))
OP.add_backend(Backend("reference", (), reference.forward, reference.backward))
OP.add_backend(Backend("cpp", ("cpu",), cpp.forward, cpp.backward, core.MISSING, cpp.refuses))
