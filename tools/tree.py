"""Count lines by package, and list the files on the way of a row, and of a call into the core.

``python tools/tree.py --before REVISION --out docs/results/tree.md`` counts the lines of the
checkout's last commit beside those of an earlier one. It fits and predicts a table with a marked
word, and lists each file of Python in which a function takes or returns an object that holds this
word, in the order of first appearance; and it calls a layer, turns a kernel into its network and
back, and lists the files whose functions run.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from types import FrameType
from typing import Any

import torch

import representer
from representer import kernels, nn
from representer.cli.main import entry_point

MARK = "qzxmark"
HOME = Path(str(representer.__file__)).parent
SUFFIXES = (".py", ".hpp", ".cpp")
DEPTH, WIDTH = 3, 20  # how deep, and how many items of a collection, are searched


def holds(value: Any, depth: int = DEPTH) -> bool:
    """Return True if an object holds the marked word."""
    if isinstance(value, str):
        return MARK in value
    if isinstance(value, bytes):
        return MARK.encode() in value
    if depth == 0:
        return False
    if isinstance(value, dict):
        return any(holds(item, depth - 1) for item in [*value, *value.values()][:WIDTH])
    if isinstance(value, list | tuple):
        return any(holds(item, depth - 1) for item in value[:WIDTH])
    fields = getattr(value, "__dataclass_fields__", {})
    return any(holds(getattr(value, name, None), depth - 1) for name in fields)


def files_of(call: Callable[[], Any], counts: Callable[[FrameType, Any], bool]) -> list[str]:
    """Return the files of the library with calls that count, in order."""
    files: dict[str, None] = {}

    def watch(frame: FrameType, event: str, value: Any) -> None:
        name = frame.f_code.co_filename
        is_ours = name.startswith(str(HOME)) and name.endswith(".py")  # templates end in .html
        if event in ("call", "return") and is_ours and counts(frame, value):
            files.setdefault(str(Path(name).relative_to(HOME)))

    sys.setprofile(watch)
    try:
        call()
    finally:
        sys.setprofile(None)
    return list(files)


def of_row(command: list[str]) -> list[str]:
    """Run a command line and return the files on the way of the marked word."""

    def run() -> None:
        with contextlib.redirect_stdout(io.StringIO()), contextlib.redirect_stderr(io.StringIO()):
            code = entry_point(command)
        if code:
            raise SystemExit(f"{' '.join(command)} ended with {code}")

    return files_of(
        run, lambda frame, value: holds(value) or any(map(holds, list(frame.f_locals.values())))
    )


def of_layer() -> list[str]:
    """Return the files whose functions run when a layer is called."""
    layer, x = nn.RKMLSTM(4, 8), torch.randn(5, 2, 4)
    layer(x)
    return files_of(lambda: layer(x), lambda frame, value: True)


def of_duality() -> list[str]:
    """Return the files whose functions run when a kernel becomes a network and comes back."""
    kernel = kernels.StringKernel(2)
    return files_of(lambda: kernel.network(4, 8).kernel, lambda frame, value: True)


def lines_of(revision: str) -> tuple[Counter[str], Counter[str]]:
    """Return the numbers of lines and of files of each package at a revision."""
    lines, files = Counter[str](), Counter[str]()
    for name in _git("ls-tree", "-r", "--name-only", revision, "src", "tests").splitlines():
        if not name.endswith(SUFFIXES):
            continue
        kind, _, *parts = Path(name).parts
        package = parts[0] if len(parts) > 1 else "single files"
        key = "tests" if kind == "tests" else "papers" if "papers" in name else package
        lines[key] += _git("show", f"{revision}:{name}").count("\n")
        files[key] += 1
    for count in (lines, files):
        count["all but tests"] = count.total() - count["tests"]
    return lines, files


def _git(*words: str) -> str:
    return subprocess.run(["git", *words], capture_output=True, text=True, check=True).stdout


def page(before: str) -> str:
    """Return the page."""
    lines, files = lines_of("HEAD")
    lines_before, files_before = lines_of(before)
    text = [
        "# The size of the tree, and ways through it",
        "",
        f"Written by `python tools/tree.py --before {before} --out docs/results/tree.md`",
        f"with torch {torch.__version__}: lines of Python and C++, docstrings and blank lines",
        "included, and files.",
        "",
        "| package | lines before | lines now | files before | files now |",
        "| --- | ---: | ---: | ---: | ---: |",
    ]
    text += [
        f"| {key} | {lines_before[key]:,} | {count:,} | {files_before[key]} | {files[key]} |"
        for key, count in lines.most_common()
    ]
    with tempfile.TemporaryDirectory() as folder:
        table, run, one = (Path(folder) / name for name in ("table.csv", "run", "one.csv"))
        rows = [f"the {MARK} {word} {i},{word}\n" for i in range(30) for word in ("sea", "sky")]
        table.write_text("text,label\n" + "".join(rows), encoding="utf-8")
        one.write_text(f"text,label\nthe {MARK} sea,sea\n", encoding="utf-8")
        small = ["--hidden-size", "4", "--epochs", "1", "--min-count", "1"]
        ways = {
            "A row in `fit text`": of_row(["fit", "text", str(table), "--out", str(run), *small]),
            "A row in `predict`": of_row(["predict", str(run), str(one)]),
            "A call of `nn.RKMLSTM`, to the C++ core and back": of_layer(),
            "A kernel that becomes its network, and back": of_duality(),
        }
    for title, found in ways.items():
        text += ["", f"## {title}: {len(found)} files", "", *(f"- `{file}`" for file in found)]
    return "\n".join(text) + "\n"


def main() -> int:
    """Write the page, or print it."""
    parser = argparse.ArgumentParser(description="Count lines, and files on the way of a row.")
    parser.add_argument("--before", required=True, help="an earlier revision")
    parser.add_argument("--out", type=Path, help="file to write; printed if not given")
    chosen = parser.parse_args()
    text = page(chosen.before)
    if chosen.out is None:
        print(text, end="")
    else:
        chosen.out.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
