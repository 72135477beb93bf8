"""One direction of one string-kernel layer: its parameters and its run.

p_j[t] = W^(j) x_t and the gates' products, then ``functional.string_scan``       L17 (4), §4, §6.1
"""

from __future__ import annotations

import math

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from representer.functional import StringChain, string_states
from representer.nn.recurrent.string_options import DecayOption
from representer.nn.regularization.undropped import undropped
from representer.ops import gated_scan, string_scan


class StringDirection(nn.Module):
    """References, decay and gates of one direction.

    Args:
        chain: The cell.
        input_size: I, features of one step.
        hidden_size: H.
        decay: As ``StringKernelRNN`` takes it.
        bias: Whether the gates have biases; the products with tokens never have.
        hidden_dropout: Fraction of the hidden state that is hidden from the gates in training.

    Attributes:
        input_weight: The references, token by token, and the gates' matrices, in the order of
            ``chain.products`` ``(P, H, I)``.
        bias: Of the gates ``(G, H)``, or None.
        recurrent: The decay gate's matrix on h_{t−1} ``(H, H)``, or None.
        decay_logit: σ^{−1} of a learned decay ``(H,)``, or None.
    """

    def __init__(
        self,
        chain: StringChain,
        input_size: int,
        hidden_size: int,
        *,
        decay: DecayOption,
        bias: bool,
        hidden_dropout: float,
        device: torch.device | str | None,
        dtype: torch.dtype | None,
    ) -> None:
        super().__init__()
        self.chain, self.hidden_size, self.decay = chain, hidden_size, decay
        self.hidden_dropout = hidden_dropout
        products = len(chain.products)
        gates = products - chain.order

        def parameter(is_used: bool, *shape: int) -> nn.Parameter | None:
            empty = torch.empty(shape, device=device, dtype=dtype)
            return nn.Parameter(empty) if is_used else None

        weight = torch.empty(products, hidden_size, input_size, device=device, dtype=dtype)
        self.input_weight = nn.Parameter(weight)
        self.bias = parameter(bias and gates > 0, gates, hidden_size)
        self.recurrent = parameter(chain.sees_h, hidden_size, hidden_size)
        self.decay_logit = parameter(decay == "learned", hidden_size)
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weights from U(−√(3/fan_in), √(3/fan_in)); biases and decay logits are 0."""
        size = self.input_weight.shape[2]
        nn.init.uniform_(self.input_weight, -math.sqrt(3 / size), math.sqrt(3 / size))
        recurrent = undropped(self, "recurrent")
        if recurrent is not None:  # the gate has both for its input
            bound = math.sqrt(3 / (size + self.hidden_size))
            nn.init.uniform_(recurrent, -bound, bound)
            with torch.no_grad():
                nn.init.uniform_(self.input_weight[self.chain.order], -bound, bound)
        for parameter in (self.bias, self.decay_logit):
            if parameter is not None:
                nn.init.zeros_(parameter)

    def forward(
        self,
        x: Tensor,
        state: tuple[Tensor, ...],
        window: Tensor,
        lengths: Tensor | None,
        reverse: bool,
    ) -> tuple[Tensor, tuple[Tensor, ...], Tensor]:
        """Run over a sequence.

        Args:
            x: ``(T, B, I)``.
            state: h ``(B, H)``, c and, for a cell that has them, the masses, ``(n, B, H)``.
            window: Without rows ``(B, 0, I)``; returned as it is.
            lengths: True lengths ``(B,)``, or None.
            reverse: Whether to run from the true end to the start.

        Returns:
            Output ``(T, B, H)``, the new state, the window.
        """
        h0, *parts = state
        mask = None
        if self.hidden_dropout and self.training:  # one mask for all steps of a sequence
            mask = F.dropout(torch.ones_like(h0), self.hidden_dropout)
        c0 = torch.cat(parts).transpose(0, 1)
        output, h, c = self._scan(
            x, h0, c0, self.recurrent, mask=mask, lengths=lengths, reverse=reverse
        )
        fresh = c.transpose(0, 1).split(self.chain.order)
        return output, (h, *(part.contiguous() for part in fresh)), window

    def decay_value(self) -> Tensor | None:
        """Return λ where it is no gate: ``()`` if it is constant, ``(H,)`` if learned."""
        if self.decay_logit is not None:
            return torch.sigmoid(self.decay_logit)
        # made here and not kept, so that a layer brought to float64 has all digits of it
        return None if isinstance(self.decay, str) else self.input_weight.new_full((), self.decay)

    def cell_states(self, x: Tensor, reverse: bool) -> Tensor:
        """Return r_1 … r_n of every step ``(T, B, n, H)``, from zeros and without dropout.

        The states of one length are an elementwise recurrence once the shorter ones are known,
        so that all steps are taken by n scans.
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
        """Return λ of every step ``(T, B, H)``, or as it is given."""
        chain, given = self.chain, self.decay_value()
        if given is not None:
            return given
        a = z[:, :, chain.order]
        weight = undropped(self, "recurrent")
        if weight is not None:
            zeros = z.new_zeros(x.shape[1], chain.states, self.hidden_size)
            h, _, _ = self._scan(x, zeros[:, 0], zeros, weight)
            a = a + _before(h) @ weight.T
        return torch.sigmoid(a)

    def _scan(
        self,
        x: Tensor,
        h0: Tensor,
        c0: Tensor,
        weight: Tensor | None,
        *,
        mask: Tensor | None = None,
        lengths: Tensor | None = None,
        reverse: bool = False,
    ) -> tuple[Tensor, Tensor, Tensor]:
        return string_scan(
            x,
            h0,
            c0,
            chain=self.chain,
            input_weight=self.input_weight,
            bias=self.bias,
            decay=self.decay_value(),
            weight=weight,
            mask=mask,
            lengths=lengths,
            reverse=reverse,
        )

    def _products(self, x: Tensor) -> Tensor:
        """Return W x_t of every token and gate, with the gates' biases ``(T, B, P, H)``."""
        weight, bias = self.input_weight, self.bias
        if bias is not None:
            bias = F.pad(bias, (0, 0, self.chain.order, 0)).flatten()
        # autocast may halve products, not the recurrence
        return (
            F.linear(x, weight.flatten(0, 1), bias).to(weight.dtype).unflatten(-1, weight.shape[:2])
        )


def _before(states: Tensor) -> Tensor:
    """Return the states before each step, zeros before the first."""
    return torch.cat((torch.zeros_like(states[:1]), states[:-1]))
