"""Convolutions with filters that are sums of products, on every backend (L19 (21))."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import Any

import torch
from torch import Tensor

from representer import functional
from representer.errors import ArgumentError, ShapeError
from representer.ops import core
from representer.ops.checks import check_floating, check_like
from representer.ops.op import Backend, Op, Sample
from representer.ops.separable_convolution import cpp, reference


def separable_convolution(
    x: Tensor,
    mix: Tensor,
    taps: Tensor,
    *,
    stride: int = 1,
    dilation: int = 1,
    backend: str | None = None,
) -> Tensor:
    r"""Convolve a sequence with filters that are sums of R products.

    .. math::
        y_t = \sum_{r=1}^R \sum_{k=0}^{n-1} \mathrm{taps}_r[k] \odot
        (\mathrm{mix}_r\, x_{t \cdot \mathrm{stride} + k \cdot \mathrm{dilation}})

    The channels are mixed once a sample and not once a slot: R (stride I + n) products for each
    step and filter in place of I n.

    Args:
        x: The sequence.
        mix: What a filter takes of every channel.
        taps: Its course over time, the oldest slot first.
        stride: Samples between two steps.
        dilation: Samples between two slots.
        backend: Name of a backend, which runs or raises; None for the fastest available one.

    Shape:
        - x ``(S, B, I)`` with S > (n − 1)·dilation; mix ``(R, O, I)``; taps ``(R, O, n)``
        - returns ``(T, B, O)`` with T = ⌊(S − (n − 1)·dilation − 1) / stride⌋ + 1

    Raises:
        ShapeError: If the shapes do not fit.
        KindError: If dtypes or devices do not.
        ArgumentError: If stride or dilation is below 1.
        BackendError: If the requested backend cannot run the call.

    References:
        Liang et al., Kernel-Based Approaches for Sequence Modeling, NeurIPS 2019, (21).
    """
    check_floating("x", x)
    _check_steps(stride, dilation)
    if taps.dim() != 3 or not taps.numel():
        raise ShapeError("taps", taps.shape, "(rank, filters, slots), none of them 0")
    rank, outputs, n = taps.shape
    if x.dim() != 3 or not x.shape[2] or len(x) <= (n - 1) * dilation:
        expected = f"(samples, batch, channels) with more than {(n - 1) * dilation} samples"
        raise ShapeError("x", x.shape, expected)
    check_like("mix", mix, x, (rank, outputs, x.shape[2]))
    check_like("taps", taps, x, (rank, outputs, n))
    if OP.is_forward_mode(backend):
        return functional.separable_convolution(x, mix, taps, stride=stride, dilation=dilation)
    arguments = (x, mix, taps, stride, dilation)
    name = OP.choose(backend, x.device.type, arguments)
    return OP.call(name, arguments)


def _layout(p: Any, sizes: dict[str, int]) -> Iterator[tuple[str, str | None]]:
    _check_steps(p.stride, p.dilation)
    yield "taps", "rank filters slots"
    yield "mix", "rank filters channels"
    yield "x", "samples batch channels"
    reach = (sizes["slots"] - 1) * p.dilation
    if sizes["samples"] <= reach:
        raise ShapeError(
            "x", p.x.shape, f"(samples, batch, channels) with more than {reach} samples"
        )


def _backward_layout(p: Any, sizes: dict[str, int]) -> Iterator[tuple[str, str | None]]:
    yield from _layout(p, sizes)
    steps = (sizes["samples"] - (sizes["slots"] - 1) * p.dilation - 1) // p.stride + 1
    yield "grad", f"{steps} batch filters"


def _check_steps(stride: int, dilation: int) -> None:
    for name, value in (("stride", stride), ("dilation", dilation)):
        if value < 1:
            raise ArgumentError(name, value, "at least 1")


def _fake(x: Tensor, mix: Tensor, taps: Tensor, stride: int, dilation: int, _: str) -> Tensor:
    steps = (x.shape[0] - (taps.shape[2] - 1) * dilation - 1) // stride + 1
    return x.new_empty(steps, x.shape[1], mix.shape[1])


def _backward_fake(
    grad: Tensor,
    x: Tensor,
    mix: Tensor,
    taps: Tensor,
    stride: int,
    dilation: int,
    of_x: bool,
    _: str,
) -> tuple[Tensor, Tensor, Tensor]:
    return x.new_empty(x.shape if of_x else 0), mix.new_empty(mix.shape), taps.new_empty(taps.shape)


def _save(ctx: Any, inputs: tuple[Any, ...], output: Tensor) -> None:
    *tensors, ctx.stride, ctx.dilation, ctx.backend = inputs
    ctx.save_for_backward(*tensors)


def _gradient(ctx: Any, grad: Tensor) -> tuple[Tensor | None, ...]:
    dx, dmix, dtaps = torch.ops.representer.separable_convolution_backward(
        grad, *ctx.saved_tensors, ctx.stride, ctx.dilation, ctx.needs_input_grad[0], ctx.backend
    )
    return dx if ctx.needs_input_grad[0] else None, dmix, dtaps, None, None, None


def _samples() -> Iterator[Sample]:
    def make(dtype: torch.dtype, *sizes: int) -> dict[str, Tensor]:
        samples, batch, channels, filters, n = sizes
        generator = torch.Generator().manual_seed(sum(sizes))

        def normal(*shape: int) -> Tensor:
            return torch.randn(shape, generator=generator, dtype=torch.float64).to(dtype)

        return {
            "x": normal(samples, batch, channels),
            "mix": normal(2, filters, channels),
            "taps": normal(2, filters, n),
        }

    steps = ((1, 1), (3, 1), (2, 2), (2, 3), (3, 2), (5, 1))
    sizes = ((1, 1, 1, 1, 1), (29, 2, 2, 5, 4), (45, 2, 13, 37, 14))
    for (stride, dilation), size in product(steps, sizes):

        def of(dtype: torch.dtype, size=size) -> dict[str, Tensor]:
            return make(dtype, *size)

        label = "x".join(map(str, size))
        yield Sample(
            f"{label}-stride{stride}-dilation{dilation}",
            of,
            {"stride": stride, "dilation": dilation},
        )

    def long(dtype: torch.dtype) -> dict[str, Tensor]:  # of more steps than the core has in a chunk
        return make(dtype, 1200, 1, 3, 9, 15)

    yield Sample("1200x1x3x9x15", long, {"stride": 2})


OP = Op(
    "separable_convolution",
    separable_convolution,
    functional.separable_convolution,
    _samples,
)
OP.register(
    "(Tensor x, Tensor mix, Tensor taps, int stride, int dilation, str backend) -> Tensor",
    "(Tensor grad, Tensor x, Tensor mix, Tensor taps, int stride, int dilation, bool of_x,"
    " str backend) -> (Tensor, Tensor, Tensor)",
    layout=_layout,
    backward_layout=_backward_layout,
    fake=_fake,
    backward_fake=_backward_fake,
    save=_save,
    gradient=_gradient,
    batch_axes={"x": 1},
    result_axes=(1,),
)
OP.add_backend(Backend("reference", (), reference.forward, reference.backward))
OP.add_backend(Backend("cpp", ("cpu",), cpp.forward, cpp.backward, core.MISSING, cpp.refuses))
