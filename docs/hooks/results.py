"""Pages that commands wrote into docs/results stand in the navigation by themselves."""

from __future__ import annotations

from pathlib import Path
from typing import Any

SECTION = "Results"


def on_config(config: Any, **_: Any) -> Any:
    """Add every page of docs/results to the section, in the order of their names."""
    docs = Path(config["docs_dir"])
    (pages,) = [entry[SECTION] for entry in config["nav"] if SECTION in entry]
    found = sorted(path.relative_to(docs).as_posix() for path in docs.glob("results/*.md"))
    named = {next(iter(e.values())) if isinstance(e, dict) else e for e in pages}
    pages += [page for page in found if page not in named]
    return config
