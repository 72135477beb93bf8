"""References of a string-kernel network: described by nearest words, and seeded with phrases."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from representer.checks import check_integer
from representer.errors import ArgumentError, KindError, ShapeError
from representer.explain.ngrams import check_finite, check_layer, string_parts
from representer.nn import StringKernelRNN


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
        expected = f"a tensor (words, {layer.input_size})"
        raise KindError("vectors", type(vectors).__name__, expected)
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


# Initialization of references from phrases, and their drift during training.

Token = TypeVar("Token", bound=Hashable)


class SlotDrift(NamedTuple):
    """The drift of one token of a reference from its seed.

    Attributes:
        unit: The unit.
        slot: The token of its reference, 0-based.
        cosine: Cosine of token and seed; 1 if only the length has changed.
        distance: Distance of token and seed, relative to the length of the seed.
    """

    unit: int
    slot: int
    cosine: float
    distance: float


@dataclass(frozen=True)
class Seeds:
    """The initial references of the first units.

    Attributes:
        vectors: References of units 0 to K − 1 ``(K, n, I)``.
    """

    vectors: Tensor

    def drift(self, layer: StringKernelRNN) -> list[SlotDrift]:
        """Compare the references with their seeds, unit by unit and slot by slot.

        Args:
            layer: The layer that was seeded, after training.

        Raises:
            KindError: If it is not a `StringKernelRNN`.
            ShapeError: If the shapes of its references and of the seeds differ.
        """
        check_layer(layer)
        seeds = self.vectors.double()
        current = layer.references().double().to(seeds.device)
        if current.shape[1:] != seeds.shape[1:] or len(current) < len(seeds):
            raise ShapeError(
                "references", current.shape, f"the shape of the seeds, {tuple(seeds.shape)}"
            )
        current = current[: len(seeds)]
        cosines = F.cosine_similarity(current, seeds, dim=-1).tolist()
        distances = ((current - seeds).norm(dim=-1) / seeds.norm(dim=-1)).tolist()
        return [
            SlotDrift(unit, slot, cosines[unit][slot], distances[unit][slot])
            for unit in range(len(seeds))
            for slot in range(seeds.shape[1])
        ]


def seed_references(
    layer: StringKernelRNN, phrases: Tensor | Sequence[Tensor], *, scale: float | None = None
) -> Seeds:
    """Initialize the references of the first units with the word vectors of phrases.

    Args:
        layer: The layer; the first layer, forward direction, is modified in place.
        phrases: Word vectors of each phrase, whose length is the layer's order n.
        scale: Rescale every vector to this length; None keeps the lengths. Word vectors are often
            longer than the initial weights of a layer.

    Shape:
        - phrases ``(K, n, I)``, or K of ``(n, I)``; K at most H

    Returns:
        The seeds; `Seeds.drift` compares the references with them after training.

    Raises:
        KindError: If the layer is not a `StringKernelRNN`, or a phrase is not a tensor.
        ShapeError: If a phrase is not a sequence of n vectors of the layer's input size.
        ArgumentError: If there are no phrases or more than units, a word vector is zero, or a
            value is not finite.

    References:
        Lei et al., Deriving Neural Architectures from Sequence and Graph Kernels, ICML 2017,
        Theorem 1.
    """
    check_layer(layer)
    n, size, units = layer.chains[0].order, layer.input_size, layer.hidden_size
    if not 1 <= len(phrases) <= units:
        hint = "Each phrase seeds one unit."
        raise ArgumentError("len(phrases)", len(phrases), f"a number from 1 to {units}", hint=hint)
    if scale is not None and not 0 < scale < float("inf"):
        raise ArgumentError("scale", scale, "a positive number, or None")
    rows = []
    for i, phrase in enumerate(phrases):
        if not isinstance(phrase, Tensor):
            raise KindError(f"phrases[{i}]", type(phrase).__name__, f"a tensor ({n}, {size})")
        if tuple(phrase.shape) != (n, size):
            hint = f"The layer compares n-grams of {n} tokens."
            raise ShapeError(f"phrases[{i}]", phrase.shape, f"({n}, {size})", hint=hint)
        rows.append(check_finite(f"phrases[{i}]", phrase.detach()))
        if not phrase.any(dim=1).all():
            slot = int((~phrase.any(dim=1)).nonzero()[0])
            raise ArgumentError(f"phrases[{i}][{slot}]", "all zeros", "the vector of a word")
    references = layer.references()
    seeds = torch.stack(rows).to(references)
    if scale is not None:
        seeds = scale * F.normalize(seeds, dim=-1)
    references[: len(seeds)] = seeds
    return Seeds(seeds.clone())


def frequent_ngrams(
    documents: Iterable[Sequence[Token]], n: int, count: int
) -> list[tuple[Token, ...]]:
    """Return the most frequent contiguous n-grams, as phrases for references.

    Args:
        documents: Tokens of each document, words or numbers.
        n: Number of tokens of an n-gram.
        count: Number of n-grams.

    Returns:
        At most ``count`` distinct n-grams in descending order of frequency; ties in order of first
        occurrence.

    Raises:
        ArgumentError: If n or count is not a positive integer.
    """
    check_integer("n", n, 1)
    check_integer("count", count, 1)
    seen: Counter[tuple[Token, ...]] = Counter()
    for tokens in documents:
        seen.update(zip(*(tokens[j:] for j in range(n)), strict=False))
    return [ngram for ngram, _ in seen.most_common(count)]
