"""The reference of one unit of a string-kernel network, described by its nearest words."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor

from representer.errors import ArgumentError, KindError, ShapeError
from representer.explain.checks import check_finite
from representer.explain.string_parts import check_layer, string_parts
from representer.nn import StringKernelRNN
from representer.requirements import check_integer


class NearWord(NamedTuple):
    """A word near a slot of a reference.

    Attributes:
        word: The word.
        cosine: Cosine of its vector and the slot.
    """

    word: str
    cosine: float


@dataclass(frozen=True)
class ReferenceCard:
    """The reference, decay and read-out weights of one unit.

    Attributes:
        unit: The unit.
        slots: The nearest words to each token of the reference, in descending order of cosine.
        decay: λ, or the mean of the gate over the data; None for a gate without data.
        half_life: Steps after which a match has decayed to half, log ½ / log λ; uses the median
            of a gate over the data.
        weights: The unit's weight for each class, by name.
    """

    unit: int
    slots: tuple[tuple[NearWord, ...], ...]
    decay: float | None
    half_life: float | None
    weights: Mapping[str, float]

    def __str__(self) -> str:
        """Return the card as text."""
        slots = (" / ".join(f"{word} {cosine:.2f}" for word, cosine in s) for s in self.slots)
        lines = [f"unit {self.unit}", *(f"  slot {j}  {s}" for j, s in enumerate(slots, 1))]
        if self.decay is not None and self.half_life is not None:
            lines.append(f"  decay   {self.decay:.3g}, half-life {self.half_life:.3g} tokens")
        lines += [f"  {name}  {weight:+.3g}" for name, weight in self.weights.items()]
        return "\n".join(lines)


def reference_card(
    layer: StringKernelRNN,
    unit: int,
    words: Sequence[str],
    vectors: Tensor,
    *,
    k: int = 5,
    data: Sequence[Tensor] = (),
    weights: Mapping[str, Tensor] | None = None,
) -> ReferenceCard:
    r"""Describe the reference of a unit.

    .. math::
        \text{half-life} = \log \tfrac12 / \log \lambda

    Args:
        layer: Of several layers, the first is described; of two directions, the forward one.
        unit: The unit.
        words: Candidate words.
        vectors: Their vectors. The cosine of a zero vector is 0.
        k: Number of words per slot.
        data: Sequences for the statistics of a gated decay; unused otherwise.
        weights: Read-out weights of all units, by class.

    Shape:
        - vectors ``(V, I)``; data ``(T, I)`` each; weights ``(H,)`` each

    Raises:
        KindError: If the layer is not a `StringKernelRNN`, or vectors is not a tensor.
        ShapeError: If a shape is wrong.
        ArgumentError: If unit or k is out of range, the numbers of words and vectors differ, or a
            value is not finite.

    References:
        Lei et al., Deriving Neural Architectures from Sequence and Graph Kernels, ICML 2017,
        Theorem 1: the reference of unit i is the sequence of its rows of W.
    """
    check_layer(layer)
    check_integer("unit", unit, 0, layer.hidden_size - 1)
    check_integer("k", k, 1)
    if not isinstance(vectors, Tensor):
        kind = f"a tensor (words, {layer.input_size})"
        raise KindError("vectors", type(vectors).__name__, kind)
    if vectors.dim() != 2 or vectors.shape[1] != layer.input_size:
        raise ShapeError("vectors", vectors.shape, f"(words, {layer.input_size})")
    if len(words) != len(vectors):
        raise ArgumentError("len(words)", len(words), f"{len(vectors)}, one word per vector")
    reference = layer.references()[unit].double()
    unit_vectors = F.normalize(check_finite("vectors", vectors.detach()).double(), dim=1)
    cosines = F.normalize(reference, dim=1) @ unit_vectors.T
    best = cosines.topk(min(k, len(words)), dim=1)
    slots = tuple(
        tuple(NearWord(words[int(i)], float(c)) for i, c in zip(indices, values, strict=True))
        for indices, values in zip(best.indices.tolist(), best.values.tolist(), strict=True)
    )
    decay, half_life = _decay(layer, unit, data)
    class_weights = {name: row[unit].item() for name, row in (weights or {}).items()}
    return ReferenceCard(unit, slots, decay, half_life, class_weights)


def half_life(decay: float) -> float:
    """Return the number of steps to half the initial value: 0 for λ = 0, infinity for λ = 1."""
    if decay <= 0:
        return 0.0
    return math.inf if decay >= 1 else math.log(0.5) / math.log(decay)


def _decay(
    layer: StringKernelRNN, unit: int, data: Sequence[Tensor]
) -> tuple[float | None, float | None]:
    gate = layer.decay_gate()
    if isinstance(gate, Tensor):
        value = gate.expand(layer.hidden_size)[unit].item()
        return value, half_life(value)
    if not data:
        return None, None
    values = torch.cat([string_parts(layer, x).decay[:, unit] for x in data])
    return values.mean().item(), half_life(values.median().item())
