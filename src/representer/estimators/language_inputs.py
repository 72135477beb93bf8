"""The tokens of a language model: reading, numbering and writing running text."""

from __future__ import annotations

import io
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from torch import Tensor

from representer.data.language import (
    LanguageVocabulary,
    Level,
    encode_lines,
    text_lines,
    tokens_of_line,
)
from representer.errors import DataError
from representer.estimators.containers import as_sequence, column_of, strings_of


@dataclass(frozen=True)
class LanguageInputs:
    """Running text as the numbers of its tokens.

    Args:
        vocabulary: Tokens of the training text.
        level: Words or characters.
    """

    vocabulary: LanguageVocabulary
    level: Level

    @classmethod
    def from_counts(
        cls, counts: Counter[str], level: Level, min_count: int, max_vocabulary: int
    ) -> LanguageInputs:
        """Return the inputs for a training text with these tokens, see `count_tokens`.

        Raises:
            DataError: No token is frequent enough.
        """
        vocabulary = LanguageVocabulary.from_counts(counts, min_count, max_vocabulary or None)
        if len(vocabulary) == len(vocabulary.MARKS):
            raise DataError(f"no token occurs {min_count} times", fix="Lower min_count.")
        return cls(vocabulary, level)

    def encode(self, lines: Iterable[str]) -> Tensor:
        """Return the numbers of all tokens ``(N,)``, with an end-of-line token after each line."""
        return encode_lines(lines, self.vocabulary, self.level)

    def encode_prompt(self, prompt: str) -> list[int]:
        """Return the numbers of a prompt after an end-of-line token, as lines begin in training.

        The last line stays open.
        """
        numbers = [self.vocabulary.END]
        for number, line in enumerate(prompt.split("\n")):
            numbers += [self.vocabulary.END] if number else []
            numbers += self.vocabulary.encode(tokens_of_line(line, self.level))
        return numbers

    def unknown(self, prompt: str) -> list[str]:
        """Return the distinct tokens of a prompt that are unknown."""
        words = [w for line in prompt.split("\n") for w in tokens_of_line(line, self.level)]
        return [word for word in dict.fromkeys(words) if word not in self.vocabulary]

    def pieces(self, numbers: Iterable[int], *, starts_line: bool) -> Iterator[str]:
        """Yield tokens as text, each with the blank or line end that precedes it."""
        blank = " " if self.level == "word" else ""
        for number in numbers:
            if number == self.vocabulary.END:
                yield "\n"
            else:
                yield ("" if starts_line else blank) + self.vocabulary.words[number]
            starts_line = number == self.vocabulary.END


def lines_of(text: Any, encoding: str) -> list[str]:
    """Return the lines of a text.

    Raises:
        DataError: A line is no string, or the file cannot be used.
    """
    if isinstance(text, Path):
        return list(text_lines(text, encoding))
    if isinstance(text, str):
        return _physical(text)
    text = column_of(text)
    if not isinstance(text, Iterable):
        problem = f"the text is a {type(text).__name__}; expected a string, a Path or lines"
        raise DataError(problem)
    lines: list[str] = []
    for row, line in enumerate(as_sequence(text, "X")):
        if not isinstance(line, str):
            problem = f"text[{row}] is {line!r:.40} of type {type(line).__name__}; expected a line"
            raise DataError(problem)
        lines += _physical(line) or [""]
    return lines


def _physical(text: str) -> list[str]:
    return list(io.StringIO(text, newline=None))


def hold_out(lines: list[str], fraction: float, level: Level) -> tuple[list[str], list[str]]:
    """Return the lines to train on and the last ones, to validate on; of one line, its tokens."""
    if len(lines) > 1:
        first = len(lines) - max(1, round(fraction * len(lines)))
        return lines[:first], lines[first:]
    tokens = tokens_of_line("".join(lines), level)
    first = len(tokens) - max(1, round(fraction * len(tokens)))
    blank = " " if level == "word" else ""
    return [blank.join(tokens[:first])], [blank.join(tokens[first:])]


def checked_prompts(X: Any) -> list[str]:
    """Return beginnings of texts, at least one.

    Raises:
        DataError: One is no string, or there are none.
    """
    prompts = strings_of(X, "texts", "a string")
    if not prompts:
        raise DataError("X has 0 sample(s); at least one text is required")
    return prompts
