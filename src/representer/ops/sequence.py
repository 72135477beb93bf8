"""Iterate over the steps of padded sequences, in either direction."""

from __future__ import annotations

from collections.abc import Iterator

import torch
from torch import Tensor

from representer.errors import ArgumentError
from representer.ops.checks import assert_in_graph, is_captured


def check_length_range(lengths: Tensor, time: int) -> int:
    """Check that every length is within the padded sequence, and return the smallest.

    In a CUDA graph lengths are checked on the device, and the smallest is returned as 0.

    Raises:
        ArgumentError: If a length is negative or larger than ``time``.
    """
    if is_captured(lengths):
        assert_in_graph(((lengths >= 0) & (lengths <= time)).all(), f"lengths are not 0 to {time}")
        return 0
    shortest = time
    for i, length in enumerate(lengths.tolist()):
        if not 0 <= length <= time:
            raise ArgumentError(f"lengths[{i}]", length, f"0 to {time}, the number of steps")
        shortest = min(shortest, length)
    return shortest


class Steps:
    """The steps of a batch of sequences in the order of the recurrence.

    Raises:
        ArgumentError: If a length is negative or larger than ``time``.
    """

    def __init__(self, time: int, lengths: Tensor | None, reverse: bool) -> None:
        self._order = range(time)[::-1] if reverse else range(time)
        self._shortest = time
        if lengths is not None:
            self._shortest = check_length_range(lengths, time)
            real_TB = torch.arange(time, device=lengths.device)[:, None] < lengths
            self._real = real_TB[:, :, None]

    def __iter__(self) -> Iterator[int]:
        return iter(self._order)

    def backwards(self) -> Iterator[int]:
        """Iterate over the steps in the order in which gradients flow."""
        return reversed(self._order)

    def is_whole(self, t: int) -> bool:
        """Return True if every sequence has a step t."""
        return t < self._shortest

    def real(self, t: int) -> Tensor:
        """Return the mask of the sequences that have a step t, ``(B, 1)``."""
        return self._real[t]


def previous(
    states: Tensor,
    initial: Tensor,
    lengths: Tensor | None,
    reverse: bool,
    *,
    out: Tensor | None = None,
) -> Tensor:
    """Return the state before each step ``(T, B, H)``, in the memory of ``out`` if given.

    ``states`` are those after each step, 0 beyond the lengths.
    """
    shifted = torch.empty_like(states) if out is None else out
    if not reverse:
        shifted[0] = initial
        shifted[1:] = states[:-1]
        return shifted
    shifted[-1] = initial
    shifted[:-1] = states[1:]
    if lengths is None:
        return shifted
    last = lengths.to(torch.int64).sub(1).clamp(0, states.shape[0] - 1)
    batch = torch.arange(len(last), device=last.device)
    shifted[-1] = 0
    shifted[last, batch] = initial
    return shifted
