"""The recurrence of a network of learned activations on every backend (M18, section 2)."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from representer import functional
from representer.ops import core, gpu
from representer.ops.checks import may_need_gradient
from representer.ops.kbrn_scan import cpp, reference
from representer.ops.kbrn_scan.reference import Operands, Results
from representer.ops.kbrn_scan.samples import samples
from representer.ops.kernel_activation import refuses as refuses_expansion
from representer.ops.kernel_activation.reference import sizes
from representer.ops.op import Backend, Op
from representer.ops.table import Table

MOST_UNITS = 128  # of the GPU kernels


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
    """Run a call, and return the statistics of the batch too, empty if they were not used.

    ``operands`` and ``options`` are in the order of ``Operands``, without ``keep``.
    """
    return OP(Operands(*operands, *options, may_need_gradient(operands)), backend)[:3]  # type: ignore[arg-type]


def _refuses(p: Operands) -> str:
    """Return why the GPU kernels cannot run a call, or "" if they can."""
    units = p.h0.shape[1]
    if units > MOST_UNITS:
        return f"computes up to {MOST_UNITS} units in one program, not {units}"
    return refuses_expansion(p)


OP = Op("kbrn_scan", kbrn_scan, functional.kbrn_scan, samples)
OP.register(Table(Operands, Results, sizes), mixes_batch=lambda p: p.uses_batch)
OP.add_backend(Backend("reference", (), reference.forward, reference.backward))
OP.add_backend(gpu.backend("kbrn_scan", _refuses))
OP.add_backend(Backend("cpp", ("cpu",), cpp.forward, cpp.backward, core.MISSING, cpp.refuses))
