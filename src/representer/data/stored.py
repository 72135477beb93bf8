"""Sequences that are kept in a file, for data larger than memory.

Only the place of each entry is in memory. Entries are read one by one and not mapped, so that the
pages of the file do not count as memory of the process. The file has no name: it is gone when its
last sequence is, however the process ends.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from tempfile import TemporaryFile
from typing import Any, TypeVar, overload

import numpy as np
from numpy.typing import NDArray

from representer.data.text.words import Vocabulary
from representer.machine import read_at

Entry = TypeVar("Entry")
SAMPLE = 20_000  # entries that are read where all of them would not fit into memory
BYTES = 2 << 20  # of these entries; a byte of text may make up three hundred bytes of features
_BUFFER = 1 << 20  # bytes


class _File:
    """A file without a name, closed with its last reader."""

    def __init__(self) -> None:
        self.file = TemporaryFile(buffering=_BUFFER)  # noqa: SIM115  (closed below)
        weakref.finalize(self, self.file.close)


class Stored(Sequence[Entry]):
    """Entries in a file.

    Args:
        file: The file, which nobody else changes.
        starts: Position of the first byte of each entry ``(N,)``.
        ends: Position after its last byte ``(N,)``.
        decode: From the bytes of an entry to the entry.
    """

    def __init__(
        self, file: _File, starts: NDArray[np.int64], ends: NDArray[np.int64],
        decode: Callable[[bytes], Entry],
    ) -> None:  # fmt: skip
        self._file, self._starts, self._ends, self._decode = file, starts, ends, decode

    @classmethod
    def write(cls, entries: Iterator[bytes], decode: Callable[[bytes], Entry]) -> Stored[Entry]:
        """Write entries to a new file in the system's folder for temporary files.

        Raises:
            OSError: There is no space.
        """
        file = _File()
        sizes = np.fromiter(map(file.file.write, entries), np.int64)
        file.file.flush()
        ends = np.cumsum(sizes)
        return cls(file, ends - sizes, ends, decode)

    def __len__(self) -> int:
        return len(self._starts)

    @overload
    def __getitem__(self, index: int) -> Entry: ...
    @overload
    def __getitem__(self, index: slice) -> Stored[Entry]: ...
    def __getitem__(self, index: Any) -> Any:
        """Return an entry, or a slice of them, which is still in the file."""
        if isinstance(index, slice):
            return self.take(np.arange(len(self))[index])
        start, size = self._starts[index], self._ends[index] - self._starts[index]
        data = read_at(self._file.file.fileno(), int(size), int(start))
        if len(data) != size:
            raise OSError(f"a temporary file has {len(data)} of {size} bytes of an entry")
        return self._decode(data)

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Number of bytes of each entry ``(N,)``."""
        return self._ends - self._starts

    def take(self, positions: Any) -> Stored[Entry]:
        """Return the entries at some positions, which are still in the file."""
        return Stored(self._file, self._starts[positions], self._ends[positions], self._decode)

    def decoded_by(self, decode: Callable[[bytes], Any]) -> Stored[Any]:
        """Return the same entries with another way to decode them."""
        return Stored(self._file, self._starts, self._ends, decode)


def take(values: Any, positions: Any) -> Any:
    """Return the values at some positions: a list, or what is stored or an array as such."""
    if isinstance(values, Stored | np.ndarray):
        return values[positions] if isinstance(values, np.ndarray) else values.take(positions)
    return [values[i] for i in positions]


def most(objects: Stored[Any]) -> int:
    """Return how many stored objects are used where not all are: 20,000, or 2 MiB of them."""
    mean = max(1.0, float(objects.sizes.mean())) if len(objects) else 1.0
    return max(1, min(len(objects), SAMPLE, int(BYTES / mean)))


def sampled_rows(objects: Sequence[Any]) -> NDArray[np.int64] | None:
    """Return evenly spaced positions of stored objects, see `most`; None if all are in memory."""
    if not isinstance(objects, Stored):
        return None
    return np.unique(np.linspace(0, len(objects) - 1, most(objects)).astype(np.int64))


def sampled(objects: Sequence[Any], *others: Any) -> Any:
    """Return objects that fit into memory, and the entries of arrays beside them."""
    rows = sampled_rows(objects)
    if rows is not None:
        objects, others = [*take(objects, rows)], tuple(x[rows] for x in others)
    return (objects, *others) if others else objects


# The vocabulary and the word numbers of texts in a file, in one pass over the texts.

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
    codes: dict[str, int] = {}
    counts = np.zeros(1, np.int64)
    block: list[int] = []

    def count() -> None:
        nonlocal counts
        sums = np.bincount(block, minlength=len(counts))
        sums[: len(counts)] += counts
        counts = sums
        block.clear()

    def entries() -> Iterator[bytes]:
        for text in texts:
            numbers = []
            for word in words(text):
                number = codes.get(word)
                if number is None and len(codes) < DISTINCT:
                    number = codes[word] = len(codes) + 1
                numbers.append(number or 0)
            block.extend(numbers)
            if len(block) > _BLOCK:
                count()
            yield np.asarray(numbers, np.int32).tobytes()

    documents = Stored.write(entries(), bytes)
    count()
    frequent = {word: int(counts[i]) for word, i in codes.items() if counts[i] >= min_count}
    vocabulary = Vocabulary.from_counts(frequent, min_count, LARGEST)
    final = np.full(len(counts), Vocabulary.UNKNOWN, np.int64)
    for number, word in enumerate(vocabulary.words[len(Vocabulary.MARKS) :], len(Vocabulary.MARKS)):
        final[codes[word]] = number
    return vocabulary, documents.decoded_by(_Decoder(final))


def document_lengths(documents: Stored[list[int]]) -> list[int]:
    """Return the number of words of each stored document."""
    return (documents.sizes // np.dtype(np.int32).itemsize).tolist()


class _Decoder:
    def __init__(self, final: NDArray[np.int64]) -> None:
        self._final = final

    def __call__(self, found: bytes) -> list[int]:
        return self._final[np.frombuffer(found, np.int32)].tolist()
