"""One direction of one layer of a cell of L19 Table 1: its parameters and its run.

z_t = X~ . X_t + b,     then ``functional.rkm_scan``                 L19 (18), (19)
"""

from __future__ import annotations

from collections.abc import Callable

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from representer.functional import Cell
from representer.nn.recurrent.filters import DenseFilters
from representer.nn.recurrent.scan import scan
from representer.nn.recurrent.static_gates import StaticGates
from representer.nn.recurrent.wavelet_filters import WaveletFilters
from representer.nn.recurrent.window import extend, last_inputs
from representer.nn.regularization.undropped import undropped


class CellDirection(nn.Module):
    """Filters, recurrent matrices, biases, layer norm and static gates of one direction.

    Args:
        cell: The cell.
        filters: The bank of n-gram filters, ``(G, H, I, n)``, with the stride of the steps.
        hidden_size: H.
        bias: Whether the gates have biases.
        forget_bias: A constant added to the forget gate's bias.
        layer_norm: Whether the fresh cell is layer-normalized.
        static: The static gates, where the cell's are static.
        psi: An output non-linearity that has no name.
        weight_drop: Fraction of recurrent weights dropped in training.
        recompute: Whether the gradient computes the gates again instead of keeping them.
        zoneout: Probability, in training, that a unit's cell, and its emission, stays as it was.
    """

    def __init__(
        self,
        cell: Cell,
        filters: DenseFilters | WaveletFilters,
        hidden_size: int,
        *,
        bias: bool,
        forget_bias: float,
        layer_norm: bool,
        static: StaticGates | None,
        psi: Callable[[Tensor], Tensor] | None,
        weight_drop: float,
        zoneout: tuple[float, float],
        recompute: bool,
        device: torch.device | str | None,
        dtype: torch.dtype | None,
    ) -> None:
        super().__init__()
        self.cell, self.hidden_size = cell, hidden_size
        self.filters, self.static, self.psi = filters, static, psi
        self.forget_bias, self.weight_drop, self.zoneout = forget_bias, weight_drop, zoneout
        self.recompute = recompute
        seen, biased = len(cell.recurrent_gates), len(cell.biased_gates) if bias else 0

        def parameter(*shape: int) -> nn.Parameter | None:
            return (
                nn.Parameter(torch.empty(shape, device=device, dtype=dtype)) if shape[0] else None
            )

        self.recurrent = parameter(seen, hidden_size, hidden_size)
        self.bias = parameter(biased, hidden_size)
        self.norm = nn.LayerNorm(hidden_size, device=device, dtype=dtype) if layer_norm else None
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Draw weights and biases from U(−1/√H, 1/√H), as ``torch.nn.LSTM``."""
        bound = self.hidden_size**-0.5
        self.filters.reset_parameters(bound)
        for parameter in (undropped(self, "recurrent"), self.bias):
            if parameter is not None:
                nn.init.uniform_(parameter, -bound, bound)
        for module in (self.norm, self.static):
            if module is not None:
                module.reset_parameters()

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
            state: h and c, each ``(B, H)``; nothing for a cell without memory.
            window: Inputs before the first ``(B, (n−1)·dilation, I)``, oldest first.
            lengths: True lengths ``(B,)``, or None.
            reverse: Whether to run from the true end to the start.

        Returns:
            Output ``(T / stride, B, H)``, the new state, the new window.
        """
        extended = extend(x, window, lengths, reverse)
        z, input_weight, bias = self._input_part(extended, reverse)
        weight = self.recurrent
        if weight is not None and self.weight_drop:
            weight = F.dropout(weight, self.weight_drop, self.training)
        h0, c0 = state if state else (self._zeros(x.shape[1]),) * 2
        output, h, c = scan(
            z,
            weight,
            h0,
            c0,
            cell=self.cell,
            static=None if self.static is None else self.static(),
            norm=None if self.norm is None else torch.stack((self.norm.weight, self.norm.bias)),
            hold=self._hold(*z.shape[:2]),
            lengths=None if lengths is None else lengths // self.filters.stride,
            reverse=reverse,
            input_weight=input_weight,
            bias=bias,
            recompute=self.recompute,
            psi=self.psi,
        )
        new_window = last_inputs(extended, self.filters.reach, lengths, reverse)
        return output, (h, c) if state else (), new_window

    def full_bias(self) -> Tensor | None:
        """Return the biases of all gates ``(G, H)``, 0 for those that have none."""
        if self.bias is None:
            return None
        bias = F.pad(self.bias, (0, 0, len(self.cell.gates) - len(self.bias), 0))
        if not self.forget_bias or "forget" not in self.cell.gates:
            return bias
        constant = torch.zeros_like(bias)
        constant[self.cell.gates.index("forget")] = self.forget_bias
        return bias + constant

    def _input_part(
        self, extended: Tensor, reverse: bool
    ) -> tuple[Tensor, Tensor | None, Tensor | None]:
        """Return the windows with filters and biases, or else the pre-activations alone."""
        bias = self.full_bias()
        if isinstance(self.filters, DenseFilters) and self.filters.is_plain:
            return *self.filters.operands(extended, reverse=reverse), bias
        z = self.filters(extended, reverse=reverse)
        z = z.to(self._like.dtype)  # autocast may halve products, not the recurrence
        if bias is not None:
            z = z + bias
        # of unit vectors, -||x~ - X||^2 / 2 is their product less 1
        return z - 1 if self.filters.unit_norm else z, None, None

    @property
    def _like(self) -> Tensor:
        return next(self.filters.parameters())

    def _zeros(self, batch: int) -> Tensor:
        return self._like.new_zeros(batch, self.hidden_size)

    def _hold(self, time: int, batch: int) -> Tensor | None:
        if not any(self.zoneout):
            return None
        share = self._like.new_tensor(self.zoneout)[:, None, None, None]
        share = share.expand(2, time, batch, self.hidden_size)
        return torch.bernoulli(share) if self.training else share
