"""Lines of Python's standard library, half of them with two swapped tokens."""

from __future__ import annotations

import ast
import platform
import random
import re
import sysconfig
import warnings
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from representer.data.text.table import Table
from representer.errors import ArgumentError, DataError

ORIGINAL, SWAPPED = "original", "swapped"

# Tests, vendored and generated code, and packages that some systems do not install.
_SKIPPED = {
    "test", "tests", "idle_test", "site-packages", "dist-packages", "encodings", "ensurepip",
    "idlelib", "lib2to3", "pydoc_data", "tkinter", "turtle.py", "turtledemo", "__pycache__",
}  # fmt: skip
_TOKEN = re.compile(
    r"""[A-Za-z_]\w* | \d[\w.]* | '[^']*' | "[^"]*" | \*\*=? | //=? | -> | [-+*/%=<>!:&|]= | \S""",
    re.VERBOSE,
)
_LITERAL = '"…"'


def code_lines(
    seed: int = 0, *, count: int = 20_000, min_tokens: int = 6, max_tokens: int = 25
) -> Table:
    """Return lines of code as space-separated tokens, labeled ``original`` or ``swapped``.

    A line is a single-line statement. In a random half of the lines, two different tokens are
    swapped, so the label depends only on the order of the tokens. Duplicate lines are dropped, so
    every line belongs to one class. The contents of strings are removed.

    For a given version of Python, the result depends only on the arguments.

    Args:
        seed: Selects the lines, the swapped half and the swapped tokens.
        count: Number of lines.
        min_tokens: Minimum number of tokens per line.
        max_tokens: Maximum number of tokens per line.

    Returns:
        The table; its lines are those of the source files.

    Raises:
        ArgumentError: If ``count`` is below 2, or the lengths allow no line.
        DataError: If this Python was installed without the sources of its library.
    """
    if count < 2:
        raise ArgumentError("count", count, "2 or more")
    if not 2 <= min_tokens <= max_tokens:
        raise ArgumentError("min_tokens", min_tokens, f"2 to max_tokens, {max_tokens}")
    root = Path(sysconfig.get_paths()["stdlib"])
    rng = random.Random(f"code_lines/{seed}")
    files = [path for path in sorted(root.rglob("*.py")) if _is_used(path.relative_to(root))]
    rng.shuffle(files)
    rows: dict[str, int] = {}
    for path in files:
        if len(rows) >= count:
            break
        for tokens, line in _lines(path):
            if min_tokens <= len(tokens) <= max_tokens and len(set(tokens)) > 1:
                rows.setdefault(" ".join(tokens), line)
    if len(rows) < count:
        raise DataError(
            f"only {len(rows)} of {count} lines of code in the standard library",
            file=root,
            fix="Use a Python that was installed with its sources, or your own data.",
        )
    chosen = list(rows.items())[:count]
    rng.shuffle(chosen)
    texts, labels = [], []
    for position, (text, _) in enumerate(chosen):
        is_swapped = position % 2 == 1
        texts.append(_swapped(text.split(), rng) if is_swapped else text)
        labels.append(SWAPPED if is_swapped else ORIGINAL)
    source = f"lines of the Python {platform.python_version()} standard library"
    lines = [line for _, line in chosen]
    return Table(texts, labels, lines, ["text", "label"], "text", "label", [], source)


def _is_used(path: Path) -> bool:
    return not _SKIPPED & set(path.parts) and not path.name.startswith("_sysconfigdata")


def _lines(path: Path) -> Iterator[tuple[list[str], int]]:
    """Yield the tokens and the line number of each single-line statement."""
    try:
        source = path.read_text(encoding="utf-8")
        with warnings.catch_warnings(action="ignore"):  # about invalid escapes in old modules
            tree = ast.parse(source)
    except (SyntaxError, ValueError, OSError):
        return  # skip files with syntax errors
    texts = source.split("\n")
    for node in _statements(tree):
        if not isinstance(node, ast.stmt) or node.lineno != node.end_lineno:
            continue
        if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
            continue  # a docstring
        text = texts[node.lineno - 1]
        if "\\" in text or "#" in text or not text.isascii() or ";" in text:
            continue
        tokens = [_LITERAL if t[0] in "'\"" else t for t in _TOKEN.findall(text)]
        yield tokens, node.lineno


def _statements(tree: ast.AST) -> Iterator[ast.AST]:
    """Yield statements, and the parts that contain some, in the order of ``ast.walk``."""
    queue = deque([tree])
    while queue:
        node = queue.popleft()
        for name in ("body", "handlers", "orelse", "finalbody", "cases"):
            queue.extend(getattr(node, name, ()))
        yield node


def _swapped(tokens: list[str], rng: random.Random) -> str:
    """Return a line with two different tokens swapped."""
    i, j = 0, 0
    while tokens[i] == tokens[j]:
        i, j = rng.sample(range(len(tokens)), 2)
    tokens[i], tokens[j] = tokens[j], tokens[i]
    return " ".join(tokens)
