"""The inputs before a chunk of a sequence, for n-gram filters.

L19 (14): X_t = (x_t, x_{t-1}, ..., x_{t-n+1}) with zeros before the first step. Streaming replaces
the zeros by the last inputs of the previous chunk. For a reverse direction, the window follows the
true end of each sequence.

Shapes: T time, B batch, I features, P length of the window.
"""

from __future__ import annotations

import torch
from torch import Tensor


def extend(x: Tensor, window: Tensor, lengths: Tensor | None, reverse: bool) -> Tensor:
    """Prepend the window ``(B, P, I)``, oldest first, to the sequence ``(T, B, I)``.

    Returns:
        ``(P + T, B, I)`` in temporal order; with ``reverse``, the window follows the true end of
        each sequence, its oldest input last.
    """
    if not window.shape[1]:
        return x
    window_PBI = window.transpose(0, 1)
    if not reverse:
        return torch.cat((window_PBI, x))
    if lengths is None:
        return torch.cat((x, window_PBI.flip(0)))
    extended = torch.cat((x, torch.zeros_like(window_PBI)))
    steps, batch = _after(lengths, window_PBI.shape[0]), torch.arange(x.shape[1], device=x.device)
    window_PBI = window_PBI.flip(0).to(extended.dtype)  # autocast allows another precision
    return extended.index_put((steps, batch.expand_as(steps)), window_PBI)


def last_inputs(extended: Tensor, reach: int, lengths: Tensor | None, reverse: bool) -> Tensor:
    """Return the window ``(B, P, I)`` for the next chunk, oldest input first."""
    if not reach:
        return extended.new_empty(extended.shape[1], 0, extended.shape[2])
    if reverse:
        window_PBI = extended[:reach].flip(0)
    elif lengths is None:
        window_PBI = extended[extended.shape[0] - reach :]
    else:
        steps = _after(lengths, reach)
        batch = torch.arange(extended.shape[1], device=extended.device)
        window_PBI = extended[steps, batch.expand_as(steps)]
    return window_PBI.transpose(0, 1).clone(memory_format=torch.contiguous_format)


def _after(lengths: Tensor, reach: int) -> Tensor:
    """Return the ``reach`` steps after the true end of each sequence ``(P, B)``."""
    return lengths + torch.arange(reach, device=lengths.device)[:, None]
