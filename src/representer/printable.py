"""Text from users on its way to a terminal: nothing in it may control the terminal."""

from __future__ import annotations

import contextlib
import re
import sys
from typing import TextIO

# C0 and C1 controls, line and paragraph separators, overrides of the writing direction, and lone
# surrogates, which stand for the bytes of a name that is not UTF-8
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_LINE_END = re.compile(r"\s*[\r\n]+\s*")


def printable(text: str, *, keep: str = "") -> str:
    r"""Return a text with its control characters escaped; letters of all scripts stay.

    Args:
        text: The text, such as the name of a file or a class.
        keep: Control characters that stay, such as ``"\n"``.

    Examples:
        >>> printable("größer\x1b[2J")
        'größer\\x1b[2J'
    """
    return _CONTROLS.sub(lambda match: match[0] if match[0] in keep else _escaped(match[0]), text)


def one_line(text: str) -> str:
    """Return a text on one line: line ends become blanks, other control characters are escaped."""
    return printable(_LINE_END.sub(" ", text.strip()))


def reason(error: Exception, most: int = 200) -> str:
    """Return the message of a foreign error on one line, cut where it quotes half a file."""
    line = one_line(str(error)).rstrip(".") or type(error).__name__
    return line if len(line) <= most else f"{line[: most - 3]}..."


def show(text: str) -> None:
    """Print lines on stdout, with control characters escaped that came with the user's data."""
    print(printable(text, keep="\n"))


def say(line: str) -> None:
    """Print a line on stderr; a closed stderr is ignored."""
    print_line(line, sys.stderr)


def print_line(line: str, stream: TextIO | None) -> None:
    """Print a line; a stream that is closed, or whose reader has gone, is ignored."""
    with contextlib.suppress(OSError, ValueError):
        print(printable(line), file=stream, flush=True)


def _escaped(character: str) -> str:
    code = ord(character)
    if 0xDC80 <= code <= 0xDCFF:  # the byte that Python could not decode
        return f"\\x{code - 0xDC00:02x}"
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
