"""Running text: tokens, vocabulary, training, validation and test parts, streams, segments."""

from __future__ import annotations

import platform
import random
import re
from array import array
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from representer.data.splits import FEW_DIFFER, digest_of
from representer.data.tables.files import format_of
from representer.data.tables.reading import physical_lines
from representer.data.text.words import LanguageVocabulary
from representer.errors import ArgumentError, DataError, say

# Tokens of the lines of a text: words or characters, and an end-of-line token.

Level = Literal["word", "char"]
LEVELS: tuple[Level, ...] = ("word", "char")


def tokens_of_line(line: str, level: Level) -> list[str]:
    """Return the tokens of a line, without the end-of-line token.

    Words are separated by whitespace; characters are all except the line end.
    """
    if level not in LEVELS:
        raise ArgumentError("level", level, "'word' or 'char'")
    return line.split() if level == "word" else list(line.rstrip("\r\n"))


def text_lines(path: str | Path, encoding: str = "utf-8") -> Iterator[str]:
    """Yield the lines of a text file; see ``data.tables.source.physical_lines``.

    Raises:
        DataError: If the file is missing, empty, damaged, binary or in another encoding.
    """
    return physical_lines(Path(path), encoding)


def digests_of(lines: Iterable[str]) -> NDArray[np.int64]:
    """Return numbers by which lines are equal, of those that are not empty ``(N,)``."""
    return np.fromiter((digest_of(line) for line in lines if line.strip()), np.int64)


def count_tokens(lines: Iterable[str], level: Level) -> Counter[str]:
    """Count the occurrences of each token, without line ends."""
    counts: Counter[str] = Counter()
    for line in lines:
        counts.update(tokens_of_line(line, level))
    return counts


def encode_lines(lines: Iterable[str], vocabulary: LanguageVocabulary, level: Level) -> Tensor:
    """Return the ids of all tokens ``(N,)``, int64, with an end-of-line token after each line."""
    numbers = array("q")
    for line in lines:
        numbers.extend(vocabulary.encode(tokens_of_line(line, level)))
        numbers.append(vocabulary.END)
    return torch.from_numpy(np.array(numbers, dtype=np.int64))


# The training, validation and test lines of a running text.

PARTS = ("train", "valid", "test")
_NAMES = {"train": ("train",), "valid": ("valid", "val", "dev"), "test": ("test",)}


def find_parts(folder: Path) -> dict[str, Path]:
    """Return the file of each part in a folder, recognized by its name.

    Args:
        folder: A folder with files such as ``ptb.train.txt``, ``valid.txt.xz`` and ``test.txt``.

    Raises:
        DataError: If a part has no file, or several.
    """
    paths: dict[str, Path] = {}
    files = sorted(
        path for path in folder.iterdir() if path.is_file() and format_of(path) == "lines"
    )
    for split in PARTS:
        matching = [path for path in files if _names_part(path, split)]
        if len(matching) != 1:
            what = ", ".join(path.name for path in matching) or "none"
            fix = "Name the files: representer fit language TRAIN --valid FILE --test FILE"
            raise DataError(
                f"expected one file of the {split} part; found {what}", file=folder, fix=fix
            )
        paths[split] = matching[0]
    return paths


def _names_part(path: Path, split: str) -> bool:
    words = path.name.lower().replace("_", ".").replace("-", ".").split(".")
    return any(name in words for name in _NAMES[split])


def cut(lines: Sequence[str], fractions: Sequence[float]) -> list[list[int]]:
    """Return the positions of the lines of each part of a text: the first lines, and so on.

    A line goes with the first one that equals it, so that no part has lines of another one, unless
    so few differ that a part would be empty, with a notice.

    Args:
        lines: The lines of the text.
        fractions: Of the lines in each part; every part but the first has at least one line.

    Raises:
        DataError: If there are too few lines.
    """
    count, most = len(lines), len(fractions) - 1
    held = [max(1, round(share * count)) for share in fractions[1:]]
    if count <= sum(held):
        fix = "Pass a longer text, or --valid FILE and --test FILE."
        raise DataError(f"{count} lines cannot be split into {most + 1} parts", fix=fix)
    groups = _groups(lines)
    if groups.max() < most:
        say(FEW_DIFFER)
        groups = np.arange(count)
    sizes = np.bincount(groups)
    ends = np.cumsum([count - sum(held), *held])[:-1]
    # The first group of each part: that which starts at its place, but no part is empty.
    cuts = np.searchsorted(np.cumsum(sizes) - sizes, ends) - np.arange(most)
    cuts = np.maximum.accumulate(np.clip(cuts, 1, len(sizes) - most)) + np.arange(most)
    number = np.searchsorted(cuts, groups, side="right")
    return [np.flatnonzero(number == k).tolist() for k in range(most + 1)]


def _groups(lines: Sequence[str]) -> NDArray[np.intp]:
    """Return the number of the group of each line: equal ones, and the blank lines after them."""
    rows = np.flatnonzero([bool(line.strip()) for line in lines])
    distinct, first, inverse = np.unique(digests_of(lines), return_index=True, return_inverse=True)
    if len(distinct) == len(rows):
        return np.arange(len(lines))
    before = np.searchsorted(rows, np.arange(len(lines)), side="right") - 1
    return np.argsort(np.argsort(first))[inverse][np.maximum(before, 0)]


# A text as parallel streams, and the segments of backpropagation through time.


def fold(tokens: Tensor, rows: int) -> tuple[Tensor, Tensor]:
    """Cut a text into parallel streams.

    Args:
        tokens: ``(N,)``.
        rows: B, the number of streams. Each has ⌊(N − 1) / B⌋ tokens; the rest is not used.

    Returns:
        Inputs and targets, ``(T, B)`` each; the targets are one token ahead.

    Raises:
        ArgumentError: If ``rows`` is not positive.
        DataError: If the text is too short.
    """
    if rows < 1:
        raise ArgumentError("batch_size", rows, "1 or more")
    steps = (len(tokens) - 1) // rows
    if steps < 1:
        fix = "Pass a longer text, or a smaller --batch-size."
        raise DataError(f"{len(tokens)} tokens are too few for {rows} streams", fix=fix)
    used = steps * rows
    return tokens[:used].view(rows, steps).T, tokens[1 : used + 1].view(rows, steps).T


def fixed_segments(steps: int, length: int) -> list[tuple[int, int]]:
    """Return (start, length) of segments of equal length; the last may be shorter.

    Raises:
        ArgumentError: If the length is not positive.
    """
    if length < 1:
        raise ArgumentError("unroll", length, "1 or more")
    return [(start, min(length, steps - start)) for start in range(0, steps, length)]


def variable_segments(steps: int, length: int, seed: int, epoch: int) -> list[tuple[int, int]]:
    """Return (start, length) of segments of random lengths, so that their borders vary.

    The mean is ``length`` with probability 0.95 and half of it otherwise; a segment's length is
    normal with standard deviation 5 and at least 5, except for the last segment. The result depends
    only on the arguments.

    Args:
        steps: T, the length of a stream.
        length: The usual length.
        seed: The seed of the run.
        epoch: The number of the epoch; each epoch has different segments.

    References:
        Merity et al., Regularizing and Optimizing LSTM Language Models, ICLR 2018, section 5.
    """
    if length < 1:
        raise ArgumentError("unroll", length, "1 or more")
    return list(_variable(steps, length, random.Random(f"{seed}/{epoch}")))


def _variable(steps: int, length: int, rng: random.Random) -> Iterator[tuple[int, int]]:
    start = 0
    while start < steps:
        base = length if rng.random() < 0.95 else length / 2
        chosen = min(max(5, int(rng.gauss(base, 5))), steps - start)
        yield start, chosen
        start += chosen


# The help topics of Python, a running text that is part of every installation.


def topics() -> tuple[list[str], str]:
    """Return the paragraphs of the help topics, one per line, and a description of the text.

    Lines are lower case, with spaces between words and punctuation marks. The paragraphs of all
    topics alternate, in the order of the topics' names, so that every part of the text covers all
    topics. Duplicate paragraphs are dropped, since they would leak training text to the test part.
    For a given version of Python, the result is always the same.

    Raises:
        DataError: If this Python was installed without its help topics.
    """
    try:
        from pydoc_data.topics import topics as texts
    except ImportError:
        fix = "Use a Python that was installed with its documentation, or a text file."
        raise DataError("this Python has no help topics", fix=fix) from None
    paragraphs = [_paragraphs(texts[name]) for name in sorted(texts)]
    longest = max(map(len, paragraphs))
    lines = [x[i] for i in range(longest) for x in paragraphs if i < len(x)]
    return list(dict.fromkeys(lines)), f"help topics of Python {platform.python_version()}"


def _paragraphs(text: str) -> list[str]:
    paragraphs = (re.findall(r"\w+|[^\w\s]", t.lower()) for t in re.split(r"\n\s*\n", text))
    return [" ".join(words) for words in paragraphs if len(words) > 3]


__all__ = [
    "LEVELS",
    "PARTS",
    "LanguageVocabulary",
    "Level",
    "count_tokens",
    "cut",
    "encode_lines",
    "find_parts",
    "fixed_segments",
    "fold",
    "text_lines",
    "tokens_of_line",
    "topics",
    "variable_segments",
]
