"""Adam in some rows of a weight: the steps that they missed, and one with a gradient."""

from __future__ import annotations

import math
from typing import NamedTuple

import torch
from torch import Tensor

from representer.errors import ArgumentError, BackendError, KindError, ShapeError
from representer.ops import core
from representer.ops.structs import AdamStruct

BETAS, EPS = (0.9, 0.999), 1e-8
_RATIO = BETAS[0] / BETAS[1] ** 0.5  # of the moves of two successive missed steps


class RowMoments(NamedTuple):
    """A weight and what Adam keeps of it."""

    weight: Tensor  # ``(V, E)``
    first: Tensor  # mean of the gradients
    second: Tensor  # mean of their squares
    last: Tensor  # the last step of each row, -1 for none ``(V,)``, int64


def step_numbers(step: int, rate: float) -> tuple[float, float]:
    r"""Return :math:`a_j` and :math:`b_j` of step j, see `adam_rows`."""
    b = (1 - BETAS[1] ** step) ** 0.5
    return rate * b / (1 - BETAS[0] ** step), b


@torch.no_grad()
def adam_rows(
    moments: RowMoments, rows: Tensor, numbers: Tensor, step: int, gradient: Tensor | None = None,
    *, backend: str | None = None,
) -> None:  # fmt: skip
    r"""Perform the missed steps of some rows up to `step`, and then one with a gradient, in place.

    After step s with moments m and v, a row without a gradient moves in step j = s + k by

    .. math::
        -\frac{\gamma_j}{1-\beta_1^j}
        \frac{\beta_1^k m}{\sqrt{\beta_2^k v / (1-\beta_2^j)} + \epsilon}
        = -\frac{m\, a_j\, r^k}{\sqrt v + \epsilon\, b_j\, \beta_2^{-k/2}}, \qquad
        b_j = \sqrt{1-\beta_2^j}, \; a_j = \frac{\gamma_j b_j}{1-\beta_1^j}, \;
        r = \frac{\beta_1}{\sqrt{\beta_2}}

    Moves of less than the rounding error of the first one are left out: those with
    :math:`r^k < 10^{-7}` in float32. The moments are those of all steps.

    Args:
        moments: The weight; its tensors are contiguous.
        rows: Distinct rows ``(R,)``, int64.
        numbers: a and b of all steps ``(2, S)``, float64.
        step: Number of steps before that of the gradient.
        gradient: Of these rows ``(R, E)``; None for none.
        backend: ``"cpp"`` or ``"reference"``; None for the faster one that is available.

    Raises:
        ShapeError: A tensor has another shape, or there are too few numbers.
        KindError: A tensor has another dtype or device.
        ArgumentError: The number of steps is negative.
        IndexError: A row does not exist.

    References:
        Kingma and Ba, Adam: A Method for Stochastic Optimization, ICLR 2015, algorithm 1.
    """
    dtype, device = moments.weight.dtype, moments.weight.device
    _check(moments, rows, numbers, step, gradient)
    window = math.ceil(math.log(torch.finfo(dtype).eps) / math.log(_RATIO))
    is_plain = device.type == "cpu" and all(tensor.is_contiguous() for tensor in moments)
    has_core = not core.MISSING and not core.refuses_dtype(dtype)
    if backend == "reference" or (backend is None and not (is_plain and has_core)):
        _reference(moments, rows, numbers.to(device), step, window, gradient)
        return
    if not (is_plain and has_core):
        raise BackendError(core.MISSING or "adam_rows: the core takes contiguous tensors on cpu.")
    a, b = numbers
    core.run(
        "adam_rows", AdamStruct, dtype, rows=len(rows), features=moments.weight.shape[1],
        step=step, window=window, index=rows, a=a, b=b, gradient=gradient,
        beta1=BETAS[0], beta2=BETAS[1], epsilon=EPS, **moments._asdict(),
    )  # fmt: skip


def _check(
    moments: RowMoments, rows: Tensor, numbers: Tensor, step: int, gradient: Tensor | None
) -> None:
    """Refuse what would make the core read outside its tensors."""
    weight, least = moments.weight, step + (gradient is not None)
    if step < 0:
        raise ArgumentError("step", step, "0 or more")
    if rows.dim() != 1:
        raise ShapeError("rows", rows.shape, "(R,)")
    if numbers.dim() != 2 or len(numbers) != 2 or numbers.shape[1] < least:
        raise ShapeError("numbers", numbers.shape, f"(2, {least} or more)")
    shape = tuple(weight.shape)
    if len(shape) != 2:
        raise ShapeError("weight", shape, "(V, E)")
    kinds = (
        ("first", moments.first, shape, weight.dtype),
        ("second", moments.second, shape, weight.dtype),
        ("last", moments.last, shape[:1], torch.int64),
        ("gradient", gradient, (len(rows), *shape[1:]), weight.dtype),
        ("rows", rows, tuple(rows.shape), torch.int64),
        ("numbers", numbers, tuple(numbers.shape), torch.float64),
    )
    for name, tensor, expected, dtype in kinds:
        if tensor is None:
            continue
        if tuple(tensor.shape) != expected:
            raise ShapeError(name, tensor.shape, str(expected))
        if tensor.dtype != dtype:
            raise KindError(name, str(tensor.dtype), str(dtype))
        if name != "numbers" and tensor.device != weight.device:
            raise KindError(name, f"on {tensor.device}", str(weight.device))
    if len(rows) and not 0 <= int(rows.min()) <= int(rows.max()) < shape[0]:
        raise IndexError(
            f"rows are {int(rows.min())} to {int(rows.max())}; expected 0 to {shape[0] - 1}"
        )


def _reference(
    moments: RowMoments, rows: Tensor, numbers: Tensor, step: int, window: int,
    gradient: Tensor | None,
) -> None:  # fmt: skip
    *tensors, last = moments
    p, m, v = (tensor[rows] for tensor in tensors)
    done = last[rows]
    is_behind = (done >= 0) & (done < step)
    missed = torch.where(is_behind, step - done, 0)[:, None]
    root, total = v.sqrt(), torch.zeros_like(p)
    for k in range(1, min(window, int(missed.max()) if len(rows) else 0) + 1):
        i = (done + k - 1).clamp(0, step - 1)  # those with fewer missed steps are left out below
        a, b = numbers[:, i, None].to(p.dtype)
        move = a * _RATIO**k / (root + EPS * BETAS[1] ** (-k / 2) * b)
        total += torch.where(k <= missed, move, 0)
    p -= m * total
    for tensor, beta in zip((m, v), BETAS, strict=True):
        tensor *= (beta ** missed.double()).to(p.dtype)
    done = torch.where(is_behind, step, done)
    if gradient is not None:
        a, b = numbers[:, step].tolist()
        m.lerp_(gradient, 1 - BETAS[0])
        v.mul_(BETAS[1]).addcmul_(gradient, gradient, value=1 - BETAS[1])
        p -= a * m / (v.sqrt() + EPS * b)
        done = torch.full_like(done, step + 1)
    for tensor, values in zip(moments, (p, m, v, done), strict=True):
        tensor[rows] = values
