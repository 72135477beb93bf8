"""The states that sequence layers carry from one call to the next."""

from __future__ import annotations

from typing import NamedTuple

from torch import Tensor


class RecurrentState(NamedTuple):
    """State of a layer with memory, for all its L layers and D directions.

    Attributes:
        h: Last emissions ``(L·D, B, H)``.
        c: Last memory cells ``(L·D, B, H)``.
        window: L·D tensors ``(B, (n−1)·dilation, I_l)``: the last inputs that the n-gram filters
            of each layer still see, oldest first; without rows for n = 1.
    """

    h: Tensor
    c: Tensor
    window: tuple[Tensor, ...]

    def detach(self) -> RecurrentState:
        """Return the same state, cut from the graph that made it."""
        return RecurrentState(
            self.h.detach(), self.c.detach(), tuple(w.detach() for w in self.window)
        )


class WindowState(NamedTuple):
    """State of a layer whose only memory is its n-gram window.

    Attributes:
        window: As in ``RecurrentState``.
    """

    window: tuple[Tensor, ...]

    def detach(self) -> WindowState:
        """Return the same state, cut from the graph that made it."""
        return WindowState(tuple(w.detach() for w in self.window))


class StringState(NamedTuple):
    """State of a string-kernel layer, for all its L layers and D directions.

    Attributes:
        h: Last outputs ``(L·D, B, H)``.
        c: Last states c_1 … c_n ``(L·D, n, B, H)``.
        window: L·D tensors without rows ``(B, 0, I_l)``: an n-gram with gaps needs no window.
    """

    h: Tensor
    c: Tensor
    window: tuple[Tensor, ...]

    def detach(self) -> StringState:
        """Return the same state, cut from the graph that made it."""
        return StringState(self.h.detach(), self.c.detach(), tuple(w.detach() for w in self.window))


class StringMassState(NamedTuple):
    """State of a string-kernel layer that carries the masses of its states too.

    Attributes:
        h: As in ``StringState``.
        c: As in ``StringState``.
        m: Last masses m_1 … m_n ``(L·D, n, B, H)``: the weights of all n-grams, summed.
        window: As in ``StringState``.
    """

    h: Tensor
    c: Tensor
    m: Tensor
    window: tuple[Tensor, ...]

    def detach(self) -> StringMassState:
        """Return the same state, cut from the graph that made it."""
        fields = self.h.detach(), self.c.detach(), self.m.detach()
        return StringMassState(*fields, tuple(w.detach() for w in self.window))


class KBRNState(NamedTuple):
    """State of a network of learned activations, for all its L layers and D directions.

    Attributes:
        h: Last outputs ``(L·D, B, H)``.
        steps: How many steps each sequence has taken ``(L·D, B)``, which tells the statistics that
            the next one is normalized with.
        window: L·D tensors without rows ``(B, 0, I_l)``: there are no n-gram filters.
    """

    h: Tensor
    steps: Tensor
    window: tuple[Tensor, ...]

    def detach(self) -> KBRNState:
        """Return the same state, cut from the graph that made it."""
        return KBRNState(self.h.detach(), self.steps, tuple(w.detach() for w in self.window))
