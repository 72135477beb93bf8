"""Pages of the repository's root, such as CONTRIBUTING.md, are pages of the site, too."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from mkdocs.structure.files import File, Files

PAGES = {
    name: f"project/{name.lower()}" for name in ("CONTRIBUTING.md", "CHANGELOG.md", "SECURITY.md")
}


def on_files(files: Files, config: Any) -> Files:
    """Add the pages."""
    root = Path(config["config_file_path"]).parent
    for name, uri in PAGES.items():
        files.append(File.generated(config, uri, content=moved((root / name).read_text("utf-8"))))
    return files


def moved(text: str) -> str:
    """Point the links of a page of the root, which is moved one folder down, at the same pages."""
    for name, uri in PAGES.items():
        text = text.replace(f"]({name})", f"]({Path(uri).name})")
    return re.sub(r"\]\(docs/", "](../", text)
