"""The memory ledger of a recurrent cell: the steps and gates that contribute to a read-out.

    c~_t = X~_0 x_t + ... + X~_{n-1} x_{t-(n-1)d} + H~ h_{t-1}
    c_t  = gain (i_t * c~_t + f_t * m_{t-1} - mean) / std + bias,    h_t = o_t * a c_t
    y    = sum_t v_t . h_t

With the gates, the std of a layer norm, and a = tanh(c)/c of an output of tanh held constant, y is
linear in the candidates c~_t. One backward pass computes its gradient. Liang et al. 2019, (9),
(10), (20).

Shapes: T time, S = T / stride steps of the cell, G gates, H units.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import torch
from torch import Tensor

from representer.explain.checks import check_sequence
from representer.explain.recurrent_parts import (
    SLOPES,
    check_decomposable,
    forget_gate,
    input_gate,
    norm_of,
    pre_activations,
    static_gates,
)
from representer.explain.string_readout import check_weights
from representer.functional.rkm_scan import EPS
from representer.nn.recurrent.machine.kernel_machine import RecurrentKernelMachine
from representer.requirements import check_integer


class LedgerRow(NamedTuple):
    """The contribution of one step to a read-out.

    Attributes:
        step: The step, 0-based.
        contribution: The sum over all units.
        unit: The unit with the largest part of it.
        unit_contribution: That unit's part.
        written: The unit's input gate at the step, or at the end of its stride.
        kept: The product of its forget gates after the step, up to the last one.
        read: Its output gate at the last step.
    """

    step: int
    contribution: float
    unit: int
    unit_contribution: float
    written: float
    kept: float
    read: float


@dataclass(frozen=True)
class MemoryLedger:
    """The contributions of all steps to a read-out, which is their sum plus the constant.

    Attributes:
        contribution: Contribution of each step through the candidate of each unit ``(T, H)``.
        written: Input gates ``(S, H)``.
        kept: Products of the forget gates after each step, up to the last step ``(S, H)``.
        read: Output gates, 1 where there are none ``(S, H)``.
        constant: The part independent of all steps, from the biases of the layer norm and of the
            candidate.
        input_weights: Weights u of the input ``(T, I)``: the contribution of step t is
            u_t · x_t. If the input is the output of another layer, they are the
            weights of the read-out of that layer.
        by_ngram: Contribution of the n-gram that ends at each step ``(S, H)``: the same terms as
            ``contribution``, grouped by filter window instead of by input.
    """

    contribution: Tensor
    written: Tensor
    kept: Tensor
    read: Tensor
    constant: float
    input_weights: Tensor
    by_ngram: Tensor

    @property
    def total(self) -> float:
        """Return the read-out."""
        return self.contribution.sum().item() + self.constant

    def rows(self, k: int) -> list[LedgerRow]:
        """Return the k steps of largest absolute contribution, in descending order.

        Raises:
            ArgumentError: If k is not a positive integer.
        """
        check_integer("k", k, 1)
        by_step = self.contribution.sum(1)
        stride = len(self.contribution) // len(self.written)
        chosen = by_step.abs().sort(descending=True, stable=True).indices[:k].tolist()
        rows = []
        for t in chosen:
            unit = int((self.contribution[t] * by_step[t].sign()).argmax())
            s = t // stride
            gates = (self.written[s, unit], self.kept[s, unit], self.read[-1, unit])
            own = self.contribution[t, unit].item()
            rows.append(LedgerRow(t, by_step[t].item(), unit, own, *(g.item() for g in gates)))
        return rows


def memory_ledger(layer: RecurrentKernelMachine, input: Tensor, weights: Tensor) -> MemoryLedger:
    r"""Split a weighted sum of a layer's outputs into the contributions of the steps.

    .. math::
        y = \sum_t v_t \cdot h_t

    The result is exact given the gates, the divisor of a layer norm and, where the output is
    tanh of the cell, tanh(c)/c: y is then a sum over the steps. For the last output of unit
    u, v is 1 at (T, u) and 0 elsewhere, and the contribution of step s without feedback is
    :math:`o_T f_T \cdots f_{s+1} i_s \tilde x x_s`; for a linear read-out of the mean over time,
    every row of v is the read-out's weights over T.

    Args:
        layer: A cell without tanh on the candidate, with or without layer norm. One layer, one
            direction, any stride.
        input: One sequence.
        weights: v.

    Shape:
        - input ``(T, I)``; weights ``(S, H)`` with S = T / stride

    Raises:
        KindError: If the layer's output is not such a sum (the message states the reason), or if
            input or weights are of the wrong kind.
        ShapeError: If a shape is wrong.
        ArgumentError: If a value is not finite.

    References:
        Liang et al., Kernel-Based Approaches for Sequence Modeling, NeurIPS 2019, (9), (10), (20).
    """
    check_decomposable(layer, with_factors=True)
    x = check_sequence(layer, input, is_stride_allowed=True).detach().double()
    v = check_weights(weights, len(x) // layer.stride, layer.hidden_size)
    z, h = pre_activations(layer, x)
    gates = _Gates(layer, z.sigmoid(), static_gates(layer, x), norm_of(layer, x))
    grad_candidate, constant = _backpropagate(layer, gates, _Factors(layer, gates, z[:, 0], h), v)
    if (bias := layer.biases().get("candidate")) is not None:
        constant += (grad_candidate @ bias.to(v)).sum().item()
    contribution, input_weights = v.new_zeros(len(x), layer.hidden_size), torch.zeros_like(x)
    by_ngram, ends = torch.zeros_like(v), torch.arange(layer.stride - 1, len(x), layer.stride)
    for slot, weight in enumerate(layer.filters()["candidate"].double().unbind(-1)):
        positions = ends - slot * layer.dilation  # the input at this slot of each window
        first = int((positions < 0).sum())
        positions = positions[first:]
        added = (x @ weight.T)[positions] * grad_candidate[first:]
        contribution[positions] += added
        by_ngram[first:] += added
        input_weights[positions] += grad_candidate[first:] @ weight
    later = torch.cat((gates.forget[1:], torch.ones_like(v[:1])))
    kept = later.flip(0).cumprod(0).flip(0)
    return MemoryLedger(
        contribution, gates.input, kept, gates.output, constant, input_weights, by_ngram
    )


class _Gates:
    """The gates i, f and o of every step ``(T, H)``, and gain and bias of the layer norm."""

    def __init__(
        self,
        layer: RecurrentKernelMachine,
        gates_TGH: Tensor,
        static: Tensor | None,
        norm: Tensor | None,
    ) -> None:
        cell, one = layer.cell, torch.ones_like(gates_TGH[:, 0])
        gate = dict(zip(cell.gates, gates_TGH.unbind(1), strict=True))
        steps = range(len(gates_TGH))
        self.input = torch.stack([one[t] * input_gate(cell, gate, static, t) for t in steps])
        self.forget = 0 * one
        if cell.forget_gate != "none":
            self.forget = torch.stack([one[t] * forget_gate(gate, static, t) for t in steps])
        self.output = gate["output"] if cell.output_gate else one
        self.norm = norm


class _Factors:
    """The divisor of the layer norm ``(T, 1)`` and the slope of the output ``(T, H)``."""

    def __init__(
        self, layer: RecurrentKernelMachine, gates: _Gates, candidate: Tensor, h: Tensor
    ) -> None:
        hold, output = layer.zoneout[0], layer.cell.output
        c, divisors, slopes = torch.zeros_like(h[0]), [], []
        for t in range(len(h)):
            memory = c if layer.cell.memory == "cell" else (h[t - 1] if t else 0 * c)
            new = gates.input[t] * candidate[t] + gates.forget[t] * memory
            if gates.norm is not None:
                centered = new - new.mean()
                divisors.append((centered.square().mean() + EPS).sqrt())
                new = gates.norm[0] * centered / divisors[-1] + gates.norm[1]
            is_tanh = output == "tanh"
            slopes.append(_tanh_slope(new) if is_tanh else torch.full_like(new, SLOPES[output]))
            c = torch.lerp(new, c, hold)
        self.divisors = torch.stack(divisors)[:, None] if divisors else None
        self.slopes = torch.stack(slopes)


def _tanh_slope(c: Tensor) -> Tensor:
    """Return tanh(c)/c, 1 at 0."""
    return torch.where(c == 0, 1.0, c.tanh() / c)


def _backpropagate(
    layer: RecurrentKernelMachine, gates: _Gates, factors: _Factors, v: Tensor
) -> tuple[Tensor, float]:
    """Return dy/dc~_t ``(T, H)`` with gates and factors held constant, and the constant."""
    cell, slopes = layer.cell, factors.slopes
    feedback = layer.recurrent().get("candidate")
    hold_c, hold_h = layer.zoneout
    grad_c = grad_h = torch.zeros_like(v[0])  # through later steps
    grad_candidate, constant = torch.zeros_like(v), 0.0
    for t in range(len(v) - 1, -1, -1):
        grad_h = grad_h + v[t]
        grad_raw = (1 - hold_c) * grad_c + (1 - hold_h) * slopes[t] * gates.output[t] * grad_h
        if gates.norm is not None:
            assert factors.divisors is not None
            constant += (grad_raw * gates.norm[1]).sum().item()
            grad_raw = gates.norm[0] * grad_raw / factors.divisors[t]
            grad_raw = grad_raw - grad_raw.mean()
        grad_candidate[t] = gates.input[t] * grad_raw
        grad_c, grad_h = hold_c * grad_c, hold_h * grad_h
        if cell.memory == "output":
            grad_h = grad_h + gates.forget[t] * grad_raw
        else:
            grad_c = grad_c + gates.forget[t] * grad_raw
        if feedback is not None:
            grad_h = grad_h + grad_candidate[t] @ feedback.to(v.dtype)
    return grad_candidate, constant
