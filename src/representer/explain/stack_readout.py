"""What a weighted sum of the outputs of several layers is made of, down to the first layer.

    y = sum_l sum_t v_t^(l) . h_t^(l)           h^(l) the output of layer l, of both directions

Given gates and activations, the top layer's part of y is sum_t u_t . h_t^(L-1): a read-out of the
layer below, to which that one's own weights are added. So every layer is read with what those above
made of its outputs, and the first one is taken apart over the tokens.
"""

from __future__ import annotations

import copy
from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from representer.errors import ArgumentError, KindError
from representer.explain.best_ngrams import NgramContribution
from representer.explain.checks import check_index, check_sequence
from representer.explain.memory_ledger import LedgerRow, MemoryLedger, memory_ledger
from representer.explain.string_readout import StringReadout, check_weights, string_readout
from representer.nn import StringKernelRNN
from representer.nn.recurrent.kernel_machine import RecurrentKernelMachine

Layer = StringKernelRNN | RecurrentKernelMachine


@dataclass(frozen=True)
class StackReadout:
    """What a weighted sum of outputs is made of: the first layer, as those above it count it.

    Units are numbered as in the first layer's output, so that those from H on are of the reverse
    direction; steps as in the sequence.

    Attributes:
        parts: The directions of the first layer, each a layer of its own in float64.
        readouts: Of each direction what its own reading of the sequence adds; the reverse one's
            steps run backwards.
        constant: What comes from no step: the biases of layer norms, of any layer.
    """

    parts: tuple[Layer, ...]
    readouts: tuple[StringReadout | MemoryLedger, ...]
    constant: float

    def steps(self) -> Tensor:
        """Return what each token adds through each unit ``(T, D·H)``; with the constant, y."""
        shares = [r.steps() if isinstance(r, StringReadout) else r.contribution
                  for r in self.readouts]  # fmt: skip
        return _joined(shares)

    def ngrams(self, unit: int, k: int) -> list[NgramContribution]:
        """Return the k n-grams that add most to y through one unit, the largest in size first.

        The positions of an n-gram of the reverse direction stand in the order in which it reads.

        Raises:
            KindError: If the layers have no n-grams.
            ArgumentError: If unit or k is out of range.
        """
        size = self.parts[0].hidden_size
        check_index("unit", unit, 0, len(self.parts) * size - 1)
        readout = self.readouts[unit // size]
        if not isinstance(readout, StringReadout):
            raise KindError("layer", repr(self.parts[0]), "a StringKernelRNN", hint="Use rows.")
        found = readout.ngrams(unit % size, k)
        if unit < size:
            return found
        last = len(readout.counts) - 1
        return [
            NgramContribution(tuple(last - t for t in n.positions), n.contribution) for n in found
        ]

    def rows(self, k: int) -> list[LedgerRow]:
        """Return the k steps that gave most through one direction, the largest in size first.

        Raises:
            KindError: If the layers have no memory cells.
            ArgumentError: If k is no whole number from 1 on.
        """
        found: list[LedgerRow] = []
        for number, (part, readout) in enumerate(zip(self.parts, self.readouts, strict=True)):
            if not isinstance(readout, MemoryLedger):
                raise KindError(
                    "layer", repr(part), "a recurrent kernel machine", hint="Use ngrams."
                )
            for row in readout.rows(k):
                step = len(readout.contribution) - 1 - row.step if number else row.step
                found.append(row._replace(step=step, unit=row.unit + number * part.hidden_size))
        return sorted(found, key=lambda row: -abs(row.contribution))[:k]


def stack_readout(
    layers: Layer | Sequence[Layer], input: Tensor, weights: Tensor | Sequence[Tensor]
) -> StackReadout:
    r"""Take a weighted sum of the outputs of layers on top of each other apart.

    .. math::
        y = \sum_l \sum_t v_t^{(l)} \cdot h_t^{(l)}, \qquad h^{(0)}_t = x_t

    What y owes to a layer is :math:`\sum_t u_t \cdot h_t^{(l-1)}` with :math:`u` the
    ``input_weights`` of `StringReadout` or `MemoryLedger`: exact, given the values that the gates
    and :math:`\sigma(s)/s` of all layers had. An n-gram of a layer above is shared out equally
    among its tokens, as each of them is needed for it.

    Args:
        layers: One layer or several, the first first; each of them may itself have several layers
            and two directions. String-kernel networks as `string_readout` takes them, recurrent
            kernel machines as `memory_ledger` does.
        input: One sequence.
        weights: v of each of ``layers``; for one of them its v alone. A layer of several layers is
            read at the last.

    Shape:
        - input ``(T, I)``; weights ``(T, D·H)`` each

    Raises:
        KindError: If the outputs of a layer are no sum over the steps, with the reason; or for
            input and weights of the wrong kind.
        ShapeError: If a shape does not fit.
        ArgumentError: If there are not as many weights as layers, or a number is not finite.

    References:
        Lei et al., Deriving Neural Architectures from Sequence and Graph Kernels, ICML 2017,
        (4), sections 4, 6.1 and 6.2.
        Liang et al., Kernel-Based Approaches for Sequence Modeling, NeurIPS 2019, (9), (10), (20).
    """
    given = [layers] if isinstance(layers, StringKernelRNN | RecurrentKernelMachine) else layers
    counts = [weights] if isinstance(weights, Tensor) else weights
    if not given or len(counts) != len(given):
        raise ArgumentError("len(weights)", len(counts), f"{len(given)}, one for each layer")
    for layer in given:
        if not isinstance(layer, StringKernelRNN | RecurrentKernelMachine):
            kinds = "a StringKernelRNN or a recurrent kernel machine"
            raise KindError("layer", type(layer).__name__, kinds)
    x = check_sequence(given[0], input).detach().double()
    stack: list[tuple[Layer, ...]] = []
    read: list[Tensor | None] = []
    for layer, v in zip(given, counts, strict=True):
        width = layer.hidden_size * layer.num_directions
        read += [None] * (layer.num_layers - 1) + [check_weights(v, len(input), width)]
        exact = copy.deepcopy(layer).double().eval()
        stack += [
            tuple(exact.part(k, bool(d)) for d in range(layer.num_directions))
            for k in range(layer.num_layers)
        ]
    return _down(stack, _inputs(stack, x), read)


@torch.no_grad()
def _inputs(stack: Sequence[tuple[Layer, ...]], x: Tensor) -> list[Tensor]:
    """Return what each layer reads."""
    inputs = [x]
    for parts in stack[:-1]:
        outputs = [part(_turned(inputs[-1], d))[0] for d, part in enumerate(parts)]
        inputs.append(_joined(outputs))
    return inputs


def _down(
    stack: Sequence[tuple[Layer, ...]], inputs: Sequence[Tensor], read: Sequence[Tensor | None]
) -> StackReadout:
    """Take the layers apart, from the last to the first."""
    from_above, constant, found = None, 0.0, []
    for parts, x, own in zip(reversed(stack), reversed(inputs), reversed(read), strict=True):
        v = sum((w for w in (from_above, own) if w is not None), torch.zeros(()))
        found, from_above = [], torch.zeros_like(x)
        for d, (part, share) in enumerate(zip(parts, v.chunk(len(parts), dim=1), strict=True)):
            turned = _turned(x, d), _turned(share, d)
            if isinstance(part, StringKernelRNN):
                readout = string_readout(part, *turned)
                slopes = readout.input_weights()
            else:
                readout = memory_ledger(part, *turned)
                slopes, constant = readout.input_weights, constant + readout.constant
            from_above = from_above + _turned(slopes, d)
            found.append(readout)
    return StackReadout(tuple(stack[0]), tuple(found), constant)


def _turned(rows: Tensor, direction: int) -> Tensor:
    """Return rows in the order in which a direction reads; or back from it."""
    return rows.flip(0) if direction else rows


def _joined(rows: Sequence[Tensor]) -> Tensor:
    """Return what the directions have, each in its own order, beside each other."""
    return torch.cat([_turned(each, d) for d, each in enumerate(rows)], dim=-1)
