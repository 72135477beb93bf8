"""The decomposition of a weighted sum of the outputs of several layers, down to the first layer.

    y = sum_l sum_t v_t^(l) . h_t^(l)           h^(l) the output of layer l, of both directions

Given gates and activations, the top layer's part of y is sum_t u_t . h_t^(L-1), a read-out of the
layer below; u is added to the weights of that layer. The weights are propagated in this way to the
first layer, whose read-out is decomposed over the tokens.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from representer.errors import ArgumentError, KindError
from representer.explain.best_ngrams import NgramContribution
from representer.explain.checks import check_sequence
from representer.explain.memory_ledger import LedgerRow, MemoryLedger, memory_ledger
from representer.explain.string_readout import StringReadout, check_weights, string_readout
from representer.nn import StringKernelRNN
from representer.nn.recurrent.machine.kernel_machine import RecurrentKernelMachine
from representer.requirements import check_integer

Layer = StringKernelRNN | RecurrentKernelMachine


@dataclass(frozen=True)
class StackReadout:
    """The decomposition of a weighted sum of outputs over the units of the first layer.

    Units are numbered as in the first layer's output: units H to 2H − 1 belong to the reverse
    direction. Steps are numbered as in the sequence.

    Attributes:
        parts: The directions of the first layer, each a separate layer in float64.
        readouts: The read-out of each direction; that of the reverse direction is in reverse order.
        constant: The part independent of all steps, from the biases of all layer norms.
        input_weights: Weights u of the input ``(T, I)``, with y = sum_t u_t · x_t + constant.
    """

    parts: tuple[Layer, ...]
    readouts: tuple[StringReadout | MemoryLedger, ...]
    constant: float
    input_weights: Tensor

    def steps(self) -> Tensor:
        """Return the contribution of each token through each unit ``(T, D·H)``.

        Their sum plus the constant is y.
        """
        contributions = [r.steps() if isinstance(r, StringReadout) else r.contribution
                  for r in self.readouts]  # fmt: skip
        return _concatenate(contributions)

    def every_ngram(self) -> dict[tuple[int, ...], float] | None:
        """Return the contribution of every n-gram by ascending positions, summed over units.

        Their sum plus the constant is y. None without n-grams, see `StringReadout.every_ngram`.
        """
        total: dict[tuple[int, ...], float] = {}
        for direction, readout in enumerate(self.readouts):
            if not isinstance(readout, StringReadout) or (own := readout.every_ngram()) is None:
                return None
            last = len(readout.state_weights) - 1
            for positions, value in own.items():
                place = tuple(last - t for t in reversed(positions)) if direction else positions
                total[place] = total.get(place, 0.0) + value
        return total

    def ngrams(self, unit: int, k: int) -> list[NgramContribution]:
        """Return the k n-grams of largest absolute contribution to y through one unit.

        The positions of an n-gram of the reverse direction are in descending order.

        Raises:
            KindError: If the layers have no n-grams.
            ArgumentError: If unit or k is out of range.
        """
        size = self.parts[0].hidden_size
        check_integer("unit", unit, 0, len(self.parts) * size - 1)
        readout = self.readouts[unit // size]
        if not isinstance(readout, StringReadout):
            raise KindError("layer", repr(self.parts[0]), "a StringKernelRNN", hint="Use rows.")
        ngrams = readout.ngrams(unit % size, k)
        if unit < size:
            return ngrams
        last = len(readout.state_weights) - 1
        return [
            NgramContribution(tuple(last - t for t in n.positions), n.contribution) for n in ngrams
        ]

    def rows(self, k: int) -> list[LedgerRow]:
        """Return the k steps of largest absolute contribution through one direction.

        Raises:
            KindError: If the layers have no memory cells.
            ArgumentError: If k is not a positive integer.
        """
        rows: list[LedgerRow] = []
        for number, (part, readout) in enumerate(zip(self.parts, self.readouts, strict=True)):
            if not isinstance(readout, MemoryLedger):
                raise KindError(
                    "layer", repr(part), "a recurrent kernel machine", hint="Use ngrams."
                )
            for row in readout.rows(k):
                step = len(readout.contribution) - 1 - row.step if number else row.step
                rows.append(row._replace(step=step, unit=row.unit + number * part.hidden_size))
        return sorted(rows, key=lambda row: -abs(row.contribution))[:k]


def stack_readout(
    layers: Layer | Sequence[Layer], input: Tensor, weights: Tensor | Sequence[Tensor]
) -> StackReadout:
    r"""Decompose a weighted sum of the outputs of stacked layers.

    .. math::
        y = \sum_l \sum_t v_t^{(l)} \cdot h_t^{(l)}, \qquad h^{(0)}_t = x_t

    The part of a layer in y is :math:`\sum_t u_t \cdot h_t^{(l-1)}`, where :math:`u` are the
    ``input_weights`` of `StringReadout` or `MemoryLedger`. It is exact given the values of the
    gates and of :math:`\sigma(s)/s` in all layers. The contribution of an n-gram of a higher layer
    is divided equally among its tokens.

    Args:
        layers: One layer or several, from the lowest; each may itself have several layers and two
            directions. String-kernel networks as in `string_readout`, recurrent kernel machines
            as in `memory_ledger`.
        input: One sequence.
        weights: v of each of ``layers``, or a single v for a single layer. It weights the output of
            the last layer of a module with several layers.

    Shape:
        - input ``(T, I)``; weights ``(T / stride, D·H)`` each

    Raises:
        KindError: If the outputs of a layer are not sums over the steps (the message states the
            reason), or if input or weights are of the wrong kind.
        ShapeError: If a shape is wrong.
        ArgumentError: If the numbers of weights and layers differ, or a value is not finite.

    References:
        Lei et al., Deriving Neural Architectures from Sequence and Graph Kernels, ICML 2017,
        (4), sections 4, 6.1 and 6.2.
        Liang et al., Kernel-Based Approaches for Sequence Modeling, NeurIPS 2019, (9), (10), (20).
    """
    modules = [layers] if isinstance(layers, StringKernelRNN | RecurrentKernelMachine) else layers
    vs = [weights] if isinstance(weights, Tensor) else weights
    if not modules or len(vs) != len(modules):
        raise ArgumentError("len(weights)", len(vs), f"{len(modules)}, one for each layer")
    for layer in modules:
        if not isinstance(layer, StringKernelRNN | RecurrentKernelMachine):
            kinds = "a StringKernelRNN or a recurrent kernel machine"
            raise KindError("layer", type(layer).__name__, kinds)
    x = check_sequence(modules[0], input, is_stride_allowed=True).detach().double()
    stack: list[tuple[Layer, ...]] = []
    read: list[Tensor | None] = []
    for layer, v in zip(modules, vs, strict=True):
        width = layer.hidden_size * layer.num_directions
        read += [None] * (layer.num_layers - 1) + [
            check_weights(v, len(input) // modules[0].stride, width)
        ]
        exact = copy.deepcopy(layer).double().eval()
        stack += [
            tuple(exact.part(k, bool(d)) for d in range(layer.num_directions))
            for k in range(layer.num_layers)
        ]
    return _decompose(stack, _inputs(stack, x), read)


@torch.no_grad()
def _inputs(stack: Sequence[tuple[Layer, ...]], x: Tensor) -> list[Tensor]:
    """Return the input of each layer."""
    inputs = [x]
    for parts in stack[:-1]:
        outputs = [part(_in_direction(inputs[-1], d))[0] for d, part in enumerate(parts)]
        inputs.append(_concatenate(outputs))
    return inputs


def _decompose(
    stack: Sequence[tuple[Layer, ...]], inputs: Sequence[Tensor], read: Sequence[Tensor | None]
) -> StackReadout:
    """Decompose the layers from the last to the first."""
    constant, readouts = 0.0, []
    upstream: Tensor = torch.zeros(())  # weights of the outputs of a layer
    for parts, x, own_weights in zip(
        reversed(stack), reversed(inputs), reversed(read), strict=True
    ):
        v = upstream if own_weights is None else upstream + own_weights
        readouts, upstream = [], torch.zeros_like(x)
        for d, (part, weights) in enumerate(zip(parts, v.chunk(len(parts), dim=1), strict=True)):
            arguments = _in_direction(x, d), _in_direction(weights, d)
            if isinstance(part, StringKernelRNN):
                readout = string_readout(part, *arguments)
                input_weights = readout.input_weights()
            else:
                readout = memory_ledger(part, *arguments)
                input_weights, constant = readout.input_weights, constant + readout.constant
            upstream = upstream + _in_direction(input_weights, d)
            readouts.append(readout)
    return StackReadout(tuple(stack[0]), tuple(readouts), constant, upstream)


def _in_direction(rows: Tensor, direction: int) -> Tensor:
    """Reverse the rows for the reverse direction."""
    return rows.flip(0) if direction else rows


def _concatenate(rows: Sequence[Tensor]) -> Tensor:
    """Concatenate the rows of both directions, given in the order of each direction."""
    return torch.cat([_in_direction(each, d) for d, each in enumerate(rows)], dim=-1)
