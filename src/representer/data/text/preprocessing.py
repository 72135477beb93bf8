"""Preprocessing of documents: tokenization and limits on their length."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from representer.data.text.tokenize import Scheme, tokenize
from representer.errors import ArgumentError


@dataclass(frozen=True)
class Tokens:
    """Tokenized documents.

    Args:
        documents: The tokens of each document that was kept.
        kept: The position of each kept document in the input.
        truncated: Number of truncated documents.
        too_short: Positions of the dropped documents.
    """

    documents: list[list[str]]
    kept: list[int]
    truncated: int
    too_short: list[int]


@dataclass(frozen=True)
class Preprocessing:
    """Options of tokenization.

    Args:
        scheme: See :func:`tokenize`.
        max_tokens: Longer documents are truncated at the end; None keeps all tokens.
        min_tokens: Shorter documents are dropped.
    """

    scheme: Scheme = "words"
    max_tokens: int | None = None
    min_tokens: int = 1

    def __post_init__(self) -> None:
        """Check that the limits are consistent."""
        if self.min_tokens < 0:
            raise ArgumentError("min_tokens", self.min_tokens, "0 or more")
        if self.max_tokens is not None and self.max_tokens < max(1, self.min_tokens):
            expected = "at least 1 and at least min_tokens, or None"
            raise ArgumentError("max_tokens", self.max_tokens, expected)

    def apply(self, texts: Sequence[str]) -> Tokens:
        """Tokenize documents, truncate the long ones and drop the short ones."""
        documents: list[list[str]] = []
        kept: list[int] = []
        too_short: list[int] = []
        truncated = 0
        for position, text in enumerate(texts):
            tokens = tokenize(text, self.scheme)
            if len(tokens) < self.min_tokens:
                too_short.append(position)
                continue
            truncated += self.max_tokens is not None and len(tokens) > self.max_tokens
            documents.append(tokens[: self.max_tokens])
            kept.append(position)
        return Tokens(documents, kept, truncated, too_short)


PRESETS = {
    "paper": Preprocessing(),
    "authors_code": Preprocessing("leam", max_tokens=300, min_tokens=6),
}
"""``authors_code`` follows the published script, which also drops short documents of the test set,
so its accuracies are not on the complete official test sets. Unlike the script, it does not append
an end token to documents."""
