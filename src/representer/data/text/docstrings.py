"""Docstrings of Python's standard library, labeled by package."""

from __future__ import annotations

import ast
import platform
import random
import re
import sysconfig
import warnings
from collections.abc import Iterator
from pathlib import Path

from representer.data.text.table import Table
from representer.errors import ArgumentError, DataError

PACKAGES = (
    "asyncio", "email", "decimal", "importlib", "xml", "logging", "http", "unittest",
    "tkinter", "turtle", "typing", "doctest", "ipaddress", "difflib", "inspect", "statistics",
)  # fmt: skip
"""Well-documented packages, in order of preference; not all systems have all of them."""

_FILES = {"decimal": "_pydecimal.py"}  # decimal.py only imports the C version or this one
_TESTS = {"test", "tests", "idle_test"}
_ENOUGH = 100
_MASK = "package"


def docstrings(
    seed: int = 0, *, classes: int = 10, per_class: int = 300, min_words: int = 12
) -> Table:
    """Return paragraphs of docstrings, labeled with the package they come from.

    The sources are parsed and never imported. Docstrings are split into paragraphs; short ones are
    joined until they have ``min_words`` words, and a shorter remainder is dropped. Duplicate
    paragraphs are dropped, too. The names of all packages, including those in identifiers such as
    ``HTTPServer``, are replaced by the word "package", so that no document contains its label.

    For a given version of Python, the result depends only on the arguments.

    Args:
        seed: Selects the documents of large packages and the order of all documents.
        classes: Number of packages.
        per_class: Maximum number of documents per package.
        min_words: Minimum number of words per document.

    Returns:
        The table; its lines are those of the source files.

    Raises:
        ArgumentError: If there are fewer than two classes or no documents.
        DataError: If this Python was installed without the sources of its library.
    """
    if not 2 <= classes <= len(PACKAGES):
        raise ArgumentError("classes", classes, f"2 to {len(PACKAGES)}")
    for name, value in (("per_class", per_class), ("min_words", min_words)):
        if value < 1:
            raise ArgumentError(name, value, "1 or more")
    root = Path(sysconfig.get_paths()["stdlib"])
    rng = random.Random(f"docstrings/{seed}")
    rows: list[tuple[str, str, int]] = []
    seen: set[str] = set()
    count = 0
    for package in PACKAGES:
        if count == classes:
            break
        documents = list(_documents(root, package, min_words, seen))
        if len(documents) < min(_ENOUGH, per_class):
            continue
        count += 1
        rng.shuffle(documents)
        rows += [(text, package, line) for text, line in documents[:per_class]]
    if count < classes:
        raise DataError(
            f"only {count} of {classes} packages of the standard library have enough docstrings",
            file=root,
            fix="Use a Python that was installed with its sources, or your own data.",
        )
    rng.shuffle(rows)
    texts, labels, lines = map(list, zip(*rows, strict=True))
    source = f"docstrings of the Python {platform.python_version()} standard library"
    return Table(texts, labels, lines, ["text", "label"], "text", "label", [], source)


def _documents(
    root: Path, package: str, min_words: int, seen: set[str]
) -> Iterator[tuple[str, int]]:
    """Yield the documents of one package that are not in ``seen``, with their lines."""
    for path in _sources(root, package):
        try:
            with warnings.catch_warnings(action="ignore"):  # about invalid escapes in old modules
                tree = ast.parse(path.read_bytes())
        except (SyntaxError, ValueError, OSError):
            continue  # skip files with syntax errors
        for node in _nodes(tree):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                for text in _paragraphs(ast.get_docstring(node) or "", min_words):
                    if text not in seen:
                        seen.add(text)
                        yield text, node.body[0].lineno


def _nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and all statements in it, without their expressions."""
    yield node
    for block in ("body", "handlers", "orelse", "finalbody"):
        for statement in getattr(node, block, ()):
            yield from _nodes(statement)


def _sources(root: Path, package: str) -> list[Path]:
    folder = root / package
    if folder.is_dir():
        files = sorted(folder.rglob("*.py"))
        return [p for p in files if not _TESTS & set(p.relative_to(root).parts)]
    path = root / _FILES.get(package, f"{package}.py")
    return [path] if path.is_file() else []


def _paragraphs(docstring: str, min_words: int) -> Iterator[str]:
    """Yield paragraphs of at least ``min_words`` words, with package names replaced."""
    waiting: list[str] = []
    for paragraph in re.split(r"\n\s*\n", _NAMES.sub(_MASK, docstring)):
        waiting += paragraph.split()
        if len(waiting) >= min_words:
            yield " ".join(waiting)
            waiting = []


_NAMES = re.compile(rf"\w*(?:{'|'.join(PACKAGES)})\w*", re.IGNORECASE)
