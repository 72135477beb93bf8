"""Documents as tokens: tokenization, numbering by a vocabulary, truncation, batches, storage."""

from __future__ import annotations

import json
import random
import re
import unicodedata
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from itertools import chain
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, ClassVar, Literal, Self, TypeVar, get_args, overload

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from representer.errors import ArgumentError, DataError
from representer.machine import read_at

Entry = TypeVar("Entry")

Scheme = Literal["words", "blanks", "leam"]
_MOST_MARKS, GRAPHEME_JOINER = 30, "\u034f"


def tokenize(text: str, scheme: Scheme = "words") -> list[str]:
    """Return the tokens of a document.

    ``words`` is for any language. It converts to lower case and splits into words, numbers and
    single punctuation marks; runs of periods or hyphens stay together; English clitics are separate
    tokens as in the vocabulary of GloVe (``don't`` becomes ``do n't``, ``cat's`` becomes
    ``cat 's``). In scripts without spaces between words (Chinese, Japanese, Thai, Lao, Khmer,
    Burmese) every character is a token, and n-grams of tokens stand for words.

    ``blanks`` splits at whitespace, for text that is already tokenized, such as Chinese text after
    word segmentation.

    ``leam`` reproduces the preprocessing in the experiments of Liang et al. (2019), including its
    peculiarities: everything but ASCII letters, digits and ``( ) , . ! ?`` becomes a space, the
    letters ``br`` are deleted everywhere (intended for the HTML tag, this also changes
    ``library``), and every token that Python parses as a float becomes ``0``, including ``nan`` and
    ``infinity``.

    Args:
        text: The document.
        scheme: ``words``, ``blanks`` or ``leam``.

    Returns:
        The tokens, possibly none.

    Raises:
        ArgumentError: If the scheme is unknown.

    Examples:
        >>> tokenize("The cat's 3.5 kg -- isn't it?")
        ['the', 'cat', "'s", '3.5', 'kg', '--', 'is', "n't", 'it', '?']
        >>> tokenize("A library, 7.50 dollars!", scheme="leam")
        ['a', 'liary', ',', '0', '.', '0', 'dollars', '!']
    """
    if scheme == "words":
        return _found(_lowered(text))
    if scheme == "blanks":
        return text.split()
    if scheme == "leam":
        return _leam(text)
    raise ArgumentError("scheme", scheme, f"one of {', '.join(get_args(Scheme))}")


def tokenize_pieces(pieces: Sequence[str]) -> Iterator[list[str]]:
    """Yield the tokens of the scheme ``words`` of each of many pieces of text without spaces."""
    lowered = _lowered("\n".join(pieces)).split("\n") if pieces else []
    return ([token] if token.isascii() and token.isalpha() else _found(token) for token in lowered)


def _lowered(text: str) -> str:
    return unicodedata.normalize("NFC", _stream_safe(text.replace("\u2019", "'"))).lower()


def _marks(last: int) -> str:
    r"""Return the ranges of the combining marks, which belong to words but not to ``\w``."""
    codes = [i for i in range(0x300, last + 1) if unicodedata.category(chr(i))[0] == "M"]
    ranges: list[list[int]] = []
    for code in codes:
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    return "".join(f"\\U{a:08x}-\\U{b:08x}" for a, b in ranges)


@cache
def long_run() -> re.Pattern[str]:
    """Return the pattern of 30 combining marks before another one."""
    marks = _marks(0x1FFFF)
    return re.compile(f"[{marks}]{{{_MOST_MARKS}}}(?=[{marks}])")


def _stream_safe(text: str) -> str:
    """Insert a joiner after every 30 consecutive combining marks, as in Unicode's UAX 15.

    Normalization sorts the marks of a run in quadratic time. No word of any language has so many
    marks, so ordinary text is not changed.
    """
    if text.isascii():
        return text
    return long_run().sub(lambda run: run[0] + GRAPHEME_JOINER, text)


_UNSPACED = (  # scripts without spaces between words
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ece\u0edc-\u0edf"  # Thai, Lao
    "\u1000-\u103f\u1050-\u108f\u1780-\u17d3\u17dc\u17dd"  # Burmese, Khmer
    "\u3005-\u3007\u3041-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9f"  # Japanese
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003347f"  # Chinese
)
_MARKS = rf"{_marks(0xFFFF)}\u200c\u200d"  # with the joiners of Persian and Hindi
_LETTER = rf"(?:[^\W\d_{_UNSPACED}]|[{_MARKS}])"
_CLITIC = r"(?:s|re|ve|ll|d|m)\b"


def _words(letter: str, unspaced: str) -> re.Pattern[str]:
    """Return the pattern of a token, from those of a letter and of a character that is a token."""
    # possessive (++, *+), so that a word of millions of letters takes no memory for backtracking
    return re.compile(
        rf"""
        (?:(?!n't\b){letter})++(?=n't\b)                        # do|n't
        | n't\b
        | '{_CLITIC}
        | \d+(?:[.,]\d+)*+                                     # 3.14 and 1,000
        {unspaced}
        | {letter}(?:{letter}|\d)*+(?:'(?!{_CLITIC}){letter}++)*+  # b2b and o'clock
        | \.{{2,}} | -{{2,}}
        | \S
        """,
        re.VERBOSE,
    )


WORDS = _words(_LETTER, f"| [{_UNSPACED}][{_MARKS}]*")
_ASCII_WORDS = _words("[a-zA-Z]", "")  # the same of ASCII, and three times as fast


def _found(lowered: str) -> list[str]:
    return (_ASCII_WORDS if lowered.isascii() else WORDS).findall(lowered)


def _leam(text: str) -> list[str]:
    text = re.sub(r"[^A-Za-z0-9(),.!?]", " ", text)
    for abbreviation in ("e.g.,", "a.k.a.", "i.e.,", "i.e."):
        text = text.replace(abbreviation, " ")
    text = text.replace("br", "")
    text = re.sub(r"([,!()?.])", r" \1 ", text)
    return ["0" if _is_float(token) else token for token in text.lower().split()]


def _is_float(token: str) -> bool:
    try:
        float(token)
    except ValueError:
        return False
    return True


# The mapping between words and ids, the base of all vocabularies.


class Numbering:
    """Words in a fixed order, with ids; 0 is a special token and 1 the unknown word.

    Args:
        words: All words, starting with the two special tokens. If these occur as words of a
            document, both are encoded as unknown.
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
        cls, token_lists: Iterable[Sequence[str]], min_count: int = 1, max_size: int | None = None,
    ) -> Self:  # fmt: skip
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
        """Read the output of :meth:`to_json`."""
        try:
            words = json.loads(text)["words"]
            if not isinstance(words, list) or not all(isinstance(word, str) for word in words):
                raise TypeError("words is not a list of strings")
            return cls(words)
        except (ValueError, KeyError, TypeError, RecursionError) as error:
            fix = "save() writes it; copy it from the run folder again."
            raise DataError(f"is not a vocabulary ({error})", file=file, fix=fix) from None


# The vocabulary of documents.


class Vocabulary(Numbering):
    """Words in a fixed order, with ids; 0 is padding and 1 the unknown word.

    Args:
        words: All words, starting with the special tokens ``<pad>`` and ``<unk>``. If these occur
            as words of a document, both are encoded as unknown.

    Raises:
        ArgumentError: If the special tokens do not come first or a word is a duplicate.
    """

    PAD: ClassVar[int] = 0
    MARKS: ClassVar[tuple[str, str]] = ("<pad>", "<unk>")


# The vocabulary of a running text.


class LanguageVocabulary(Numbering):
    """Tokens by descending frequency; 0 is the end of a line and 1 the unknown token.

    Args:
        words: All tokens, starting with the special tokens ``<eos>`` and ``<unk>``. If these occur
            in a text, both are encoded as unknown; only line ends are encoded as ``<eos>``.

    Raises:
        ArgumentError: If the special tokens do not come first or a token is a duplicate.
    """

    END: ClassVar[int] = 0
    MARKS: ClassVar[tuple[str, str]] = ("<eos>", "<unk>")


# Padding and truncation of documents to one tensor.


@dataclass(frozen=True)
class Truncation:
    """The effect of a limit on the length of documents."""

    max_length: int
    documents: int
    cut: int  # documents that are longer
    tokens: int  # before truncation
    tokens_cut: int
    longest: int  # tokens of the longest document

    def __str__(self) -> str:
        """Return a sentence for the user."""
        if not self.cut:
            return f"no document is longer than {self.max_length} tokens (longest {self.longest})"
        return (
            f"{self.cut:,} of {self.documents:,} documents are truncated to their first "
            f"{self.max_length} tokens; {self.tokens_cut / self.tokens:.1%} of tokens are removed"
        )


def truncation(lengths: Sequence[int], max_length: int) -> Truncation:
    """Return the effect of a limit on documents of the given lengths.

    Raises:
        ArgumentError: If ``max_length`` is less than 1.
    """
    _check(max_length)
    cut = [length - max_length for length in lengths if length > max_length]
    longest = max(lengths, default=0)
    return Truncation(max_length, len(lengths), len(cut), sum(lengths), sum(cut), longest)


def collate(
    documents: Sequence[Sequence[int]], max_length: int | None = None, multiple: int = 1
) -> tuple[Tensor, Tensor]:
    """Collate encoded documents into one tensor.

    Args:
        documents: The word ids of each document.
        max_length: Longer documents are truncated at the end; None keeps all tokens.
        multiple: T is rounded up to a multiple of this.

    Returns:
        The ids, padded at the end with ``Vocabulary.PAD``, and the lengths. There is at least
        one step, even for a batch of empty documents.

    Shape:
        - tokens: ``(B, T)``, int64
        - lengths: ``(B,)``, int64

    Raises:
        ArgumentError: If there are no documents or ``max_length`` is less than 1.
    """
    if not documents:
        raise ArgumentError("documents", documents, "one document or more")
    if max_length is not None:
        _check(max_length)
    heads = [document[:max_length] for document in documents]
    lengths = [len(head) for head in heads]
    steps = -(-max(1, *lengths) // multiple) * multiple
    rows = [[*head, *[Vocabulary.PAD] * (steps - len(head))] for head in heads]
    return torch.tensor(rows, dtype=torch.int64), torch.tensor(lengths, dtype=torch.int64)


def _check(max_length: int) -> None:
    if max_length < 1:
        raise ArgumentError("max_length", max_length, "1 or more")


# Batches of documents of similar length, in a random order determined by the seed.


def length_buckets(
    lengths: Sequence[int], batch_size: int, seed: int, epoch: int, *, bucket: int = 50
) -> list[list[int]]:
    """Return the batches of an epoch, as positions of documents.

    The documents are shuffled and split into pools of ``bucket`` batches; each pool is sorted by
    length and split into batches; then all batches are shuffled. Each document is in exactly one
    batch, and all batches but one are full. The result depends only on the arguments, so an
    interrupted epoch can be resumed.

    Args:
        lengths: The length of each document.
        batch_size: Number of documents in a batch.
        seed: The seed of the run.
        epoch: The number of the epoch; each epoch has a different order.
        bucket: Number of batches in a pool. 1 gives random batches; larger pools, less padding.

    Raises:
        ArgumentError: If ``batch_size`` or ``bucket`` is less than 1.
    """
    for name, value in (("batch_size", batch_size), ("bucket", bucket)):
        if value < 1:
            raise ArgumentError(name, value, "1 or more")
    rng = random.Random(f"{seed}/{epoch}")
    order = list(range(len(lengths)))
    rng.shuffle(order)
    batches = []
    pool_size = bucket * batch_size
    for start in range(0, len(order), pool_size):
        pool = sorted(order[start : start + pool_size], key=lambda document: lengths[document])
        batches += [pool[i : i + batch_size] for i in range(0, len(pool), batch_size)]
    rng.shuffle(batches)
    return batches


# Batches of documents of equal length, in a random order determined by the seed.


def equal_lengths(
    lengths: Sequence[int], batch_size: int, seed: int, epoch: int
) -> list[list[int]]:
    """Return the batches of an epoch, as positions of documents; no batch needs padding.

    The documents of each length are shuffled and split into batches, the last of which may be
    smaller; then all batches are shuffled. Each document is in exactly one batch. The result
    depends only on the arguments, so an interrupted epoch can be resumed.

    Args:
        lengths: The length of each document.
        batch_size: Maximum number of documents in a batch.
        seed: The seed of the run.
        epoch: The number of the epoch; each epoch has different batches.

    Raises:
        ArgumentError: If ``batch_size`` is less than 1.
    """
    if batch_size < 1:
        raise ArgumentError("batch_size", batch_size, "1 or more")
    rng = random.Random(f"{seed}/{epoch}")
    by_length: dict[int, list[int]] = {}
    for document, length in enumerate(lengths):
        by_length.setdefault(length, []).append(document)
    batches = []
    for _, documents in sorted(by_length.items()):
        rng.shuffle(documents)
        batches += [
            documents[start : start + batch_size] for start in range(0, len(documents), batch_size)
        ]
    rng.shuffle(batches)
    return batches


# Data larger than memory: only the position of each entry is in memory. Entries are read one by one
# and not mapped, so that the pages of the file do not count as memory of the process. The file has
# no name: it is gone when its last sequence is, however the process ends.

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
