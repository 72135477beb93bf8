"""The vocabulary of documents."""

from __future__ import annotations

from typing import ClassVar

from representer.data.numbering import Numbering


class Vocabulary(Numbering):
    """Words in a fixed order, each with its number; 0 is padding and 1 any other word.

    Args:
        words: All words. The first two are the marks ``<pad>`` and ``<unk>``. If they occur
            as words of a document, both are encoded as unknown.

    Raises:
        ArgumentError: If the marks do not come first or a word is a duplicate.
    """

    PAD: ClassVar[int] = 0
    MARKS: ClassVar[tuple[str, str]] = ("<pad>", "<unk>")
