"""Word vectors, and their coverage of a vocabulary."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np
import torch
from torch import Tensor

from representer.data.text.vocabulary import Vocabulary
from representer.errors import ArgumentError, ShapeError


@dataclass(frozen=True)
class Coverage:
    """The coverage of a vocabulary by word vectors.

    Args:
        found: Number of words with a vector.
        total: Number of words in the vocabulary, without special tokens.
        by_case: Number of words found only in another case.
        words: The words with a vector.
    """

    found: int
    total: int
    by_case: int
    words: frozenset[str] = field(repr=False)

    @property
    def types(self) -> float:
        """Return the fraction of the vocabulary that has a vector."""
        return self.found / self.total if self.total else 0.0

    def running(self, token_counts: Mapping[str, int]) -> float:
        """Return the fraction of running words that has a vector.

        Args:
            token_counts: The frequency of each word, for example a Counter of all tokens.
        """
        total = sum(token_counts.values())
        covered = sum(count for word, count in token_counts.items() if word in self.words)
        return covered / total if total else 0.0

    def __str__(self) -> str:
        """Return a sentence for the user."""
        case = f", {self.by_case:,} of them in another case" if self.by_case else ""
        return (
            f"{self.found:,} of {self.total:,} words ({self.types:.1%}) have a vector{case}; "
            "the others are random"
        )


@dataclass(frozen=True)
class WordVectors:
    """Words and one vector for each.

    Args:
        words: The distinct words.
        matrix: Their vectors, float32.

    Shape:
        - matrix: ``(V, D)``
    """

    words: tuple[str, ...]
    matrix: np.ndarray = field(repr=False)

    def __post_init__(self) -> None:
        """Check the shape of the matrix."""
        if self.matrix.ndim != 2 or len(self.matrix) != len(self.words):
            raise ShapeError("matrix", self.matrix.shape, f"({len(self.words)}, dimensions)")

    @property
    def dimensions(self) -> int:
        """Return D, the length of a vector."""
        return self.matrix.shape[1]

    def align(
        self, vocabulary: Vocabulary, generator: torch.Generator, scale: float = 0.25
    ) -> tuple[Tensor, Coverage]:
        """Return the embedding matrix of a vocabulary.

        A word uses its own vector, or else that of its lower-case, capitalized or upper-case form.
        Words without a vector and the unknown word are uniform in [-scale, scale]; padding is
        zero.

        Args:
            vocabulary: The words.
            generator: Random generator of these rows, which do not depend on the words found.
            scale: Largest absolute value in a random row.

        Returns:
            The matrix and its coverage.

        Shape:
            - matrix: ``(len(vocabulary), D)``, float32

        Raises:
            ArgumentError: If the scale is negative or not a finite number.
        """
        if not 0 <= scale < float("inf"):
            raise ArgumentError("scale", scale, "a finite number, 0 or more")
        rows = {word: row for row, word in enumerate(self.words)}
        random = torch.rand(len(vocabulary), self.dimensions, generator=generator)
        matrix = (2 * random - 1) * scale
        matrix[Vocabulary.PAD] = 0
        found: set[str] = set()
        by_case = 0
        for number, word in enumerate(vocabulary.words[2:], start=2):
            form = next((form for form in spellings(word) if form in rows), None)
            if form is not None:
                matrix[number] = torch.from_numpy(self.matrix[rows[form]])
                found.add(word)
                by_case += form != word
        return matrix, Coverage(len(found), len(vocabulary) - 2, by_case, frozenset(found))


def spellings(word: str) -> Iterator[str]:
    """Yield the forms of a word whose vectors are looked up, in order."""
    yield word
    yield word.lower()
    yield word.capitalize()
    yield word.upper()
