"""Addresses of pages that were joined lead to where their content is, see docs/redirects.yml."""

from __future__ import annotations

import posixpath
from pathlib import Path
from typing import Any

import yaml

PAGE = """<!doctype html><html lang="en"><meta charset="utf-8"><title>Moved</title>
<meta http-equiv="refresh" content="0; url={url}"><p>This page is now <a href="{url}">here</a>.
"""


def on_files(files: Any, config: Any) -> Any:
    """Add a page for each old address."""
    from mkdocs.structure.files import File

    for old, url in redirects(Path(config["docs_dir"])).items():
        files.append(File.generated(config, old, content=PAGE.format(url=url)))
    return files


def redirects(docs: Path) -> dict[str, str]:
    """Return the address of each new page as seen from the old one, by the old one's file."""
    found = yaml.safe_load((docs / "redirects.yml").read_text("utf-8"))
    return {
        _html(old): posixpath.relpath(_html(new), posixpath.dirname(old) or ".")
        for old, new in found.items()
    }


def _html(page: str) -> str:
    name, mark, anchor = page.partition("#")
    return name.removesuffix(".md") + ".html" + mark + anchor
