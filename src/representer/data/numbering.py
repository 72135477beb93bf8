"""The mapping between words and ids, the base of all vocabularies."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import ClassVar, Self

from representer.errors import ArgumentError, DataError


class Numbering:
    """Words in a fixed order, with ids; 0 is a special token and 1 the unknown word.

    Args:
        words: All words, starting with the two special tokens. If these occur as words of a
            document, both are encoded as unknown.

    Raises:
        ArgumentError: If the special tokens do not come first or a word is a duplicate.
    """

    UNKNOWN: ClassVar[int] = 1
    MARKS: ClassVar[tuple[str, str]]

    def __init__(self, words: Sequence[str]) -> None:
        self.words = tuple(words)
        if self.words[:2] != self.MARKS:
            raise ArgumentError("words", list(self.words[:2]), f"{self.MARKS} first")
        self._numbers = {word: number for number, word in enumerate(self.words)}
        if len(self._numbers) < len(self.words):
            twice = next(word for word, count in Counter(self.words).items() if count > 1)
            raise ArgumentError("words", twice, "distinct words")
        for mark in self.MARKS:
            self._numbers[mark] = self.UNKNOWN

    @classmethod
    def build(
        cls,
        token_lists: Iterable[Sequence[str]],
        min_count: int = 1,
        max_size: int | None = None,
    ) -> Self:
        """Collect the words of tokenized documents, most frequent first, ties in code point order.

        Args:
            token_lists: The tokens of each document.
            min_count: Words that occur less often are encoded as unknown.
            max_size: Maximum number of words including the special tokens; None for no limit.

        Raises:
            ArgumentError: If the limits exclude all words.
        """
        return cls.from_counts(Counter(chain.from_iterable(token_lists)), min_count, max_size)

    @classmethod
    def from_counts(
        cls, counts: Mapping[str, int], min_count: int = 1, max_size: int | None = None
    ) -> Self:
        """Build a vocabulary from word counts; see :meth:`build`."""
        if min_count < 1:
            raise ArgumentError("min_count", min_count, "1 or more")
        if max_size is not None and max_size < 3:
            raise ArgumentError(
                "max_size", max_size, "3 or more (including two special tokens), or None"
            )
        frequent = [w for w, count in counts.items() if count >= min_count and w not in cls.MARKS]
        frequent.sort(key=lambda word: (-counts[word], word))
        limit = None if max_size is None else max_size - 2
        return cls((*cls.MARKS, *frequent[:limit]))

    def __len__(self) -> int:
        """Return the number of words, including the special tokens."""
        return len(self.words)

    def __contains__(self, word: object) -> bool:
        """Return True if a word has an id."""
        return self._numbers.get(word, self.UNKNOWN) > self.UNKNOWN  # type: ignore[call-overload]

    def __eq__(self, other: object) -> bool:
        """Return True if both map the same words to the same ids."""
        return isinstance(other, type(self)) and self.words == other.words

    def __hash__(self) -> int:
        """Return a hash consistent with equality."""
        return hash(self.words)

    def __repr__(self) -> str:
        """Return the size."""
        return f"{type(self).__name__}({len(self):,} words)"

    def encode(self, tokens: Iterable[str]) -> list[int]:
        """Return the ids of the tokens."""
        return [self._numbers.get(token, self.UNKNOWN) for token in tokens]

    def decode(self, numbers: Iterable[int]) -> list[str]:
        """Return the words of ids."""
        return [self.words[number] for number in numbers]

    def to_json(self) -> str:
        """Return the vocabulary as JSON."""
        return json.dumps({"words": self.words}, ensure_ascii=False)

    @classmethod
    def from_json(cls, text: str, *, file: str | Path | None = None) -> Self:
        """Read the output of :meth:`to_json`.

        Raises:
            DataError: If the text is not a vocabulary.
        """
        try:
            words = json.loads(text)["words"]
            if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
                raise TypeError("words is not a list of strings")
            return cls(words)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            fix = "save() writes it; copy it from the run folder again."
            raise DataError(f"is not a vocabulary ({error})", file=file, fix=fix) from None
