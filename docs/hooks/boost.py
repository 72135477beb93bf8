"""The search shows tutorials and how-to pages before pages of figures."""

from __future__ import annotations

from typing import Any


def on_page_markdown(markdown: str, page: Any, **_: Any) -> None:
    """Set the weight of a page in the search."""
    source = page.file.src_uri
    if source.startswith(("results/", "project/")) or source in ("log.md", "options.md"):
        page.meta.setdefault("search", {})["boost"] = 0.1
    elif source.startswith("reference/") or source == "tutorials/index.md":
        page.meta.setdefault("search", {})["boost"] = 0.5
    elif source.startswith(("tutorials/", "howto/")) or source == "when.md":
        page.meta.setdefault("search", {})["boost"] = 3
