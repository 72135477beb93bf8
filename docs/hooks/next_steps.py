"""Every page ends with where to go next, chosen by hand in docs/next.yml."""

from __future__ import annotations

import posixpath
from fnmatch import fnmatch
from pathlib import Path
from typing import Any

import yaml

_steps: dict[str, list[str]] = {}


def on_config(config: Any, **_: Any) -> Any:
    """Read the steps."""
    _steps.update(yaml.safe_load((Path(config["docs_dir"]) / "next.yml").read_text("utf-8")))
    return config


def steps_of(page: str, steps: dict[str, list[str]]) -> list[str]:
    """Return the pages after a page: its own entry, or that of the first pattern it matches."""
    if page in steps:
        return steps[page]
    found = (pages for pattern, pages in steps.items() if fnmatch(page, pattern))
    return [step for step in next(found, []) if step != page]


def on_page_context(context: Any, page: Any, nav: Any, **_: Any) -> Any:
    """Give the template of the footer titles and addresses."""
    by_uri = {each.file.src_uri: each for each in nav.pages}
    here = posixpath.dirname(page.url) or "."
    context["next_steps"] = [
        (by_uri[uri].title, posixpath.relpath(by_uri[uri].url, here))
        for uri in steps_of(page.file.src_uri, _steps)
    ]
    return context


def unknown(steps: dict[str, list[str]], pages: set[str]) -> list[str]:
    """Return the entries that name no page of the site."""
    named = {posixpath.normpath(step) for own in steps.values() for step in own}
    return sorted((named | {key for key in steps if "*" not in key}) - pages)
