"""Cutting a document into words, numbers and punctuation marks."""

from __future__ import annotations

import re
import unicodedata
from typing import Literal, get_args

from representer.errors import ArgumentError

Scheme = Literal["words", "blanks", "leam"]


def tokenize(text: str, scheme: Scheme = "words") -> list[str]:
    """Return the tokens of a document.

    ``words`` is for any language that puts blanks between words: lower case; words, numbers and
    single punctuation marks; runs of full stops or hyphens stay together; English clitics stand
    alone as in the vocabulary of GloVe (``don't`` becomes ``do n't``, ``cat's`` ``cat 's``).

    ``blanks`` is for a text that is tokenized already, its tokens with blanks between.

    ``leam`` repeats the cleaning that the experiments of Liang et al. (2019) used in practice,
    with its peculiarities: everything but ASCII letters, digits and ``( ) , . ! ?`` becomes a
    blank, the letters ``br`` are deleted wherever they stand (meant for the HTML tag, it also
    mangles ``library``), and every token that Python reads as a float becomes ``0``, which holds
    for ``nan`` and ``infinity`` too.

    Args:
        text: The document.
        scheme: ``words``, ``blanks`` or ``leam``.

    Returns:
        The tokens; none of a document without any.

    Raises:
        ArgumentError: If there is no such scheme.

    Examples:
        >>> tokenize("The cat's 3.5 kg -- isn't it?")
        ['the', 'cat', "'s", '3.5', 'kg', '--', 'is', "n't", 'it', '?']
        >>> tokenize("A library, 7.50 dollars!", scheme="leam")
        ['a', 'liary', ',', '0', '.', '0', 'dollars', '!']
    """
    if scheme == "words":
        composed = unicodedata.normalize("NFC", text.replace("\u2019", "'"))
        return _WORDS.findall(composed.lower())
    if scheme == "blanks":
        return text.split()
    if scheme == "leam":
        return _leam(text)
    raise ArgumentError("scheme", scheme, f"one of {', '.join(get_args(Scheme))}")


def _marks() -> str:
    r"""Return the ranges of the combining marks, which belong to words but not to ``\w``."""
    codes = [i for i in range(0x300, 0x10000) if unicodedata.category(chr(i))[0] == "M"]
    ranges: list[list[int]] = []
    for code in codes:
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    return "".join(f"\\u{a:04x}-\\u{b:04x}" for a, b in ranges)


_LETTER = rf"(?:[^\W\d_]|[{_marks()}\u200c\u200d])"  # with the joiners of Persian and Hindi
_CLITIC = r"(?:s|re|ve|ll|d|m)\b"
_WORDS = re.compile(
    rf"""
    {_LETTER}+(?=n't\b)                                    # do|n't
    | n't\b
    | '{_CLITIC}
    | \d+(?:[.,]\d+)*                                      # 3.14 and 1,000
    | {_LETTER}(?:{_LETTER}|\d)*(?:'(?!{_CLITIC}){_LETTER}+)*  # b2b and o'clock
    | \.{{2,}} | -{{2,}}
    | \S
    """,
    re.VERBOSE,
)


def _leam(text: str) -> list[str]:
    text = re.sub(r"[^A-Za-z0-9(),.!?]", " ", text)
    for abbreviation in ("e.g.,", "a.k.a.", "i.e.,", "i.e."):
        text = text.replace(abbreviation, " ")
    text = text.replace("br", "")
    text = re.sub(r"([,!()?.])", r" \1 ", text)
    return ["0" if _is_float(token) else token for token in text.lower().split()]


def _is_float(token: str) -> bool:
    try:
        float(token)
    except ValueError:
        return False
    return True
