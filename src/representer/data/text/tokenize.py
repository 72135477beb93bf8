"""Tokenization of a document into words, numbers and punctuation marks."""

from __future__ import annotations

import re
import unicodedata
from functools import cache
from typing import Literal, get_args

from representer.errors import ArgumentError

Scheme = Literal["words", "blanks", "leam"]
_MOST_MARKS, GRAPHEME_JOINER = 30, "\u034f"


def tokenize(text: str, scheme: Scheme = "words") -> list[str]:
    """Return the tokens of a document.

    ``words`` is for any language. It converts to lower case and splits into words, numbers and
    single punctuation marks; runs of periods or hyphens stay together; English clitics are separate
    tokens as in the vocabulary of GloVe (``don't`` becomes ``do n't``, ``cat's`` becomes
    ``cat 's``). In scripts without spaces between words (Chinese, Japanese, Thai, Lao, Khmer,
    Burmese) every character is a token, and n-grams of tokens stand for words.

    ``blanks`` splits at whitespace, for text that is already tokenized, such as Chinese text after
    word segmentation.

    ``leam`` reproduces the preprocessing in the experiments of Liang et al. (2019), including its
    peculiarities: everything but ASCII letters, digits and ``( ) , . ! ?`` becomes a space, the
    letters ``br`` are deleted everywhere (intended for the HTML tag, this also changes
    ``library``), and every token that Python parses as a float becomes ``0``, including ``nan`` and
    ``infinity``.

    Args:
        text: The document.
        scheme: ``words``, ``blanks`` or ``leam``.

    Returns:
        The tokens, possibly none.

    Raises:
        ArgumentError: If the scheme is unknown.

    Examples:
        >>> tokenize("The cat's 3.5 kg -- isn't it?")
        ['the', 'cat', "'s", '3.5', 'kg', '--', 'is', "n't", 'it', '?']
        >>> tokenize("A library, 7.50 dollars!", scheme="leam")
        ['a', 'liary', ',', '0', '.', '0', 'dollars', '!']
    """
    if scheme == "words":
        composed = unicodedata.normalize("NFC", _stream_safe(text.replace("\u2019", "'")))
        return WORDS.findall(composed.lower())
    if scheme == "blanks":
        return text.split()
    if scheme == "leam":
        return _leam(text)
    raise ArgumentError("scheme", scheme, f"one of {', '.join(get_args(Scheme))}")


def _marks(last: int) -> str:
    r"""Return the ranges of the combining marks, which belong to words but not to ``\w``."""
    codes = [i for i in range(0x300, last + 1) if unicodedata.category(chr(i))[0] == "M"]
    ranges: list[list[int]] = []
    for code in codes:
        if ranges and ranges[-1][1] == code - 1:
            ranges[-1][1] = code
        else:
            ranges.append([code, code])
    return "".join(f"\\U{a:08x}-\\U{b:08x}" for a, b in ranges)


@cache
def long_run() -> re.Pattern[str]:
    """Return the pattern of 30 combining marks before another one."""
    marks = _marks(0x1FFFF)
    return re.compile(f"[{marks}]{{{_MOST_MARKS}}}(?=[{marks}])")


def _stream_safe(text: str) -> str:
    """Insert a joiner after every 30 consecutive combining marks, as in Unicode's UAX 15.

    Normalization sorts the marks of a run in quadratic time. No word of any language has so many
    marks, so ordinary text is not changed.
    """
    if text.isascii():
        return text
    return long_run().sub(lambda run: run[0] + GRAPHEME_JOINER, text)


_UNSPACED = (  # scripts without spaces between words
    "\u0e01-\u0e3a\u0e40-\u0e4e\u0e81-\u0ece\u0edc-\u0edf"  # Thai, Lao
    "\u1000-\u103f\u1050-\u108f\u1780-\u17d3\u17dc\u17dd"  # Burmese, Khmer
    "\u3005-\u3007\u3041-\u309f\u30a1-\u30fa\u30fc-\u30ff\u31f0-\u31ff\uff66-\uff9f"  # Japanese
    "\u3400-\u4dbf\u4e00-\u9fff\uf900-\ufaff\U00020000-\U0003347f"  # Chinese
)
_MARKS = rf"{_marks(0xFFFF)}\u200c\u200d"  # with the joiners of Persian and Hindi
_LETTER = rf"(?:[^\W\d_{_UNSPACED}]|[{_MARKS}])"
_CLITIC = r"(?:s|re|ve|ll|d|m)\b"
# possessive (++, *+), so that a word of millions of letters takes no memory for backtracking
WORDS = re.compile(
    rf"""
    (?:(?!n't\b){_LETTER})++(?=n't\b)                       # do|n't
    | n't\b
    | '{_CLITIC}
    | \d+(?:[.,]\d+)*+                                     # 3.14 and 1,000
    | [{_UNSPACED}][{_MARKS}]*
    | {_LETTER}(?:{_LETTER}|\d)*+(?:'(?!{_CLITIC}){_LETTER}++)*+  # b2b and o'clock
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
