"""The topics of Python's own help: a running text that every installation carries."""

from __future__ import annotations

import platform
import re

from representer.errors import DataError


def topics() -> tuple[list[str], str]:
    """Return the paragraphs of the help topics, a line each, and what they are.

    A line is lower case, its words and punctuation marks with blanks between. Topics come in the
    order of their names and are dealt out in turn, a paragraph of each, so that every part of the
    text speaks of everything. What stands under several topics is taken once, or the last lines
    could be known by heart. On one version of Python the result is always the same.

    Raises:
        DataError: If this Python comes without its help.
    """
    try:
        from pydoc_data.topics import topics as texts
    except ImportError:
        mend = "Use a Python that was installed with its documentation, or give a text file."
        raise DataError("this Python has no help topics", mend=mend) from None
    paragraphs = [_paragraphs(texts[name]) for name in sorted(texts)]
    longest = max(map(len, paragraphs))
    lines = [own[i] for i in range(longest) for own in paragraphs if i < len(own)]
    return list(dict.fromkeys(lines)), f"help topics of Python {platform.python_version()}"


def _paragraphs(text: str) -> list[str]:
    found = (re.findall(r"\w+|[^\w\s]", part.lower()) for part in re.split(r"\n\s*\n", text))
    return [" ".join(words) for words in found if len(words) > 3]
