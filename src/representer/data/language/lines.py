"""Tokens of the lines of a text: words or characters, and an end-of-line token."""

from __future__ import annotations

from array import array
from collections import Counter
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Literal

import numpy as np
import torch
from torch import Tensor

from representer.data.language.vocabulary import LanguageVocabulary
from representer.data.tables.source import physical_lines
from representer.errors import ArgumentError

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


def count_tokens(lines: Iterable[str], level: Level) -> Counter[str]:
    """Count the occurrences of each token, without line ends."""
    counts: Counter[str] = Counter()
    for line in lines:
        counts.update(tokens_of_line(line, level))
    return counts


def encode_lines(lines: Iterable[str], vocabulary: LanguageVocabulary, level: Level) -> Tensor:
    """Return the ids of all tokens ``(N,)``, int64, with an end-of-line token after each line.

    Args:
        lines: The lines of a text.
        vocabulary: The vocabulary.
        level: Words or characters.
    """
    numbers = array("q")
    for line in lines:
        numbers.extend(vocabulary.encode(tokens_of_line(line, level)))
        numbers.append(vocabulary.END)
    return torch.from_numpy(np.array(numbers, dtype=np.int64))
