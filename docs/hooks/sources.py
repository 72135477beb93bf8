"""Links from a page to sources, tests and citations lead to copies of those files on the site.

In the repository ``../src/...`` is right; the site, which has its own root, holds the files that
are linked under the same paths.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

_LINK = re.compile(
    r"(?P<up>(?:\.\./)+)(?P<path>(?:(?:src|tests|benchmarks)/[\w/.-]+|CITATIONS?)\.\w+)"
)


def on_files(files: Files, config: Any) -> Files:
    """Add the files that pages link."""
    root = Path(config["config_file_path"]).parent
    pages = [page.content_string for page in files.documentation_pages()]
    for path in sorted({found["path"] for page in pages for found in _LINK.finditer(page)}):
        if (root / path).is_file():  # otherwise the link is reported as broken
            files.append(File.generated(config, path, content=(root / path).read_text("utf-8")))
    return files


def on_page_markdown(markdown: str, page: Any, **_: Any) -> str:
    """Point the links at the copies."""
    depth = page.file.src_uri.count("/")
    return _LINK.sub(lambda found: "../" * depth + found["path"], markdown)
