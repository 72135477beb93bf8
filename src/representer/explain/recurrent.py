"""The contributions of the steps of a sequence to the outputs of a recurrent layer.

    c~_t = X~_0 x_t + ... + X~_{n-1} x_{t-(n-1)d} + H~ h_{t-1}
    c_t  = gain (i_t * c~_t + f_t * m_{t-1} - mean) / std + bias,    h_t = o_t * a c_t
    y    = sum_t v_t . h_t

With the gates, the std of a layer norm, and a = tanh(c)/c of an output of tanh held constant, y is
linear in the products X~_j x_s and in the biases, so it is the sum of each times its derivative.
Liang et al. 2019, (9), (10), (20).

`_held_steps` runs the cell that way once. A read-out needs the derivatives of one number, so
`memory_ledger` differentiates it. The last output is as many numbers as there are units, so
`influence` instead runs the contributions of all steps side by side: one pass, and no memory of
T times the units squared.

Shapes: T time, S = T / stride steps of the cell, B summands of the state, G gates, R of them
recurrent, H units, n slots of the filters.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from representer.checks import check_integer
from representer.errors import KindError
from representer.explain.ngrams import check_sequence, refuse_layer
from representer.explain.string_readout import check_weights, string_readout
from representer.functional import ngram_product
from representer.functional.rkm import EPS
from representer.nn import StringKernelRNN
from representer.nn.recurrent.machine import RecurrentKernelMachine

_SLOPES = {"identity": 1.0, "linear": 0.5}  # of output functions that are a multiple of the cell


class _Step(NamedTuple):
    """The output of a step ``(B, H)``, and its gates ``(H,)``, 1 or 0 for those the cell lacks."""

    h: Tensor
    input: Tensor
    forget: Tensor
    output: Tensor


def _held_steps(
    layer: RecurrentKernelMachine, x: Tensor, candidates: Iterable[Tensor], norm: Sequence[Tensor]
) -> Iterator[_Step]:
    """Run the cell from a zero state with gates, divisors and slopes held constant.

    The state is a sum of B summands. The gates read the sum; all else is linear, so each summand
    goes through it alone. Only a single summand can pass a layer norm or tanh. ``candidates`` are
    those of each step without feedback, in summands ``(B, H)``; ``norm`` is gain and bias of the
    layer norm, nothing without one.
    """
    cell, (hold_c, hold_h) = layer.cell, layer.zoneout
    # Copies, for a layer made in inference mode: its tensors cannot be saved for the derivative.
    recurrent = {name: weight.to(x, copy=True) for name, weight in layer.recurrent().items()}
    feedback = recurrent.pop("candidate", None)
    weight_RHH = torch.stack(list(recurrent.values())) if recurrent else None
    static = layer.static_gates()
    zero, ones = x.new_zeros(layer.hidden_size), x.new_ones(layer.hidden_size)
    i_static, f_static = (ones, zero) if static is None else static.to(x, copy=True)
    h = c = zero[None]
    for a, candidate in zip(_gate_inputs(layer, x), candidates, strict=True):
        if weight_RHH is not None:
            a = a + weight_RHH @ h.detach().sum(0)
        gate = dict(zip(cell.gates[1:], a.sigmoid(), strict=True))
        f = zero if cell.forget_gate == "none" else gate.get("forget", f_static)
        i = 1 - f if cell.input_gate == "coupled" else gate.get("input", i_static)
        o = gate.get("output", ones)
        c_new = i * (candidate if feedback is None else candidate + h @ feedback.T)
        if cell.forget_gate != "none":
            c_new = c_new + f * (h if cell.memory == "output" else c)
        if norm:  # with one summand, so the mean of all is that of the units
            gain, shift = norm
            centered = c_new - c_new.mean()
            c_new = gain * centered / (centered.detach().square().mean() + EPS).sqrt() + shift
        h_new = o * _slope(cell.output, c_new.detach()) * c_new
        c = torch.lerp(c_new, c, hold_c) if hold_c else c_new
        h = torch.lerp(h_new, h, hold_h) if hold_h else h_new
        yield _Step(h, i, f, o)


def _slope(output: str, c: Tensor) -> Tensor | float:
    """Return a of the output function; that of tanh is tanh(c)/c, 1 at 0."""
    return torch.where(c == 0, 1.0, c.tanh() / c) if output == "tanh" else _SLOPES[output]


def _gate_inputs(layer: RecurrentKernelMachine, x: Tensor) -> Tensor:
    """Return what the gates receive from the sequence and their biases ``(S, G - 1, H)``."""
    biases = layer.biases()
    gates = list(layer.filters().items())[1:]  # the first is the candidate
    if not gates:
        return x.new_zeros(len(x) // layer.stride, 0, layer.hidden_size)
    filters_GHIn = torch.stack([filters for _, filters in gates]).to(x)
    extended = F.pad(x, (0, 0, (filters_GHIn.shape[-1] - 1) * layer.dilation, 0))[:, None]
    z = ngram_product(extended, filters_GHIn.flatten(0, 1), layer.dilation)[:, 0]
    z = z[layer.stride - 1 :: layer.stride].unflatten(-1, filters_GHIn.shape[:2])
    zero = x.new_zeros(layer.hidden_size)
    return z + torch.stack([biases.get(name, zero).to(x) for name, _ in gates])


def _check_decomposable(layer: Any, *, with_factors: bool = False) -> None:
    """Check that the output of a layer is a sum over the steps, given its gates.

    ``with_factors`` treats the divisor of a layer norm and tanh(c)/c as constants, too, and allows
    a constant part.
    """
    if not isinstance(layer, RecurrentKernelMachine):
        raise KindError("layer", type(layer).__name__, "a layer of the recurrent kernel machines")
    cell = layer.cell
    reasons = {
        f"The candidate passes through {cell.candidate}.": cell.candidate != "identity",
        f"The output is {cell.output} of the cell.": (
            cell.output not in _SLOPES and not (with_factors and cell.output == "tanh")
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
            value = self.contribution[t, unit].item()
            rows.append(LedgerRow(t, by_step[t].item(), unit, value, *(g.item() for g in gates)))
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
    _check_decomposable(layer, with_factors=True)
    x = check_sequence(layer, input, is_stride_allowed=True).detach().double()
    v = check_weights(weights, len(x) // layer.stride, layer.hidden_size)
    with torch.inference_mode(False), torch.enable_grad():
        return _ledger(layer, x.clone(), v.clone())


def _ledger(layer: RecurrentKernelMachine, x: Tensor, v: Tensor) -> MemoryLedger:
    """Differentiate y with respect to the products of inputs and filters, and to the biases."""
    filters_nHI = layer.filters()["candidate"].to(x).movedim(-1, 0)
    products_nTH = (x @ filters_nHI.mT).requires_grad_()
    bias = layer.biases().get("candidate", torch.zeros_like(v[0]))
    affine = layer.cell_norm()
    norm = [] if affine is None else [affine.weight, affine.bias]
    biases = [each.detach().to(x, copy=True).requires_grad_() for each in (bias, *norm[1:])]
    norm = [each.detach().to(x, copy=True) for each in norm[:1]] + biases[1:]
    shifted = [F.pad(products, (0, 0, slot * layer.dilation, 0))[: len(x)]
               for slot, products in enumerate(products_nTH)]  # fmt: skip
    windows = torch.stack(shifted).sum(0)[layer.stride - 1 :: layer.stride]
    steps = list(_held_steps(layer, x, (windows + biases[0])[:, None], norm))
    y = (torch.cat([step.h for step in steps]) * v).sum()
    products_gradient, windows_gradient, *gradients = torch.autograd.grad(
        y, (products_nTH, windows, *biases), materialize_grads=True
    )
    constant = sum((b * g).sum().item() for b, g in zip(biases, gradients, strict=True))
    written, forget, read = (torch.stack(gates) for gates in list(zip(*steps, strict=True))[1:])
    later = torch.cat((forget[1:], torch.ones_like(v[:1])))
    return MemoryLedger(
        contribution=(products_nTH * products_gradient).sum(0).detach(), written=written,
        kept=later.flip(0).cumprod(0).flip(0), read=read, constant=constant,
        input_weights=(products_gradient @ filters_nHI).sum(0),
        by_ngram=(windows * windows_gradient).detach(),
    )  # fmt: skip


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
        x = check_sequence(layer, input)
        _check_decomposable(layer)
        with torch.no_grad():
            return _last_contributions(layer, x)
    raise KindError(
        "layer", type(layer).__name__, "a layer of the recurrent kernel machines or StringKernelRNN"
    )


def _last_contributions(layer: RecurrentKernelMachine, x: Tensor) -> Tensor:
    """Return the contributions of all steps to the last output ``(T, H)``, side by side."""
    products = [x @ slot.T for slot in layer.filters()["candidate"].unbind(-1)]

    def candidates() -> Iterator[Tensor]:
        for t in range(len(x)):
            by_step = x.new_zeros(len(x), layer.hidden_size)
            for slot, product in enumerate(products):
                if (s := t - slot * layer.dilation) >= 0:
                    by_step[s] = product[s]
            yield by_step

    h = x.new_zeros(0)
    for step in _held_steps(layer, x, candidates(), ()):
        h = step.h
    return h
