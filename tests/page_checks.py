"""Checks of a report that need no browser."""

from __future__ import annotations

import re
from html.parser import HTMLParser
from itertools import pairwise

PHONE = 390  # pixels
VOID = {"meta", "br", "link", "img", "stop", "circle", "line", "path", "use"}


class Page(HTMLParser):
    """The elements of a page: tag, attributes and text of each, in order."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str]]] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        """Note an element."""
        self.elements.append((tag, {name: value or "" for name, value in attrs}))

    def all(self, *tags: str) -> list[dict[str, str]]:
        """Return the attributes of the elements with one of some tags."""
        return [attributes for tag, attributes in self.elements if tag in tags]


def faults(page: str) -> list[str]:
    """Return what is wrong with a page; nothing if it is fine."""
    found = Page(page)
    ids = [attributes["id"] for _, attributes in found.elements if "id" in attributes]
    faults = [f"{one} is the id of several elements" for one in set(ids) if ids.count(one) > 1]
    targets = [one["href"] for one in found.all("a")]
    targets += [f"#{one['aria-describedby']}" for one in found.all("mark") if len(one) > 2]
    faults += [f"{one} leads nowhere" for one in targets if one.removeprefix("#") not in ids]
    listed = {one["href"] for one in found.all("a")}
    sections = [one["id"] for one in found.all("h2") if "id" in one]
    faults += [f"{one} is not in the contents" for one in sections if f"#{one}" not in listed]
    levels = [int(tag[1]) for tag, _ in found.elements if re.fullmatch(r"h\d", tag)]
    if levels[:1] != [1] or levels.count(1) != 1:
        faults.append("the page does not begin with its only h1")
    steps = pairwise(levels)
    faults += [f"h{after} follows h{before}" for before, after in steps if after > before + 1]
    faults += [
        "a picture has no text" for one in found.all("svg")
        if not one.get("aria-label") and one.get("aria-hidden") != "true"
    ]  # fmt: skip
    faults += [
        "a wide region cannot be reached with the keyboard"
        for one in found.all("div")
        if one.get("class") == "scroll" and one.get("tabindex") != "0"
    ]
    style = page[page.index("<style>") : page.index("</style>")]
    if "svg { max-width: 100%; height: auto" not in style:
        faults.append("pictures do not shrink to the width of the screen")
    styles = style + " ".join(attributes.get("style", "") for _, attributes in found.elements)
    for width in re.findall(r"(?<![-\w])(?:min-)?width:\s*([\d.]+)(px|rem)", styles):
        pixels = float(width[0]) * (16 if width[1] == "rem" else 1)
        if pixels > PHONE and f"(min-width: {width[0]}{width[1]})" not in style:
            faults.append(f"an element is {width[0]} {width[1]} wide")
    return faults + unequal_sums(page)


def unequal_sums(page: str) -> list[str]:
    """Return the explanations whose lines do not sum to the score, beyond rounding."""
    faults = []
    for article in re.findall(r'<article class="explained">.*?</article>', page, re.DOTALL):
        title = re.sub(r"<.*?>", "", re.search(r"<h3>(.*?)</h3>", article, re.DOTALL)[1])  # type: ignore[index]
        inside = article.partition("<details>")[0]
        tables = re.findall(r"<table.*?</table>", inside, re.DOTALL)
        *parts, total = [_numbers(table) for table in tables]
        lines, decimals = [value for part in parts for value, _ in part], total[0][1]
        listed, others, constant, score = (value for value, _ in total)
        half = 0.5 * 10**-decimals * 1.001  # each number is rounded
        if abs(sum(lines) - listed) > half * (len(lines) + 1):
            faults.append(f"{title}: the lines sum to {sum(lines)}, not to {listed}")
        if abs(listed + others + constant - score) > 4 * half:
            faults.append(f"{title}: the sum is {listed + others + constant}, not {score}")
    return faults


def _numbers(table: str) -> list[tuple[float, int]]:
    """Return the first number of each row of a table, and its decimals."""
    rows = re.findall(r'<tr.*?<td class="n">([^<]*)</td>', table, re.DOTALL)
    texts = [row.replace("−", "-") for row in rows]
    return [(float(text), len(text.partition(".")[2])) for text in texts]
