"""The help topics of Python, a running text that is part of every installation."""

from __future__ import annotations

import platform
import re

from representer.errors import DataError


def topics() -> tuple[list[str], str]:
    """Return the paragraphs of the help topics, one per line, and a description of the text.

    Lines are lower case, with spaces between words and punctuation marks. The paragraphs of all
    topics alternate, in the order of the topics' names, so that every part of the text covers all
    topics. Duplicate paragraphs are dropped, since they would leak training text to the test part.
    For a given version of Python, the result is always the same.

    Raises:
        DataError: If this Python was installed without its help topics.
    """
    try:
        from pydoc_data.topics import topics as texts
    except ImportError:
        fix = "Use a Python that was installed with its documentation, or a text file."
        raise DataError("this Python has no help topics", fix=fix) from None
    paragraphs = [_paragraphs(texts[name]) for name in sorted(texts)]
    longest = max(map(len, paragraphs))
    lines = [own[i] for i in range(longest) for own in paragraphs if i < len(own)]
    return list(dict.fromkeys(lines)), f"help topics of Python {platform.python_version()}"


def _paragraphs(text: str) -> list[str]:
    paragraphs = (re.findall(r"\w+|[^\w\s]", part.lower()) for part in re.split(r"\n\s*\n", text))
    return [" ".join(words) for words in paragraphs if len(words) > 3]
