"""c_t = f_t * c_{t-1} + u_t on every backend (L19 (9), (15))."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from representer import functional
from representer.errors import ShapeError
from representer.ops import core
from representer.ops.checks import check_floating, check_lengths, check_like
from representer.ops.gated_scan import cpp, reference
from representer.ops.op import Backend, Op, Sample

_DECAY_AXES = {0: "", 1: "units"}


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
    check_floating("u", u)
    if u.dim() != 3 or not len(u):
        raise ShapeError("u", u.shape, "(time, batch, units) with at least one step")
    if f.dim() not in (0, 1, 3) or (f.dim() and tuple(f.shape) != tuple(u.shape)[3 - f.dim() :]):
        raise ShapeError("f", f.shape, f"(), ({u.shape[2]},) or {tuple(u.shape)}")
    c0 = u.new_zeros(u.shape[1:]) if c0 is None else c0
    check_like("c0", c0, u, tuple(u.shape[1:]))
    check_like("f", f, u, tuple(f.shape))
    check_lengths(lengths, *u.shape[:2])
    arguments = (u, f, c0, lengths, reverse)
    if OP.is_forward_mode(backend):
        return functional.gated_scan(u, f, c0, lengths=lengths, reverse=reverse)
    name = OP.choose(backend, u.device.type, arguments)
    states, final = OP.call(name, arguments)
    return states, final


def _layout(p: Any, sizes: dict[str, int]) -> Iterator[tuple[str, str | None]]:
    yield "u", "time batch units"
    yield "f", _DECAY_AXES.get(p.f.dim(), "time batch units")
    yield "c0", "batch units"
    yield "lengths", "batch ?"


def _backward_layout(p: Any, sizes: dict[str, int]) -> Iterator[tuple[str, str | None]]:
    yield "states", "time batch units packed"
    yield "grad_states", "time batch units"
    yield "grad_final", "batch units"
    yield "f", _DECAY_AXES.get(p.f.dim(), "time batch units")
    yield "c0", "batch units"
    yield "lengths", "batch ?"


def _fake(u: Tensor, f: Tensor, c0: Tensor, *_: Any) -> tuple[Tensor, Tensor]:
    return u.new_empty(u.shape), u.new_empty(c0.shape)


def _backward_fake(
    grad_states: Tensor, grad_final: Tensor, f: Tensor, *_: Any
) -> tuple[Tensor, Tensor, Tensor]:
    shape = grad_states.shape
    return (
        grad_states.new_empty(shape),
        grad_states.new_empty(f.shape),
        grad_states.new_empty(shape[1:]),
    )


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    _, f, c0, lengths, ctx.reverse, ctx.backend = inputs
    ctx.save_for_backward(f, c0, lengths, output[0])


def _gradient(ctx: Any, grad_states: Tensor, grad_final: Tensor) -> tuple[Tensor | None, ...]:
    f, c0, lengths, states = ctx.saved_tensors
    du, df, dc0 = torch.ops.representer.gated_scan_backward(
        grad_states, grad_final, f, c0, states, lengths, ctx.reverse, ctx.backend
    )
    return du, df, dc0, None, None, None


def _samples() -> Iterator[Sample]:
    def make(dtype: torch.dtype, decay: str, time: int, batch: int, units: int):
        generator = torch.Generator().manual_seed(time + batch + units)

        def normal(*shape: int) -> Tensor:
            return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)

        shape = {"scalar": (), "vector": (units,), "full": (time, batch, units)}[decay]
        return {
            "u": normal(time, batch, units),
            "f": torch.sigmoid(normal(*shape)),
            "c0": normal(batch, units),
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
OP.register(
    "(Tensor u, Tensor f, Tensor c0, Tensor? lengths, bool reverse, str backend)"
    " -> (Tensor, Tensor)",
    "(Tensor grad_states, Tensor grad_final, Tensor f, Tensor c0, Tensor states, Tensor? lengths,"
    " bool reverse, str backend) -> (Tensor, Tensor, Tensor)",
    layout=_layout,
    backward_layout=_backward_layout,
    fake=_fake,
    backward_fake=_backward_fake,
    save=_save,
    gradient=_gradient,
    batch_axes={"u": 1, "f": 1, "c0": 0, "lengths": 0},
    result_axes=(1, 0),
)
OP.add_backend(Backend("reference", (), reference.forward, reference.backward))
OP.add_backend(Backend("cpp", ("cpu",), cpp.forward, cpp.backward, core.MISSING, cpp.refuses))
