"""The vocabulary and the word numbers of texts in a file, in one pass over the texts."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np
from numpy.typing import NDArray

from representer.data.stored import Stored
from representer.data.text.vocabulary import Vocabulary

DISTINCT = 2_000_000  # words that are told apart; later ones are unknown
LARGEST = 50_000  # words of the vocabulary
_BLOCK = 1 << 20  # words that are counted together


def stored_texts(texts: Iterable[str]) -> Stored[str]:
    """Write texts to a file."""
    return Stored.write((text.encode() for text in texts), bytes.decode)


def stored_documents(
    texts: Iterable[str], words: Callable[[str], list[str]], min_count: int
) -> tuple[Vocabulary, Stored[list[int]]]:
    """Build a vocabulary, at most 50,000 words, and encode the texts with it.

    Words get provisional numbers in the order of their first occurrence, which are written to a
    file and counted; a table from these to the numbers of the vocabulary is applied when a
    document is read.

    Args:
        texts: The texts.
        words: Returns the words of a text.
        min_count: Words that occur less often are unknown, and so is a word that occurs for the
            first time after 2,000,000 others.
    """
    known: dict[str, int] = {}
    counts = np.zeros(1, np.int64)
    block: list[int] = []

    def count() -> None:
        nonlocal counts
        found = np.bincount(block, minlength=len(counts))
        found[: len(counts)] += counts
        counts = found
        block.clear()

    def entries() -> Iterator[bytes]:
        for text in texts:
            numbers = []
            for word in words(text):
                number = known.get(word)
                if number is None and len(known) < DISTINCT:
                    number = known[word] = len(known) + 1
                numbers.append(number or 0)
            block.extend(numbers)
            if len(block) > _BLOCK:
                count()
            yield np.asarray(numbers, np.int32).tobytes()

    documents = Stored.write(entries(), bytes)
    count()
    frequent = {word: int(counts[i]) for word, i in known.items() if counts[i] >= min_count}
    vocabulary = Vocabulary.from_counts(frequent, min_count, LARGEST)
    final = np.full(len(counts), Vocabulary.UNKNOWN, np.int64)
    for number, word in enumerate(vocabulary.words[len(Vocabulary.MARKS) :], len(Vocabulary.MARKS)):
        final[known[word]] = number
    return vocabulary, documents.decoded_by(_Decoder(final))


def document_lengths(documents: Stored[list[int]]) -> list[int]:
    """Return the number of words of each stored document."""
    return (documents.sizes // np.dtype(np.int32).itemsize).tolist()


class _Decoder:
    def __init__(self, final: NDArray[np.int64]) -> None:
        self._final = final

    def __call__(self, found: bytes) -> list[int]:
        return self._final[np.frombuffer(found, np.int32)].tolist()
