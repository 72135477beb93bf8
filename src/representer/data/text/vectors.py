"""Word vectors: reading, coverage of a vocabulary, and vectors from the texts themselves."""

from __future__ import annotations

import importlib.metadata
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from itertools import chain
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
import scipy.sparse as sp
import torch
from numpy.typing import NDArray
from torch import Tensor

from representer.checks import parse_number
from representer.data.tables.files import read_arrays, regular_file
from representer.data.tables.reading import physical_lines, read_grid
from representer.data.text.words import Vocabulary
from representer.errors import ArgumentError, DataError, ShapeError, reason


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
            "the others start from their characters"
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

    def __deepcopy__(self, memo: dict[int, Any]) -> WordVectors:
        """Return itself, since it is frozen and may be large."""
        return self

    def halved(self) -> WordVectors | None:
        """Return the vectors in half precision, in which a run keeps them; None without any."""
        half = np.clip(self.matrix, -_LARGEST_HALF, _LARGEST_HALF).astype(np.float16)
        return WordVectors(self.words, half) if self.words else None

    @cached_property
    def _rows(self) -> dict[str, int]:
        return {word: row for row, word in enumerate(self.words)}

    def rows(self, words: Sequence[str]) -> NDArray[np.int64]:
        """Return the row of each word, or of another form of it ``(N,)``; -1 without a vector."""
        rows = self._rows
        numbers = (next((rows[f] for f in spellings(w) if f in rows), -1) for w in words)
        return np.fromiter(numbers, np.int64, len(words))

    @property
    def dimensions(self) -> int:
        """Return D, the length of a vector."""
        return self.matrix.shape[1]

    def align(
        self, vocabulary: Vocabulary, generator: torch.Generator, scale: float = 0.25
    ) -> tuple[Tensor, Coverage]:
        """Return the embedding matrix of a vocabulary.

        A word uses its own vector, or else that of its lower-case, capitalized or upper-case form,
        or else one by `from_subwords`. The unknown word, and words of which no n-gram of characters
        is in a word with a vector, are uniform in [-scale, scale]; padding is zero.

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
        random = torch.rand(len(vocabulary), self.dimensions, generator=generator)
        matrix = (2 * random - 1) * scale
        matrix[Vocabulary.PAD] = 0
        covered, others, by_case = set[str](), list[int](), 0
        words = vocabulary.words[2:]
        for number, (word, row) in enumerate(zip(words, self.rows(words), strict=True), start=2):
            if row < 0:
                others.append(number)
                continue
            matrix[number] = torch.from_numpy(self.matrix[row].astype(np.float32))
            covered.add(word)
            by_case += self.words[row] != word
        guessed = self.from_subwords([vocabulary.words[number] for number in others])
        for k in np.flatnonzero(guessed.any(axis=1)):
            matrix[others[k]] = torch.from_numpy(guessed[k])
        return matrix, Coverage(len(covered), len(vocabulary) - 2, by_case, frozenset(covered))

    def from_subwords(self, words: Sequence[str]) -> NDArray[np.float32]:
        """Return a vector for each word by the n-grams of characters that it shares ``(N, D)``.

        An n-gram of 3 to 5 characters has the mean vector of the words that contain it, and a word
        the mean of its n-grams, each divided by the square root of the number of these words, all
        about the mean of all vectors, scaled to their mean distance from it. A word that shares
        none has zeros.

        References:
            Bojanowski et al., Enriching Word Vectors with Subword Information, TACL 2017, for the
            n-grams.
        """
        result = np.zeros((len(words), self.dimensions), np.float32)
        if not len(words) or not len(self.words):
            return result
        from sklearn.feature_extraction.text import CountVectorizer  # a second, for unknown words

        counter = CountVectorizer(analyzer="char_wb", ngram_range=(3, 5), binary=True)
        counter.fit([*words, "aaa"])  # which has an n-gram, if no word has one
        wanted, listed = (counter.transform(x).astype(np.float32) for x in (words, self.words))
        center = self.matrix.mean(0)
        counts = np.maximum(np.asarray(listed.sum(0)).ravel(), 1.0)
        ngrams = (listed.T @ (self.matrix - center)) / counts[:, None] ** 1.5
        sums = np.asarray(wanted @ ngrams)
        lengths = np.linalg.norm(sums, axis=1, keepdims=True)
        typical = np.linalg.norm(self.matrix - center, axis=1).mean()
        shared = lengths[:, 0] > 0
        result[shared] = center + sums[shared] * (typical / lengths[shared])
        return result


def spellings(word: str) -> Iterator[str]:
    """Yield the forms of a word whose vectors are looked up, in order."""
    yield word
    yield word.lower()
    yield word.capitalize()
    yield word.upper()


# Reading of word vectors: text, ``.npz``, a model2vec folder, or a package that ships vectors.

_LARGEST, _LARGEST_HALF = (float(np.finfo(dtype).max) for dtype in (np.float32, np.float16))
MODEL2VEC = "tokenizer.json", "model.safetensors"
FREQUENT = 50_000  # words at the beginning of a file, where files have the most frequent ones


def read_vectors(
    path: str | PathLike[str], vocabulary: Vocabulary | None = None, *, frequent: int = 0
) -> WordVectors:
    """Read word vectors from a file, a folder or an installed package.

    A text file has one word and its values per line (GloVe), optionally after a first line with the
    numbers of words and dimensions (word2vec, fastText); it may be compressed (``.gz``, ``.bz2``,
    ``.xz``). A GloVe token may contain spaces: the last D fields are the vector. The first vector
    of each word is used. An ``.npz`` file contains ``words`` (text) and ``vectors``; nothing is
    unpickled. A model2vec folder contains ``tokenizer.json`` and ``model.safetensors``; its tokens
    that are whole words are used. The name of an installed package stands for the file of vectors
    in it: text, ``.npz``, or ``.npy`` with a Parquet file of its words.

    Args:
        path: The file, the folder, or the name of the package.
        vocabulary: Keep only the vectors that :meth:`WordVectors.align` looks up for these words,
            so that a large file needs little memory. The values of other words are counted but not
            parsed.
        frequent: With a vocabulary, also keep this many words at the beginning.

    Raises:
        DataError: If the file is missing or damaged, with the line.
    """
    path = Path(path)
    wanted = None
    if vocabulary is not None:
        wanted = {form for word in vocabulary.words[2:] for form in spellings(word)}
    if not path.exists() and (files := _package_files(str(path))) is not None:
        return _package(str(path), files, wanted, frequent)
    if path.is_dir():
        return _first_of_each(*_model2vec(path), wanted, frequent)
    if path.suffix.lower() == ".npz":
        return _first_of_each(*_npz(path), wanted, frequent)
    if path.suffix.lower() == ".bin":
        regular_file(path)
        fix = "Save the vectors as text (save_word2vec_format with binary=False) or as .npz."
        raise DataError("binary word2vec files are not supported", file=path, fix=fix)
    return _text(path, wanted, frequent)


def _package_files(name: str) -> list[Path] | None:
    """Return the files of an installed package; None if there is none of this name."""
    if re.fullmatch(r"[A-Za-z0-9]([A-Za-z0-9._-]*[A-Za-z0-9])?", name) is None:
        return None
    try:
        files = importlib.metadata.files(name) or []
    except importlib.metadata.PackageNotFoundError:
        return None
    return [Path(str(file.locate())) for file in files]


def _package(
    name: str, files: Sequence[Path], wanted: set[str] | None, frequent: int
) -> WordVectors:
    """Read the vectors that an installed package ships."""
    matrices, lists = ([f for f in files if f.suffix == end] for end in (".npy", ".parquet"))
    if len(matrices) == len(lists) == 1:
        words = [str(row[0]) for row in read_grid(lists[0], []).rows]
        try:
            matrix = np.load(matrices[0], mmap_mode="r", allow_pickle=False)
        except (OSError, ValueError) as error:
            problem = f"cannot be read as .npy: {reason(error)}"
            raise DataError(problem, file=matrices[0], fix="Install the package again.") from None
        return _first_of_each(*_checked(matrices[0], words, matrix), wanted, frequent)
    for file in files:
        if file.suffix == ".npz":
            return _first_of_each(*_npz(file), wanted, frequent)
        if re.search(r"(vec|glove|emb).*\.(txt|vec)(\.\w+)?$", file.name, re.IGNORECASE):
            return _text(file, wanted, frequent)
    fix = "Pass the path of a file of vectors."
    raise DataError(f"the installed package {name} has no word vectors", fix=fix)


def _model2vec(folder: Path) -> tuple[list[str], np.ndarray]:
    """Return the tokens of a model2vec folder that are whole words, and their vectors."""
    described, weights = (folder / name for name in MODEL2VEC)
    for file in (described, weights):
        if not file.is_file():
            fix = f"A model2vec folder has {' and '.join(MODEL2VEC)}."
            raise DataError(f"has no {file.name}", file=folder, fix=fix)
    from safetensors.numpy import load_file

    fix = "Save the model again with save_pretrained."
    try:
        listed = json.loads(described.read_text("utf-8"))["model"]["vocab"]
        if isinstance(listed, list):  # with their scores
            listed = {token: number for number, (token, _) in enumerate(listed)}
        numbers = {str(token): int(number) for token, number in listed.items()}
    except (ValueError, TypeError, KeyError, AttributeError, OSError) as error:
        raise DataError(f"has no vocabulary: {reason(error)}", file=described, fix=fix) from None
    try:
        tensors = load_file(weights)
    except Exception as error:  # safetensors raises its own type
        problem = f"cannot be read as safetensors: {reason(error)}"
        raise DataError(problem, file=weights, fix=fix) from None
    matrices = [x for name, x in tensors.items() if x.ndim == 2 and name != "mapping"]
    if len(matrices) != 1:
        problem = f"holds {', '.join(tensors) or 'nothing'} instead of embeddings"
        raise DataError(problem, file=weights, fix=fix)
    # a token that begins a word: "▁word" of SentencePiece, "Ġword" of byte pairs, no "##" before it
    mark = next((m for m in ("▁", "Ġ") if any(token.startswith(m) for token in numbers)), "")
    words = {token.removeprefix(mark): number for token, number in numbers.items()
             if token.startswith(mark) and not token.startswith("##")}  # fmt: skip
    rows = np.array(list(words.values()), np.int64)
    try:
        mapped = tensors["mapping"][rows].astype(np.int64) if "mapping" in tensors else rows
        matrix = matrices[0][mapped].astype(np.float32)
        if "weights" in tensors:
            matrix *= tensors["weights"].astype(np.float32)[rows, None]
    except IndexError:
        problem = f"has {len(matrices[0]):,} vectors for {max(rows) + 1:,} tokens"
        raise DataError(problem, file=weights, fix=fix) from None
    return _checked(weights, list(words), matrix)


def _text(path: Path, wanted: set[str] | None, frequent: int) -> WordVectors:
    lines = physical_lines(path)
    head = next(lines)
    announced = _announced(head)
    dimensions = announced[1] if announced else _dimensions(path, head)
    rows: dict[str, np.ndarray] = {}
    count = 0
    for count, line in enumerate(lines if announced else chain([head], lines), 1):
        number = count + (announced is not None)
        word, values = _fields(path, number, line.rstrip(" \t\r\n"), dimensions)
        if (wanted is None or count <= frequent or word in wanted) and word not in rows:
            rows[word] = _numbers(path, number, values)
    if announced and announced[0] != count:
        problem = f"the first line announces {announced[0]} words; the file has {count}"
        raise DataError(problem, file=path, fix="Download the file again; it may be incomplete.")
    if not count:
        problem = "holds no word vector"
        raise DataError(problem, file=path, fix="Write or download the file again.")
    matrix = np.stack(list(rows.values())) if rows else np.zeros((0, dimensions), np.float32)
    return WordVectors(tuple(rows), matrix)


def _announced(line: str) -> tuple[int, int] | None:
    """Return the numbers of words and dimensions in the first line of a word2vec text file."""
    fields = line.split()
    if re.fullmatch("(0|[1-9][0-9]{0,8}) [1-9][0-9]{0,8}", " ".join(fields)):
        return int(fields[0]), int(fields[1])
    return None


def _dimensions(path: Path, line: str) -> int:
    """Return the number of values at the end of a line, whose first field is the word."""
    fields = line.rstrip(" \t\r\n").replace("\t", " ").split(" ")
    dimensions = 0
    while dimensions < len(fields) - 1 and _is_number(fields[-1 - dimensions]):
        dimensions += 1
    if not dimensions:
        fix = "Each line is a word and its values, separated by spaces."
        raise DataError("no word vector", file=path, line=1, fix=fix)
    return dimensions


def _fields(path: Path, number: int, line: str, dimensions: int) -> tuple[str, list[str]]:
    word, *values = line.replace("\t", " ").rsplit(" ", dimensions)
    if len(values) < dimensions:
        problem = f"{len(values)} values instead of {dimensions}"
        fix = "Download the file again; it may be incomplete."
        raise DataError(problem, file=path, line=number, fix=fix)
    if not word:
        raise DataError("no word before the values", file=path, line=number, fix="Remove the line.")
    if " " in word and _is_number(word.rsplit(" ", 1)[1]):
        problem = f"more than {dimensions} values"
        fix = "Every line needs the same number of values."
        raise DataError(problem, file=path, line=number, fix=fix)
    return word, values


def _numbers(path: Path, number: int, values: list[str]) -> np.ndarray:
    together = "".join(values)
    try:
        row = np.array([float(value) for value in values])
    except ValueError:
        row = np.array([np.nan])
    # the checks of _is_number, for all values at once
    if np.abs(row).max() < _LARGEST and together.isascii() and "_" not in together:
        return row.astype(np.float32)
    bad = next(value for value in values if not _is_number(value))
    fix = "Download the file again, or remove the line."
    raise DataError(f"{bad[:40]!r} is not a finite number", file=path, line=number, fix=fix)


def _is_number(field: str) -> bool:
    """Return True if a field is a number that float32 can represent."""
    number = parse_number(field)
    return number is not None and abs(number) < _LARGEST


def _npz(path: Path) -> tuple[list[str], np.ndarray]:
    arrays, others = read_arrays(path, ("words", "vectors"))
    if len(arrays) < 2:
        fix = "Save it with numpy.savez(path, words=..., vectors=...)."
        names = ", ".join((*arrays, *others)) or "no arrays"
        raise DataError(f"holds {names} instead of words and vectors", file=path, fix=fix)
    words, vectors = arrays["words"], arrays["vectors"]
    if words.dtype.kind != "U" or vectors.dtype.kind not in "fiu":
        problem = f"words has dtype {words.dtype} and vectors {vectors.dtype}"
        raise DataError(problem, file=path, fix="Save text and numbers.")
    if words.ndim != 1:
        problem = f"words has shape {words.shape}"
        raise DataError(problem, file=path, fix="Save one row of vectors for each word.")
    return _checked(path, words.tolist(), vectors)


def _checked(path: Path, words: list[str], vectors: np.ndarray) -> tuple[list[str], np.ndarray]:
    """Return words and vectors in float32 if there is a finite one of each word."""
    if vectors.ndim != 2 or len(words) != len(vectors) or not vectors.size:
        problem = f"words has shape ({len(words)},) and vectors {vectors.shape}"
        raise DataError(problem, file=path, fix="Save one row of vectors for each word.")
    with np.errstate(over="ignore"):  # too large numbers become infinite, which is an error
        matrix = vectors.astype(np.float32)
    bad = ~np.isfinite(matrix).all(axis=1)
    if bad.any():
        row = int(bad.argmax())
        problem = f"the vector of {words[row]!r} (row {row + 1}) is not finite"
        raise DataError(problem, file=path, fix="Remove the row.")
    return words, matrix


def _first_of_each(
    words: list[str], matrix: np.ndarray, wanted: set[str] | None, frequent: int
) -> WordVectors:
    first: dict[str, int] = {}
    for row, word in enumerate(words):
        if wanted is None or row < frequent or word in wanted:
            first.setdefault(word, row)
    rows = np.array(list(first.values()), dtype=np.int64)
    return WordVectors(tuple(first), matrix[rows])


# Word vectors from the texts themselves: a factorization of how often words stand together.

WINDOW = 5  # words to the left and to the right
SMOOTHING = 0.75  # exponent of the context counts, which are too small for rare words
_TINY = 1e-6  # instead of the length of a row of zeros
_ITERATIONS: Any = 3  # annotated as text, after the default


def cooccurrence_vectors(
    documents: Sequence[Sequence[int]], size: int, dimensions: int, seed: int
) -> NDArray[np.float32]:
    """Return a vector of each word: the factors of positive pointwise mutual information.

    Words at a distance of k up to 5 count 1/k. With the smoothed shares of contexts, row i of
    ``U √S`` is the vector of word i, scaled to a mean square of 1, where ``U S Vᵀ`` is the
    truncated singular value decomposition of ``max(log p(i, j) / (p(i) p(j)), 0)``. Where there
    are fewer words than dimensions, the last columns are 0, and so is the row of a word without
    positive information.

    Args:
        documents: The ids of each document's words, from 0 to ``size - 1``.
        size: V, the number of words.
        dimensions: D, the length of a vector.
        seed: Random seed of the decomposition.

    Returns:
        The matrix ``(V, D)``; all 0 if no two words stand together.

    References:
        Levy, Goldberg and Dagan, Improving Distributional Similarity with Lessons Learned from
        Word Embeddings, TACL 2015.
    """
    information = _positive_information(_counts(documents, size))
    vectors = np.zeros((size, dimensions), np.float32)
    rank = min(dimensions, size - 1)
    if rank < 1 or not information.nnz:
        return vectors
    from sklearn.utils.extmath import randomized_svd  # a second, which only training waits for

    u, s, _ = randomized_svd(information, rank, n_iter=_ITERATIONS, random_state=seed)
    is_known = np.diff(information.indptr) > 0
    vectors[is_known, :rank] = (u * np.sqrt(s))[is_known]
    return vectors / np.sqrt(np.mean(vectors**2, axis=1, keepdims=True)).clip(_TINY)


def _counts(documents: Sequence[Sequence[int]], size: int) -> sp.csr_array:
    """Return the symmetric weighted counts of two words in one window ``(V, V)``."""
    lengths = [len(document) for document in documents]
    words = np.fromiter(
        (word for document in documents for word in document), np.int64, sum(lengths)
    )
    owner = np.repeat(np.arange(len(lengths)), lengths)
    counts = sp.csr_array((size, size))
    for distance in range(1, WINDOW + 1):
        is_same = owner[:-distance] == owner[distance:]
        ends = words[:-distance][is_same], words[distance:][is_same]
        counts = counts + sp.coo_array((np.full(len(ends[0]), 1 / distance), ends), (size, size))
    return sp.csr_array(counts + counts.T)


def _positive_information(counts: sp.csr_array) -> sp.csr_array:
    """Return the entries of positive pointwise mutual information of counts ``(V, V)``."""
    pairs = counts.tocoo()
    words = counts.sum(1)
    contexts = words**SMOOTHING
    shares = pairs.data * contexts.sum() / (words[pairs.row] * contexts[pairs.col])
    values = np.maximum(np.log(shares), 0).astype(np.float32)
    result = sp.csr_array((values, (pairs.row, pairs.col)), counts.shape)
    result.eliminate_zeros()
    return result
