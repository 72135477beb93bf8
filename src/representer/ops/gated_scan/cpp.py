"""gated_scan on the compiled core."""

from __future__ import annotations

from typing import Any

from torch import Tensor

from representer.ops import core, structs
from representer.ops.sequence import Steps, previous


def forward(
    u: Tensor, f: Tensor, c0: Tensor, lengths: Tensor | None, reverse: bool
) -> tuple[Tensor, Tensor]:
    """Return the states and the final one."""
    return _run("scan_forward", u, f, c0, lengths, reverse)


def backward(
    grad_states: Tensor,
    grad_final: Tensor,
    f: Tensor,
    c0: Tensor,
    states: Tensor,
    lengths: Tensor | None,
    reverse: bool,
) -> tuple[Tensor, Tensor, Tensor]:
    """Return the gradients of u, f and c0."""
    du, dc0 = _run("scan_backward", grad_states, f, grad_final, lengths, reverse)
    df = previous(states, c0, lengths, reverse).mul_(du)
    return du, df.sum_to_size(f.shape), dc0


def refuses(u: Tensor, *arguments: Any) -> str:
    """Say why the core cannot run a call of the op; "" if it can."""
    return core.refuses(u.dtype)


def _run(
    operation: str, u: Tensor, f: Tensor, start: Tensor, lengths: Tensor | None, reverse: bool
) -> tuple[Tensor, Tensor]:
    Steps(len(u), lengths, reverse)  # checks the lengths
    u, f, start = u.contiguous(), f.contiguous(), start.contiguous()
    lengths = None if lengths is None else lengths.long().contiguous()
    time, batch, units = u.shape
    states, final = u.new_empty(u.shape), start.new_empty(start.shape)
    decay = {0: 0, 1: 1, 3: 2}[f.dim()]
    arguments = structs.ScanStruct(
        time, batch, units, reverse, core.threads(), decay, core.pointer(u), core.pointer(f),
        core.pointer(start), core.pointer(lengths), core.pointer(states), core.pointer(final),
    )  # fmt: skip
    core.call(operation, u.dtype, arguments)
    return states, final
