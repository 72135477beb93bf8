"""List the files of the library that a row of a table passes through.

``python tools/row_path.py`` fits and predicts a table with a marked word, and prints each file in
which a function takes or returns an object that holds this word, in the order of first appearance.
"""

from __future__ import annotations

import contextlib
import io
import sys
import tempfile
from pathlib import Path
from types import FrameType
from typing import Any

import representer
from representer.cli.main import entry_point

MARK = "qzxmark"
HOME = Path(str(representer.__file__)).parent
DEPTH, WIDTH = 3, 20  # how deep, and how many items of a collection, are searched


def holds(value: Any, depth: int = DEPTH) -> bool:
    """Return True if an object holds the marked word."""
    if isinstance(value, str | bytes):
        return (MARK if isinstance(value, str) else MARK.encode()) in value
    if depth == 0:
        return False
    if isinstance(value, dict):
        return any(holds(item, depth - 1) for item in [*value, *value.values()][:WIDTH])
    if isinstance(value, list | tuple):
        return any(holds(item, depth - 1) for item in value[:WIDTH])
    fields = getattr(value, "__dataclass_fields__", {})
    return any(holds(getattr(value, name, None), depth - 1) for name in fields)


def files_of(command: list[str]) -> list[str]:
    """Run a command line and return the files on the way of the row, in order."""
    files: dict[str, None] = {}

    def watch(frame: FrameType, event: str, value: Any) -> None:
        name = frame.f_code.co_filename
        if event not in ("call", "return") or not name.startswith(str(HOME)):
            return
        if holds(value) or any(holds(local) for local in list(frame.f_locals.values())):
            files.setdefault(str(Path(name).relative_to(HOME)))

    sys.setprofile(watch)
    with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
        code = entry_point(command)
    sys.setprofile(None)
    if code:
        raise SystemExit(f"{' '.join(command)} ended with {code}")
    return list(files)


def main() -> int:
    """Fit and predict a table of which one row holds the word, and print the files on its way."""
    with tempfile.TemporaryDirectory() as folder:
        table, run = Path(folder) / "table.csv", Path(folder) / "run"
        rows = [f"the {MARK} {word} {i},{word}\n" for i in range(30) for word in ("sea", "sky")]
        table.write_text("text,label\n" + "".join(rows), encoding="utf-8")
        small = ["--hidden-size", "4", "--epochs", "1", "--min-count", "1"]
        one = Path(folder) / "one.csv"
        one.write_text(f"text,label\nthe {MARK} sea,sea\n", encoding="utf-8")
        fit = ["fit", "text", str(table), "--out", str(run), *small]
        for command in (fit, ["predict", str(run), str(one)]):
            found = files_of(command)
            print(f"{command[0]}: a row passes through {len(found)} files")
            print("".join(f"  {file}\n" for file in found), end="")
    return 0


if __name__ == "__main__":
    sys.exit(main())
