"""Reading of word vectors: GloVe and word2vec text, and ``.npz`` with ``words`` and ``vectors``."""

from __future__ import annotations

import re
from itertools import chain
from os import PathLike
from pathlib import Path

import numpy as np

from representer.data.array_files import read_arrays
from representer.data.tables.source import physical_lines, regular_file
from representer.data.text.vectors import WordVectors, spellings
from representer.data.text.vocabulary import Vocabulary
from representer.errors import DataError
from representer.numbers import parse_number

_LARGEST = float(np.finfo(np.float32).max)


def read_vectors(path: str | PathLike[str], vocabulary: Vocabulary | None = None) -> WordVectors:
    """Read word vectors from a file.

    A text file has one word and its values per line (GloVe), optionally after a first line with the
    numbers of words and dimensions (word2vec); it may be compressed (``.gz``, ``.bz2``, ``.xz``). A
    GloVe token may contain spaces: the last D fields are the vector. The first vector of each word
    is used. An ``.npz`` file contains ``words`` (text) and ``vectors``; nothing is unpickled.

    Args:
        path: The file.
        vocabulary: Keep only the vectors that :meth:`WordVectors.align` looks up for these words,
            so that a large file needs little memory. The values of other words are counted but not
            parsed.

    Raises:
        DataError: If the file is missing or damaged, with the line.
    """
    path = Path(path)
    wanted = None
    if vocabulary is not None:
        wanted = {form for word in vocabulary.words[2:] for form in spellings(word)}
    if path.suffix.lower() == ".npz":
        words, matrix = _npz(path)
        return _first_of_each(words, matrix, wanted)
    if path.suffix.lower() == ".bin":
        regular_file(path)
        fix = "Save the vectors as text (save_word2vec_format with binary=False) or as .npz."
        raise DataError("binary word2vec files are not supported", file=path, fix=fix)
    return _text(path, wanted)


def _text(path: Path, wanted: set[str] | None) -> WordVectors:
    lines = physical_lines(path)
    head = next(lines)
    announced = _announced(head)
    dimensions = announced[1] if announced else _dimensions(path, head)
    rows: dict[str, np.ndarray] = {}
    count = 0
    for count, line in enumerate(lines if announced else chain([head], lines), 1):
        number = count + (announced is not None)
        word, values = _fields(path, number, line.rstrip(" \t\r\n"), dimensions)
        if (wanted is None or word in wanted) and word not in rows:
            rows[word] = _numbers(path, number, values)
    if announced and announced[0] != count:
        problem = f"the first line announces {announced[0]} words; the file has {count}"
        raise DataError(problem, file=path, fix="Download the file again; it may be incomplete.")
    matrix = np.stack(list(rows.values())) if rows else np.zeros((0, dimensions), np.float32)
    return WordVectors(tuple(rows), matrix)


def _announced(line: str) -> tuple[int, int] | None:
    """Return the numbers of words and dimensions in the first line of a word2vec text file."""
    fields = line.split()
    if len(fields) == 2 and all(re.fullmatch("[1-9][0-9]{0,8}", field) for field in fields):
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
    if words.ndim != 1 or vectors.ndim != 2 or len(words) != len(vectors):
        problem = f"words has shape {words.shape} and vectors {vectors.shape}"
        raise DataError(problem, file=path, fix="Save one row of vectors for each word.")
    with np.errstate(over="ignore"):  # too large numbers become infinite, which is an error
        matrix = vectors.astype(np.float32)
    bad = ~np.isfinite(matrix).all(axis=1)
    if bad.any():
        problem = f"the vector of {str(words[bad][0])!r} (row {bad.argmax() + 1}) is not finite"
        raise DataError(problem, file=path, fix="Remove the row.")
    return words.tolist(), matrix


def _first_of_each(words: list[str], matrix: np.ndarray, wanted: set[str] | None) -> WordVectors:
    first: dict[str, int] = {}
    for row, word in enumerate(words):
        if wanted is None or word in wanted:
            first.setdefault(word, row)
    rows = np.array(list(first.values()), dtype=np.int64)
    return WordVectors(tuple(first), matrix[rows])
