"""The search shows tutorials and how-to pages before pages of figures."""

from __future__ import annotations

from typing import Any

FIRST = {
    "when.md": 10,
    "tutorials/own_kernel.md": 6,
}  # other pages use the words of their titles more


def on_page_markdown(markdown: str, page: Any, **_: Any) -> None:
    """Set the weight of a page in the search."""
    source = page.file.src_uri
    if source.startswith(("results/", "project/")) or source in ("log.md", "options.md"):
        page.meta.setdefault("search", {})["boost"] = 0.1
    elif source.startswith("reference/") or source == "tutorials/index.md":
        page.meta.setdefault("search", {})["boost"] = 0.5
    elif source in FIRST:
        page.meta.setdefault("search", {})["boost"] = FIRST[source]
    elif source.startswith(("for/", "tutorials/", "howto/")):
        page.meta.setdefault("search", {})["boost"] = 3
