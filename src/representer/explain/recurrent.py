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
from typing import Any, NamedTuple

import torch
from torch import Tensor

from representer.checks import check_integer
from representer.errors import KindError
from representer.explain.checks import check_sequence, refuse_layer
from representer.explain.string_readout import check_weights, string_readout
from representer.functional import Cell, ngram_product, rkm_scan
from representer.functional.rkm import EPS
from representer.nn import StringKernelRNN
from representer.nn.recurrent.machine import RecurrentKernelMachine

# The gates of a recurrent cell without tanh for one sequence.
#
# Given the gates, the output is a sum over the steps. Liang et al. 2019, (9), (10), (20).

SLOPES = {"identity": 1.0, "linear": 0.5}  # of output functions that are a multiple of the cell


def pre_activations(layer: RecurrentKernelMachine, x: Tensor) -> tuple[Tensor, Tensor]:
    """Return the pre-activations of all gates ``(T, G, H)`` and the outputs ``(T, H)``.

    With a stride, T is the number of strides. The dtype is that of the input, which may be more
    precise than that of the layer.
    """
    cell, units = layer.cell, layer.hidden_size
    filters_GHIn = torch.stack(list(layer.filters().values())).to(x.dtype)
    reach = (filters_GHIn.shape[-1] - 1) * layer.dilation
    extended = torch.cat((x.new_zeros(reach, x.shape[1]), x))[:, None]
    z = ngram_product(extended, filters_GHIn.flatten(0, 1), layer.dilation)
    z = z[layer.stride - 1 :: layer.stride]
    z = z.unflatten(-1, (len(cell.gates), units))
    biases = layer.biases()
    for g, name in enumerate(cell.gates):
        if name in biases:
            z[:, :, g] += biases[name]
    recurrent = layer.recurrent()
    weight = torch.stack(list(recurrent.values())).to(x.dtype) if recurrent else None
    zeros = x.new_zeros(1, units)
    hold = x.new_tensor(layer.zoneout)[:, None, None, None].expand(2, len(z), 1, units)
    static, norm = static_gates(layer, x), norm_of(layer, x)
    h, _, _ = rkm_scan(z, weight, zeros, zeros, cell=cell, static=static, norm=norm, hold=hold)
    if weight is not None:
        before = torch.cat((zeros[None], h[:-1]))
        z[:, :, len(cell.gates) - len(weight) :] += torch.einsum("rij,tbj->tbri", weight, before)
    return z[:, 0], h[:, 0]


def static_gates(layer: RecurrentKernelMachine, x: Tensor) -> Tensor | None:
    """Return σ_i² and σ_f² ``(2, H)``, or None if the layer has none."""
    static = layer.static_gates()
    return None if static is None else static.to(x.dtype)


def norm_of(layer: RecurrentKernelMachine, x: Tensor) -> Tensor | None:
    """Return gain and bias of the layer norm ``(2, H)``, or None if the layer has none."""
    norm = layer.cell_norm()
    return None if norm is None else torch.stack((norm.weight, norm.bias)).detach().to(x.dtype)


def input_gate(cell: Cell, gate: dict[str, Tensor], static: Tensor | None, t: int) -> Tensor:
    """Return i_t, a scalar or one value per unit."""
    if cell.input_gate == "dynamic":
        return gate["input"][t]
    if cell.input_gate == "coupled":
        return 1 - gate["forget"][t]
    assert static is not None
    return static[0]


def forget_gate(gate: dict[str, Tensor], static: Tensor | None, t: int) -> Tensor:
    """Return f_t, a scalar or one value per unit."""
    if "forget" in gate:
        return gate["forget"][t]
    assert static is not None
    return static[1]


def check_decomposable(layer: Any, *, with_factors: bool = False) -> None:
    """Check that the output of a layer is a sum over the steps, given its gates.

    Args:
        layer: The object to check.
        with_factors: Also treat the divisor of a layer norm and tanh(c)/c as constants, and allow
            a constant part.

    Raises:
        KindError: If the output is not such a sum; the message states the reason.
    """
    if not isinstance(layer, RecurrentKernelMachine):
        raise KindError("layer", type(layer).__name__, "a layer of the recurrent kernel machines")
    cell = layer.cell
    reasons = {
        f"The candidate passes through {cell.candidate}.": cell.candidate != "identity",
        f"The output is {cell.output} of the cell.": (
            cell.output not in SLOPES and not (with_factors and cell.output == "tanh")
        ),
        "The layer norm divides by a statistic of all steps.": (
            layer.layer_norm and not with_factors
        ),
        "The candidate has a bias.": ("candidate" in layer.biases() and not with_factors),
        "The output nonlinearity is learned.": layer.psi is not None,
    }
    refuse_layer(layer, reasons)


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


# The contributions of the steps to the last output of a recurrent cell.
#
# Given the gates, a cell without tanh is linear in its input:
#
#     c~_t = X~_0 x_t + ... + X~_{n-1} x_{t-(n-1)d} + H~ h_{t-1}
#     c_t  = i_t * c~_t + f_t * m_{t-1},      h_t = o_t * a c_t,      m = c or h
#
# so h_T is a sum of contributions of the steps s, each propagated through memory and feedback with
# all gates held constant. Without feedback and for n = 1, the contribution of step s is
# o_T * f_T * ... * f_{s+1} * i_s * X~ x_s. Liang et al. 2019, (9), (10), (20).
#
# Shapes: T time, G gates, H units.


def recurrent_contributions(layer: RecurrentKernelMachine, x: Tensor) -> Tensor:
    """Return the contribution of each step to the last output of a layer ``(T, H)``.

    Raises:
        KindError: If the output is not a sum over the steps; the message states the reason.
    """
    check_decomposable(layer)
    cell, slope = layer.cell, SLOPES[layer.cell.output]
    gates_TGH, static = pre_activations(layer, x)[0].sigmoid(), layer.static_gates()
    gate = dict(zip(cell.gates, gates_TGH.unbind(1), strict=True))
    feedback = layer.recurrent().get("candidate")
    filters = layer.filters()["candidate"]
    written = [x @ slot.T for slot in filters.unbind(-1)]  # from x_s to c~ of step s + slot d
    hold_c, hold_h = layer.zoneout
    c = x.new_zeros(len(x), layer.hidden_size)  # the contributions of the steps to c_t
    h = torch.zeros_like(c)
    for t in range(len(x)):
        candidate = torch.zeros_like(c) if feedback is None else h @ feedback.T
        for slot, products in enumerate(written):
            s = t - slot * layer.dilation
            if s >= 0:
                candidate[s] += products[s]
        c_new = input_gate(cell, gate, static, t) * candidate
        if cell.forget_gate != "none":
            c_new = c_new + forget_gate(gate, static, t) * (h if cell.memory == "output" else c)
        h_new = slope * c_new
        if cell.output_gate:
            h_new = gate["output"][t] * h_new
        c, h = torch.lerp(c_new, c, hold_c), torch.lerp(h_new, h, hold_h)
    return h


# The contribution of each step of a sequence to the output of a layer.


def influence(layer: RecurrentKernelMachine | StringKernelRNN, input: Tensor) -> Tensor:
    """Split the last output of a layer into the contributions of the steps of its input.

    The contributions sum exactly to the output of the layer in evaluation mode, from a zero state.
    The gates are treated as constants: the effect of a step on the gates of later steps is not
    attributed to it, since it scales the contributions of other steps.

    In a string-kernel network, the contribution of an n-gram is divided equally among its tokens.
    This is their Shapley value, where missing tokens are zeros. A tanh or relu scales the
    contributions by tanh(c)/c or relu(c)/c, treated as a constant.

    Args:
        layer: A cell without tanh on candidate and output: RKM-LSTM, RKM-CIFG, RAN, Gated CNN,
            the linear kernel with an output gate or ``output_nonlinearity="identity"``, or an RKM
            of ``q="linear"``, without layer norm (`memory_ledger` supports it); or a string-kernel
            network with any activation except the sigmoid. One layer, one direction.
        input: One sequence.

    Shape:
        - input ``(T, I)``
        - returns ``(T, H)``; the sum over T is the last output

    Raises:
        KindError: If the layer's output is not such a sum (the message states the reason), or if
            the input is not a tensor, or its dtype or device differs from the layer's.
        ShapeError: If the input is not one sequence.
        ArgumentError: If a step of the input is not finite.

    References:
        Liang et al., Kernel-Based Approaches for Sequence Modeling, NeurIPS 2019, (9), (20).
        Lei et al., Deriving Neural Architectures from Sequence and Graph Kernels, ICML 2017,
        (4), sections 4 and 6.1.
    """
    if isinstance(layer, StringKernelRNN):
        last = check_sequence(layer, input).new_zeros(len(input), layer.hidden_size)
        last[-1] = 1
        return string_readout(layer, input, last).steps().to(input.dtype)
    if isinstance(layer, RecurrentKernelMachine):
        with torch.no_grad():
            return recurrent_contributions(layer, check_sequence(layer, input))
    raise KindError(
        "layer", type(layer).__name__, "a layer of the recurrent kernel machines or StringKernelRNN"
    )
