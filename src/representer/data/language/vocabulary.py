"""The vocabulary of a running text."""

from __future__ import annotations

from typing import ClassVar

from representer.data.numbering import Numbering


class LanguageVocabulary(Numbering):
    """Tokens in a fixed order, the most frequent first; 0 ends a line and 1 is any other token.

    Args:
        words: All tokens. The first two are the marks ``<eos>`` and ``<unk>``. If they occur in a
            text, both are encoded as unknown; only line ends are encoded as ``<eos>``.

    Raises:
        ArgumentError: If the marks do not come first or a token is a duplicate.
    """

    END: ClassVar[int] = 0
    MARKS: ClassVar[tuple[str, str]] = ("<eos>", "<unk>")
