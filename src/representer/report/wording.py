"""Numbers as the report shows them."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from markupsafe import Markup

NARROW = "\u202f"  # a narrow no-break space
MINUS = "−"


def percent(share: float, digits: int = 1) -> str:
    """Return a fraction in percent."""
    return f"{100 * share:.{digits}f}{NARROW}%"


def points(share: float) -> str:
    """Return a difference of two fractions in percentage points, with its sign."""
    return signed(100 * share, 1)


def count(number: int) -> str:
    """Return an integer with its thousands apart."""
    return f"{number:,}".replace(",", NARROW)


def rounded(number: float, digits: int = 3) -> str:
    """Return a number with so many significant digits, and never as a power of ten."""
    if not number or not math.isfinite(number):
        return f"{number:g}"
    decimals = max(0, digits - 1 - math.floor(math.log10(abs(number))))
    return f"{number:.{decimals}f}"


def signed(number: float, decimals: int) -> str:
    """Return a number with its sign and so many decimals; what rounds to zero has no sign."""
    text = f"{number:+.{decimals}f}"
    return text[1:] if not float(text) else text.replace("-", MINUS)


def decimals_of(numbers: Iterable[float]) -> int:
    """Return the decimals with which the largest of some numbers has two significant digits.

    They are at least 2, so that sums of rounded numbers remain recognizable.
    """
    largest = max((abs(number) for number in numbers if number), default=1.0)
    return max(2, 1 - math.floor(math.log10(largest)))


def equation(text: str) -> Markup:
    """Return an equation as HTML, with subscripts for ``c_t`` and ``c_{t−1}``."""
    from markupsafe import Markup, escape

    return Markup(re.sub(r"_\{(.*?)\}|_(\w)", r"<sub>\1\2</sub>", str(escape(text))))


def slug(text: str) -> str:
    """Return a heading as the name of an anchor."""
    return re.sub(r"\W+", "-", text.lower()).strip("-")


def headings(page: str) -> list[tuple[str, Markup]]:
    """Return anchor and text of each section of a page, for its table of contents."""
    from markupsafe import Markup

    return [(at, Markup(text)) for at, text in re.findall(r'<h2 id="(.*?)">(.*?)</h2>', page)]


FILTERS = {one.__name__: one for one in (
    percent, points, count, rounded, signed, equation, slug, headings
)}  # fmt: skip
