"""f_i(a) = sum_k chi_ik g(a - c_ik) on every backend, by a search, not a sum (M18 (6))."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from representer import functional
from representer.errors import ArgumentError, ShapeError
from representer.functional.kernel_activation import GREENS
from representer.ops import core
from representer.ops.checks import check_floating, check_like
from representer.ops.kernel_activation import cpp, reference
from representer.ops.op import Backend, Op, Sample


def kernel_activation(
    input: Tensor,
    centers: Tensor,
    coefficients: Tensor,
    *,
    green: str = "abs",
    bandwidth: float = 1.0,
    backend: str | None = None,
) -> Tensor:
    r"""Evaluate a kernel expansion for every feature: f_i(a) = sum_k chi_ik g(a - c_ik).

    For ``"abs"``, ``"relu"`` and ``"cubic"`` the centers are sorted, and f is a polynomial between
    two of them: an input costs a search, O(log K), and memory does not grow with K. So do the
    gradients, for which the inputs of each interval are summed up once. The Gaussian is summed over
    all centers.

    Args:
        input: a.
        centers: c, in any order; they may coincide.
        coefficients: chi.
        green: g: ``"abs"``, ``"relu"``, ``"gaussian"`` or ``"cubic"``, see
            ``functional.kernel_activation``.
        bandwidth: s of the Gaussian.
        backend: Name of a backend, which runs or raises; None for the fastest available one.

    Shape:
        - input ``(..., F)``; centers and coefficients ``(F, K)`` with K >= 1
        - returns ``(..., F)``

    Raises:
        ShapeError: If the shapes do not fit.
        KindError: If dtypes or devices do not.
        ArgumentError: If there is no such g, or the bandwidth is not positive.
        BackendError: If the requested backend cannot run the call.

    References:
        Marra et al., Learning Neuron Non-Linearities with Kernel-Based Deep Neural Networks, 2018,
        (5), (6).
    """
    check_floating("input", input)
    _check_options(green, bandwidth)
    if centers.dim() != 2 or not centers.shape[1]:
        raise ShapeError("centers", centers.shape, "(features, centers) with at least one center")
    features = len(centers)
    if not input.dim() or input.shape[-1] != features:
        raise ShapeError(
            "input", input.shape, f"(..., {features}), a feature for each row of centers"
        )
    check_like("centers", centers, input, tuple(centers.shape))
    check_like("coefficients", coefficients, input, tuple(centers.shape))
    if OP.is_forward_mode(backend):
        return functional.kernel_activation(
            input, centers, coefficients, green=green, bandwidth=bandwidth
        )
    rows = input.reshape(-1, features)
    arguments = (rows, centers, coefficients, green, float(bandwidth))
    name = OP.choose(backend, input.device.type, arguments)
    return OP.call(name, arguments).reshape(input.shape)


def _layout(p: Any, sizes: dict[str, int]) -> Iterator[tuple[str, str | None]]:
    _check_options(p.green, p.bandwidth)
    yield "input", "rows features"
    yield "centers", "features centers"
    yield "coefficients", "features centers"


def _backward_layout(p: Any, sizes: dict[str, int]) -> Iterator[tuple[str, str | None]]:
    yield from _layout(p, sizes)
    yield "grad", "rows features"


def _check_options(green: str, bandwidth: float) -> None:
    if green not in GREENS:
        raise ArgumentError("green", green, f"one of {', '.join(GREENS)}")
    if not 0 < bandwidth < float("inf"):
        raise ArgumentError("bandwidth", bandwidth, "a positive number")


def _fake(rows: Tensor, *_: Any) -> Tensor:
    return rows.new_empty(rows.shape)


def _backward_fake(
    grad: Tensor, rows: Tensor, centers: Tensor, *_: Any
) -> tuple[Tensor, Tensor, Tensor]:
    shape = centers.shape
    return rows.new_empty(rows.shape), rows.new_empty(shape), rows.new_empty(shape)


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    *tensors, ctx.green, ctx.bandwidth, ctx.backend = inputs
    ctx.save_for_backward(*tensors)


def _gradient(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    found = torch.ops.representer.kernel_activation_backward(
        grad, *ctx.saved_tensors, ctx.green, ctx.bandwidth, ctx.backend
    )
    return (*found, None, None, None)


def _samples() -> Iterator[Sample]:
    def make(dtype: torch.dtype, rows: int, features: int, count: int) -> dict[str, Tensor]:
        generator = torch.Generator().manual_seed(rows + features + count)

        def normal(*shape: int) -> Tensor:
            return torch.randn(shape, generator=generator, dtype=torch.float64)

        # on a grid and farther out than the centers; no input is at a center, where g has a corner
        inputs = (4 * normal(rows, features)).round(decimals=2) + 0.005
        centers = (2 * normal(features, count)).round(decimals=2)
        if count > 2:
            centers[:, 2] = centers[:, 0]  # two at one place
        return {
            "input": inputs.to(dtype),
            "centers": centers.to(dtype),
            "coefficients": normal(features, count).to(dtype),
        }

    for green in GREENS:
        for rows, features, count in ((1, 1, 1), (5, 2, 3), (70, 3, 20)):

            def of(dtype: torch.dtype, sizes=(rows, features, count)) -> dict[str, Tensor]:
                return make(dtype, *sizes)

            options = {"green": green, "bandwidth": 0.7 if green == "gaussian" else 1.0}
            yield Sample(f"{green}-{rows}x{features}x{count}", of, options)


OP = Op("kernel_activation", kernel_activation, functional.kernel_activation, _samples)
OP.register(
    "(Tensor input, Tensor centers, Tensor coefficients, str green, float bandwidth, str backend)"
    " -> Tensor",
    "(Tensor grad, Tensor input, Tensor centers, Tensor coefficients, str green, float bandwidth,"
    " str backend) -> (Tensor, Tensor, Tensor)",
    layout=_layout,
    backward_layout=_backward_layout,
    fake=_fake,
    backward_fake=_backward_fake,
    save=_save,
    gradient=_gradient,
    batch_axes={"input": 0},
    result_axes=(0,),
)
OP.add_backend(Backend("reference", (), reference.forward, reference.backward))
OP.add_backend(Backend("cpp", ("cpu",), cpp.forward, cpp.backward, core.MISSING, cpp.refuses))
