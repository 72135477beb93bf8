"""One direction of one string-kernel layer.

p_j[t] = W^(j) x_t and the gates' products, then ``functional.string_scan``       L17 (4), §4, §6.1
"""

from __future__ import annotations

from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from representer.functional import StringChain, string_states
from representer.ops import gated_scan, string_scan
from representer.ops.checks import without_autocast

Scanned = tuple[Tensor, Tensor, Tensor]


class StringDirection(NamedTuple):
    """The current weights and options of one direction."""

    chain: StringChain
    input_weight: Tensor  # references by token, then gates, as in chain.products (P, H, I)
    bias: Tensor | None  # of the gates (G, H)
    decay: Tensor | None  # λ () if it is constant or (H,) if learned; None for a gate
    weight: Tensor | None  # the decay gate's matrix on h_{t−1} (H, H)
    hidden_dropout: float  # fraction of the hidden state dropped from the gates' input

    def __call__(
        self,
        x: Tensor,
        state: tuple[Tensor, ...],
        window: Tensor,
        lengths: Tensor | None,
        reverse: bool,
    ) -> tuple[Tensor, tuple[Tensor, ...], Tensor]:
        """Run over a sequence ``(T, B, I)``; see `SequenceLayer`.

        The state is h ``(B, H)``, c and, if the cell has them, the masses, ``(n, B, H)``.
        """
        h0, *parts = state
        mask = None
        if self.hidden_dropout:  # one mask for all steps of a sequence
            mask = F.dropout(torch.ones_like(h0), self.hidden_dropout)
        c0 = torch.cat(parts).transpose(0, 1)
        output, h, c = self._scan(x, h0, c0, mask=mask, lengths=lengths, reverse=reverse)
        c_new = c.transpose(0, 1).split(self.chain.order)
        return output, (h, *(part.contiguous() for part in c_new)), window

    def cell_states(self, x: Tensor, reverse: bool) -> Tensor:
        """Return r_1 … r_n of every step ``(T, B, n, H)``, from zeros and without dropout.

        Given the shorter states, those of one length are an elementwise recurrence, so n scans
        compute all steps.
        """
        chain, x = self.chain, x.flip(0) if reverse else x
        z = self._products(x)
        lam, c, m = self._decays(x, z), torch.zeros_like(z[:, :, 0]), torch.ones_like(z[:, :, 0])
        w = 1 - lam if chain.normalized == "paper" else torch.ones_like(lam)
        c = m if chain.combine == "multiply" else c
        states, masses = [], []
        for j in range(chain.order):
            p = z[:, :, j]
            joined = c * p if chain.combine == "multiply" else c + p
            joined = c + m * p if chain.combine == "add_exact" else joined
            states.append(gated_scan(w * joined, lam)[0])
            masses += [gated_scan(w * m, lam)[0]] if chain.has_mass else []
            c = _before(states[-1])
            m = _before(masses[-1]) if chain.has_mass else m
        read = string_states(chain, torch.stack((*states, *masses), dim=2))
        return read.flip(0) if reverse else read

    def _decays(self, x: Tensor, z: Tensor) -> Tensor:
        """Return λ of every step ``(T, B, H)``, or the given λ."""
        if self.decay is not None:
            return self.decay
        a = z[:, :, self.chain.order]
        if self.weight is not None:
            zeros = z.new_zeros(x.shape[1], self.chain.states, z.shape[3])
            h, _, _ = self._scan(x, zeros[:, 0], zeros)
            with without_autocast(h):
                a = a + _before(h) @ self.weight.T
        return torch.sigmoid(a)

    def _scan(self, x: Tensor, h0: Tensor, c0: Tensor, **options: Any) -> Scanned:
        weights = {"input_weight": self.input_weight, "bias": self.bias, "weight": self.weight}
        return string_scan(x, h0, c0, chain=self.chain, decay=self.decay, **weights, **options)

    def _products(self, x: Tensor) -> Tensor:
        """Return W x_t of every token and gate, with the gates' biases ``(T, B, P, H)``."""
        weight, bias = self.input_weight, self.bias
        if bias is not None:
            bias = F.pad(bias, (0, 0, self.chain.order, 0)).flatten()
        # autocast may reduce the precision of products, but not of the recurrence
        return (
            F.linear(x, weight.flatten(0, 1), bias).to(weight.dtype).unflatten(-1, weight.shape[:2])
        )


def _before(states: Tensor) -> Tensor:
    """Return the states before each step, zeros before the first."""
    return torch.cat((torch.zeros_like(states[:1]), states[:-1]))
