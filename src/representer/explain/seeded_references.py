"""Initialization of references from phrases, and their drift during training."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple, TypeVar

import torch
import torch.nn.functional as F
from torch import Tensor

from representer.errors import ArgumentError, KindError, ShapeError
from representer.explain.checks import check_finite
from representer.explain.string_parts import check_layer
from representer.nn import StringKernelRNN
from representer.requirements import check_integer

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
    n, size, units = layer.order, layer.input_size, layer.hidden_size
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
