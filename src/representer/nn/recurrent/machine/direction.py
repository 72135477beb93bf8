"""One direction of one layer of a cell of L19 Table 1.

z_t = X~ . X_t + b,     then ``functional.rkm_scan``, or a faster equivalent     L19 (18), (19)
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from representer import functional
from representer.functional import Cell
from representer.nn.recurrent.inputs import zero_padding
from representer.nn.recurrent.machine.filters import FilterBank
from representer.nn.recurrent.machine.wavelet_filters import WaveletFilters
from representer.nn.recurrent.machine.window import extend, last_inputs
from representer.ops import core, gated_scan, rkm_scan
from representer.ops.checks import without_autocast

Scanned = tuple[Tensor, Tensor, Tensor]
WIDE = 8  # sequences for each core from which a step of the core keeps its registers full


class CellDirection(NamedTuple):
    """The current weights and options of one direction."""

    cell: Cell
    bank: FilterBank
    filters: tuple[Tensor, ...]  # of dense filters, one (G·H, n·I) for each length
    wavelets: WaveletFilters | None
    weight: Tensor | None  # recurrent matrices (R, H, H)
    bias: Tensor | None  # of all gates (G, H)
    norm: Tensor | None  # gain and bias of the layer norm on the cell (2, H)
    static: Tensor | None  # static gates (2, H)
    psi: Callable[[Tensor], Tensor] | None  # an output nonlinearity without a name
    zoneout: tuple[float, float]  # probabilities that a unit's cell and output are not updated
    training: bool
    recompute: bool  # recompute the gates in the backward pass

    def __call__(
        self,
        x: Tensor,
        state: tuple[Tensor, ...],
        window: Tensor,
        lengths: Tensor | None,
        reverse: bool,
    ) -> tuple[Tensor, tuple[Tensor, ...], Tensor]:
        """Run over a sequence ``(T, B, I)``; see `SequenceLayer`.

        The state is h and c, each ``(B, H)``, or empty for a cell without memory; the window has
        the inputs before the first ``(B, (n−1)·dilation, I)``, oldest first.
        """
        extended = extend(x, window, lengths, reverse)
        new_window = last_inputs(extended, self.bank.reach, lengths, reverse)
        if lengths is not None:
            lengths = lengths // self.bank.stride
        if self.bank.is_plain:  # the op computes the products
            z = self.bank.windows(extended, reverse=reverse)
            weight = self.filters[0]
            input_weight = weight.reshape(len(self.cell.gates), -1, weight.shape[1])
        else:
            z, input_weight = self._products(extended, reverse), None
        if not state:
            return self._at_once(z, input_weight, lengths), (), new_window
        h0, c0 = state
        hold = self._hold(*z.shape[:2])
        if hold is None and self.psi is None and self.norm is None and _is_elementwise(self.cell):
            output, h, c = self._elementwise(z, input_weight, h0, c0, lengths, reverse)
        else:
            scan = self._scan(input_weight)
            output, h, c = scan(z, h0=h0, c0=c0, hold=hold, lengths=lengths, reverse=reverse)
        return output, (h, c), new_window

    def _products(self, extended: Tensor, reverse: bool) -> Tensor:
        """Return the input part of the pre-activations ``(T / stride, B, G, H)``."""
        gates = len(self.cell.gates)
        if self.wavelets is not None:
            z = self.wavelets(extended, reverse=reverse)
            z = z.to(self.wavelets.amplitude.dtype)
        else:
            z = self.bank.product(self.filters, extended, gates, reverse=reverse)
            z = z.to(self.filters[0].dtype)  # the recurrence keeps its precision
        if self.bias is not None:
            z = z + self.bias
        # for unit vectors, -||x~ - X||^2 / 2 is their product minus 1
        return z - 1 if self.bank.unit_norm else z

    def _scan(self, input_weight: Tensor | None) -> Callable[..., Scanned]:
        """Return the equations of the cell; a ``psi`` without a name is differentiated by autograd.

        With ``input_weight``, its input z are windows.
        """
        operands: dict[str, Any] = {
            "weight": self.weight, "cell": self.cell, "static": self.static, "norm": self.norm,
        }  # fmt: skip
        if self.psi is None:
            bias = None if input_weight is None else self.bias
            operands |= {"input_weight": input_weight, "bias": bias, "recompute": self.recompute}
            return partial(rkm_scan, **operands)

        def run(z: Tensor, **options: Any) -> Scanned:
            z = self._biased_products(z, input_weight)
            with without_autocast(z):
                return functional.rkm_scan(z, psi=self.psi, **operands, **options)

        return run

    def _at_once(self, z: Tensor, input_weight: Tensor | None, lengths: Tensor | None) -> Tensor:
        """Run a cell without memory as one step of a batch of T·B.

        The core, whose own memory grows with the batch, takes the steps one after another.
        """
        time, batch = z.shape[:2]
        units = z.shape[-1] if input_weight is None else input_weight.shape[1]
        like = z if input_weight is None else input_weight
        is_eager = not torch.compiler.is_compiling()  # else the graph would depend on the machine
        is_on_core = is_eager and z.device.type == "cpu" and not core.MISSING
        if is_on_core and batch >= WIDE * core.MOST_THREADS:
            zeros = like.new_zeros(batch, units)
            return self._scan(input_weight)(z, h0=zeros, c0=zeros, lengths=lengths)[0]
        zeros = like.new_zeros(time * batch, units)
        output, _, _ = self._scan(input_weight)(z.flatten(0, 1)[None], h0=zeros, c0=zeros)
        output = output.unflatten(1, (time, batch))[0]
        return output if lengths is None else zero_padding(output, lengths)

    def _elementwise(
        self,
        z: Tensor,
        input_weight: Tensor | None,
        h0: Tensor,
        c0: Tensor,
        lengths: Tensor | None,
        reverse: bool,
    ) -> Scanned:
        """Run a linear cell without feedback as an elementwise recurrence."""
        assert self.static is not None
        u = self.static[0] * self._biased_products(z, input_weight)[:, :, 0]
        f = self.static[1]
        if self.cell.memory == "output":  # h_t = (u_t + f h_{t-1}) / 2
            output, h = gated_scan(u / 2, f / 2, h0, lengths=lengths, reverse=reverse)
            return output, h, 2 * h
        cells, c = gated_scan(u, f, c0, lengths=lengths, reverse=reverse)
        emit = functional.nonlinearity(self.cell.output).value
        output = emit(cells)
        return output if lengths is None else zero_padding(output, lengths), emit(c), c

    def _biased_products(self, z: Tensor, input_weight: Tensor | None) -> Tensor:
        """Return the pre-activations; with ``input_weight``, z are windows."""
        if input_weight is None:
            return z
        bias = None if self.bias is None else self.bias.flatten()
        products = F.linear(z, input_weight.flatten(0, 1), bias).to(input_weight.dtype)
        return products.unflatten(-1, input_weight.shape[:2])

    def _hold(self, time: int, batch: int) -> Tensor | None:
        if not any(self.zoneout):
            return None
        like = self.filters[0] if self.wavelets is None else self.wavelets.amplitude
        holds = like.new_tensor(self.zoneout)[:, None, None, None]
        holds = holds.expand(2, time, batch, sum(self.bank.lengths.values()))
        return torch.bernoulli(holds) if self.training else holds


def _is_elementwise(cell: Cell) -> bool:
    is_static = cell.input_gate == cell.forget_gate == "static" and cell.feedback == "none"
    carries_itself = cell.memory == "cell" or (cell.memory == "output" and cell.output == "linear")
    return is_static and carries_itself and not cell.output_gate
