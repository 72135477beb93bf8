"""The words or characters of a running text and their numbers."""

from __future__ import annotations

from typing import ClassVar

from representer.data.text.numbering import Numbering


class LanguageVocabulary(Numbering):
    """Tokens in a fixed order, the most frequent first; 0 ends a line and 1 is any other token.

    Args:
        words: All tokens. The first two are the marks ``<eos>`` and ``<unk>``. Where these occur in
            a text, both are encoded as unknown; that ``<eos>`` ends a line is no business of words.

    Raises:
        ArgumentError: If the marks are not in front or a token comes twice.
    """

    END: ClassVar[int] = 0
    MARKS: ClassVar[tuple[str, str]] = ("<eos>", "<unk>")
