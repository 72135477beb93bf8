"""The recurrence of a network of learned activations on every backend (M18, section 2)."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from representer import functional
from representer.errors import ShapeError
from representer.ops import core
from representer.ops.checks import (
    check_floating,
    check_lengths,
    check_like,
    check_operands,
    may_need_gradient,
)
from representer.ops.kbrn_scan import cpp, reference
from representer.ops.kbrn_scan.arguments import (
    Backward,
    Forward,
    Gradients,
    backward_layout,
    check_options,
    layout,
)
from representer.ops.kbrn_scan.samples import samples
from representer.ops.op import Backend, Op


def kbrn_scan(
    z: Tensor,
    h0: Tensor,
    centers: Tensor,
    coefficients: Tensor,
    *,
    weight: Tensor,
    line: Tensor | None = None,
    norm: Tensor | None = None,
    statistics: Tensor | None = None,
    batch_statistics: bool = False,
    lengths: Tensor | None = None,
    green: str = "abs",
    bandwidth: float = 1.0,
    epsilon: float = 1e-3,
    backend: str | None = None,
) -> tuple[Tensor, Tensor]:
    """Run a network of learned activations over a sequence, as ``functional.kbrn_scan`` defines it.

    Args:
        z: Products with the input, W x + b.
        h0: Output before the first step.
        centers: c, in any order; they may coincide.
        coefficients: chi.
        weight: U, output by input.
        line: theta and nu, or None.
        norm: Gain and offset of the normalization; None normalizes nothing.
        statistics: Mean and variance of every step and sequence, with ``norm``; constants.
        batch_statistics: Whether mean and variance are those of the batch, at the steps that two or
            more sequences have; ``statistics`` are for the others.
        lengths: True lengths; beyond them the state does not change and the output is 0.
        green: g, see ``functional.kernel_activation``.
        bandwidth: s of a Gaussian.
        epsilon: Added to variances.
        backend: Name of a backend, which runs or raises; None for the fastest available one.

    Shape:
        - z ``(T, B, H)``; h0 ``(B, H)``; centers and coefficients ``(H, K)`` with K >= 1; weight
          ``(H, H)``; line ``(H, 2)``; norm ``(2, H)``; statistics ``(2, T, B, H)``; lengths
          ``(B,)``
        - returns h of every step ``(T, B, H)`` and the last h ``(B, H)``

    Raises:
        ShapeError: If the shapes do not fit.
        KindError: If dtypes or devices do not, or normalization lacks statistics.
        ArgumentError: If a length is negative or larger than T, or there is no such g.
        BackendError: If the requested backend cannot run the call.

    References:
        Marra et al., Learning Neuron Non-Linearities with Kernel-Based Deep Neural Networks, 2018,
        section 2, (6) and section 3.
    """
    options = (batch_statistics, green, float(bandwidth), float(epsilon))
    operands = (z, weight, h0, centers, coefficients, line, norm, statistics, lengths)
    return run(operands, options, backend)[:2]


def run(
    operands: tuple[Tensor | None, ...], options: tuple[Any, ...], backend: str | None = None
) -> tuple[Tensor, Tensor, Tensor]:
    """Check and run a call; return the statistics of the batch too, empty if not taken.

    Args:
        operands: The tensors, in the order of ``Forward``.
        options: What comes after them, but for ``keep``.
        backend: As in ``kbrn_scan``.
    """
    keep = may_need_gradient(operands)
    p = Forward(*operands, *options, keep)  # type: ignore[arg-type]
    check_floating("z", p.z)
    check_options(p.green, p.bandwidth, p.epsilon)
    if p.z.dim() != 3 or not len(p.z):
        raise ShapeError("z", p.z.shape, "(time, batch, units) with at least one step")
    time, batch, units = p.z.shape
    if p.centers.dim() != 2 or not p.centers.shape[1]:
        raise ShapeError("centers", p.centers.shape, "(units, centers) with at least one center")
    tables = (units, p.centers.shape[1])
    check_like("h0", p.h0, p.z, (batch, units))
    check_like("weight", p.weight, p.z, (units, units))
    check_like("centers", p.centers, p.z, tables)
    check_like("coefficients", p.coefficients, p.z, tables)
    expected = {
        "line": (p.line, (units, 2), p.line is not None),
        "norm": (p.norm, (2, units), p.norm is not None),
        "statistics": (p.statistics, (2, time, batch, units), p.norm is not None),
    }
    check_operands(expected, p.z, "normalization")
    check_lengths(p.lengths, time, batch)
    if OP.is_forward_mode(backend):
        return functional.kbrn_scan(
            p.z, p.h0, p.centers, p.coefficients, weight=p.weight, line=p.line, norm=p.norm,
            statistics=p.statistics, batch_statistics=p.batch_statistics, lengths=p.lengths,
            green=p.green, bandwidth=p.bandwidth, epsilon=p.epsilon,
        )  # fmt: skip
    name = OP.choose(backend, p.z.device.type, p)
    output, h, used, _ = OP.call(name, p)
    return output, h, used


def _fake(*operands: Any) -> tuple[Tensor, ...]:
    p = Forward(*operands[:-1])
    return tuple(p.h0.new_empty(shape) for shape in p.result_shapes)


def _backward_fake(*operands: Any) -> Gradients:
    p = Backward(*operands[:-1])
    optional = ((0,) if x is None else x.shape for x in (p.line, p.norm))
    tables = p.centers.shape
    shapes = (p.output.shape, p.weight.shape, p.h0.shape, tables, tables, *optional)
    return Gradients(*(p.h0.new_empty(shape) for shape in shapes))


def _save(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
    p = Forward(*inputs[:-1])
    ctx.options = (p.batch_statistics, p.green, p.bandwidth, p.epsilon, inputs[-1])
    h, _, used, normed = output
    ctx.mark_non_differentiable(used, normed)
    ctx.set_materialize_grads(False)
    ctx.save_for_backward(h, used, normed, *p[1:9])


def _gradient(ctx: Any, *of_results: Tensor | None) -> tuple[Tensor | None, ...]:
    saved = ctx.saved_tensors
    results = saved[0], saved[4]  # the last output is of the shape of h0
    given = (
        torch.zeros_like(result) if grad is None else grad
        for result, grad in zip(results, of_results, strict=False)
    )
    found = torch.ops.representer.kbrn_scan_backward(*given, *saved, *ctx.options)
    by_name = dict(zip(Gradients._fields, found, strict=True))
    needs = zip(Forward._fields, ctx.needs_input_grad, strict=False)
    return (*(by_name.get(name) if needed else None for name, needed in needs), None)


def _definition(z: Tensor, *operands: Any, **options: Any) -> tuple[Tensor, Tensor]:
    """Run ``functional.kbrn_scan``, without the statistics."""
    return functional.kbrn_scan(z, *operands, **options)[:2]


OP = Op("kbrn_scan", kbrn_scan, _definition, samples)
OP.register(
    Forward.SCHEMA,
    Backward.SCHEMA,
    layout=layout,
    backward_layout=backward_layout,
    fake=_fake,
    backward_fake=_backward_fake,
    save=_save,
    gradient=_gradient,
    batch_axes={"z": 1, "h0": 0, "statistics": 2, "lengths": 0},
    result_axes=(1, 0, 0, 2),
    mixes_batch=lambda operands: Forward(*operands[:-1]).of_batch,
)
OP.add_backend(Backend("reference", (), reference.forward, reference.backward))
OP.add_backend(Backend("cpp", ("cpu",), cpp.forward, cpp.backward, core.MISSING, cpp.refuses))
