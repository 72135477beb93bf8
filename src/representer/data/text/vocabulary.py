"""The vocabulary of documents."""

from __future__ import annotations

from typing import ClassVar

from representer.data.numbering import Numbering


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
