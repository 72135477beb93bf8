"""A weighted sum of the outputs of recurrent layers as a sum over the words of a text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import pairwise
from typing import NamedTuple

from torch import Tensor, nn

from representer.errors import KindError
from representer.explain import MemoryLedger, stack_readout
from representer.nn import StringKernelRNN
from representer.nn.recurrent.machine import RecurrentKernelMachine

Layer = StringKernelRNN | RecurrentKernelMachine


class NgramContributions(NamedTuple):
    """The contributions that, with the constant, sum to what is read of the layers."""

    # positions of the words of each n-gram, and its contribution, in reading order
    ngrams: list[tuple[tuple[int, ...], float]]
    constant: float  # the part that no word contributes


def ngram_contributions(
    layers: Sequence[Layer], x: Tensor, weights: Sequence[Tensor]
) -> NgramContributions:
    """Return the contributions of the n-grams of a text to a weighted sum of outputs.

    The contributions are exact, given the values of the gates and of the divisors of layer norms.
    For one layer and one direction of a recurrent kernel machine, they are those of the windows of
    its filters; for string kernels, those of n-grams with gaps, unless there are too many; for any
    other network, those of the single words. Layers are listed from the lowest, with the weight of
    the output of every step for each of them ``(T, D·H)``.
    """
    readout = stack_readout(layers, x, weights)
    if (every := readout.every_ngram()) is not None:
        return NgramContributions(list(every.items()), readout.constant)
    values, length, dilation = readout.steps().sum(1), 1, 1
    layer, ledger = layers[0], readout.readouts[0]
    is_flat = len(layers) == layer.num_layers == layer.num_directions == 1
    if is_flat and isinstance(layer, RecurrentKernelMachine) and isinstance(ledger, MemoryLedger):
        values, dilation = ledger.by_ngram.sum(1), layer.dilation
        length = layer.filters()["candidate"].shape[-1]
    reach = (length - 1) * dilation
    windows = [tuple(s for s in range(t - reach, t + 1, dilation) if s >= 0) for t in range(len(x))]
    return NgramContributions(list(zip(windows, values.tolist(), strict=True)), readout.constant)


def require_layers(layers: Iterable[nn.Module], cell: str) -> list[Layer]:
    """Return layers that have contributions."""
    stack = list(layers)
    readable = [x for x in stack if isinstance(x, StringKernelRNN | RecurrentKernelMachine)]
    if len(readable) < len(stack):
        raise KindError(
            "the cell of the run", cell, "string-kernel, or one of the recurrent kernel machines",
            hint="Its output is not a sum of contributions.",
        )  # fmt: skip
    return readable


def with_gaps(words: Sequence[str], positions: Sequence[int]) -> str:
    """Return the words of an n-gram, with dots for skipped words."""
    text = words[positions[0]]
    for before, t in pairwise(positions):
        text += f"{' ' if t == before + 1 else ' … '}{words[t]}"
    return text
