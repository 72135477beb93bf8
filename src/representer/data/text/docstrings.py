"""The docstrings of Python's standard library, by package: documents that need no download."""

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
"""Packages with much to read, in the order of preference; some systems leave some of them out."""

_FILES = {"decimal": "_pydecimal.py"}  # decimal.py only imports the C version or this one
_TESTS = {"test", "tests", "idle_test"}
_ENOUGH = 100
_MASK = "package"


def docstrings(
    seed: int = 0, *, classes: int = 10, per_class: int = 300, min_words: int = 12
) -> Table:
    """Return paragraphs of docstrings, labeled with the package they come from.

    The sources are parsed and never imported. A docstring is cut into paragraphs; short ones are
    put together until they have ``min_words`` words, and what is then still short is left out. A
    paragraph that occurs twice is kept once. So that the label is not simply to be read off, the
    names of all packages, also in identifiers such as ``HTTPServer``, are replaced by the word
    "package" in every document.

    On one version of Python the result depends on the arguments alone.

    Args:
        seed: Decides which documents a large package contributes, and their order.
        classes: How many packages.
        per_class: The most documents of one package.
        min_words: The fewest words of a document.

    Returns:
        The table; its lines are those of the source files.

    Raises:
        ArgumentError: If there are fewer than two classes or no documents.
        DataError: If this Python comes without the sources of its library.
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
    found = 0
    for package in PACKAGES:
        if found == classes:
            break
        documents = list(_documents(root, package, min_words, seen))
        if len(documents) < min(_ENOUGH, per_class):
            continue
        found += 1
        rng.shuffle(documents)
        rows += [(text, package, line) for text, line in documents[:per_class]]
    if found < classes:
        raise DataError(
            f"only {found} of {classes} packages of the standard library have enough docstrings",
            file=root,
            mend="Use a Python that was installed with its sources, or give your own data.",
        )
    rng.shuffle(rows)
    texts, labels, lines = map(list, zip(*rows, strict=True))
    source = f"docstrings of the Python {platform.python_version()} standard library"
    return Table(texts, labels, lines, ["text", "label"], "text", "label", [], source)


def _documents(
    root: Path, package: str, min_words: int, seen: set[str]
) -> Iterator[tuple[str, int]]:
    """Yield the documents of one package that were not seen before, with their lines."""
    for path in _sources(root, package):
        try:
            with warnings.catch_warnings(action="ignore"):  # on odd escapes in old modules
                tree = ast.parse(path.read_bytes())
        except (SyntaxError, ValueError, OSError):
            continue  # a library with one broken file still has documents
        for node in _nodes(tree):
            if isinstance(node, (ast.Module, ast.ClassDef, ast.FunctionDef, ast.AsyncFunctionDef)):
                for text in _paragraphs(ast.get_docstring(node) or "", min_words):
                    if text not in seen:
                        seen.add(text)
                        yield text, node.body[0].lineno


def _nodes(node: ast.AST) -> Iterator[ast.AST]:
    """Yield a node and the statements in it, but no expressions, of which there are many more."""
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
    """Yield paragraphs, short ones put together, with the names of the packages replaced."""
    waiting: list[str] = []
    for paragraph in re.split(r"\n\s*\n", _NAMES.sub(_MASK, docstring)):
        waiting += paragraph.split()
        if len(waiting) >= min_words:
            yield " ".join(waiting)
            waiting = []


_NAMES = re.compile(rf"\w*(?:{'|'.join(PACKAGES)})\w*", re.IGNORECASE)
