"""The vocabulary of a running text."""

from __future__ import annotations

from typing import ClassVar

from representer.data.numbering import Numbering


class LanguageVocabulary(Numbering):
    """Tokens by descending frequency; 0 is the end of a line and 1 the unknown token.

    Args:
        words: All tokens, starting with the special tokens ``<eos>`` and ``<unk>``. If these occur
            in a text, both are encoded as unknown; only line ends are encoded as ``<eos>``.

    Raises:
        ArgumentError: If the special tokens do not come first or a token is a duplicate.
    """

    END: ClassVar[int] = 0
    MARKS: ClassVar[tuple[str, str]] = ("<eos>", "<unk>")
