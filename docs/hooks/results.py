"""Pages that commands wrote into docs/results stand in the navigation by themselves.

They are grouped as the index of the results groups them: by the first heading below which a page is
linked.
"""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

SECTION, OTHERS = "Results", "Other pages"


def on_config(config: Any, **_: Any) -> Any:
    """Add every page of docs/results to the section."""
    docs = Path(config["docs_dir"])
    (pages,) = [entry[SECTION] for entry in config["nav"] if SECTION in entry]
    pages += [{title: found} for title, found in grouped(docs / "results").items()]
    return config


def grouped(folder: Path) -> dict[str, list[str]]:
    """Return the pages of a folder by the headings of its index."""
    names = {path.name for path in folder.glob("*.md")} - {"index.md"}
    groups: dict[str, list[str]] = {}
    for section in re.split(r"^## ", (folder / "index.md").read_text("utf-8"), flags=re.MULTILINE):
        linked = dict.fromkeys(re.findall(r"\]\(([\w-]+\.md)", section))
        own = [name for name in linked if name in names]
        names.difference_update(own)
        if own:
            groups[section.partition("\n")[0]] = [f"results/{name}" for name in own]
    if names:
        groups[OTHERS] = [f"results/{name}" for name in sorted(names)]
    return groups
