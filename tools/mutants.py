"""Plant mistakes in modules, one after the other, and say whether a test sees each.

``python tools/mutants.py "src/representer/nn/**/*.py" --coverage FILE --record FILE`` chooses
places by seed and runs the tests that pass the line, by ``pytest --cov --cov-context=test``.
``--replay FILE`` plants recorded mistakes again, found by their text.
"""

from __future__ import annotations

import argparse
import ast
import copy
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

Ops = tuple[type[ast.AST], type[ast.AST]]
PAIRS: list[Ops] = [(ast.Lt, ast.LtE), (ast.Gt, ast.GtE), (ast.Eq, ast.NotEq), (ast.Is, ast.IsNot)]
PAIRS += [(ast.And, ast.Or), (ast.Add, ast.Sub), (ast.Mult, ast.Div)]
OTHER = dict(PAIRS) | {new: old for old, new in PAIRS}
LEFT = ([], [None], ["strict"])  # last arguments that are not dropped: none, ``**options``, checks
NOT_RUN = (ast.Raise, ast.arg, ast.AnnAssign, ast.JoinedStr, ast.Assert)  # messages, types
PYTEST = ["-m", "pytest", "-x", "-q", "-n", "0", "--tb=no", "-p", "no:cacheprovider"]
PYTEST += ["-m", "not gpu and not browser and not peers"]
TESTS, SECONDS = 300, 900  # for a mistake, at most
PASSES = """select substr(context, 1, instr(context || '|', '|') - 1), numbits,
    (select count(*) from line_bits x where x.context_id = context.id) as files
    from line_bits join file on file.id = file_id join context on context.id = context_id
    where file.path like ? and context like '%::%' order by files"""


def changes(node: Any, arguments: list[str]) -> Iterator[tuple[str, ast.AST]]:
    """Yield mistakes at one node: what is planted, and the node with it."""
    new: Any = copy.deepcopy(node)
    if isinstance(node, ast.Compare) and type(node.ops[0]) in OTHER:
        new.ops[0] = OTHER[type(node.ops[0])]()
        yield "comparison turned", new
    elif isinstance(node, ast.BoolOp | ast.BinOp | ast.AugAssign) and type(node.op) in OTHER:
        new.op = OTHER[type(node.op)]()
        yield "operator exchanged", new
    elif isinstance(node, ast.Constant) and isinstance(node.value, int | float):
        x = node.value
        new.value = not x if isinstance(x, bool) else x + 1 if x in (0, 1) else 2 * x
        yield "constant changed", new
    elif isinstance(node, ast.Call) and [x.arg for x in node.keywords][-1:] not in LEFT:
        new.keywords.pop()
        yield "argument dropped", new
    elif isinstance(node, ast.If | ast.IfExp):
        new.test = ast.UnaryOp(ast.Not(), new.test)
        yield "branch negated", new.test if isinstance(node, ast.If) else new
    elif isinstance(node, ast.Return) and node.value:
        names = {x.id for x in ast.walk(node.value) if isinstance(x, ast.Name)}
        is_name = isinstance(node.value, ast.Name)  # another argument, or one of the expression
        if others := [x for x in arguments if (x in names) != is_name]:
            new.value = ast.Name(others[0])
            yield "neighbor returned", new


def candidates(source: str) -> list[tuple[int, str, str, str]]:
    """Return line, what is planted, and the old and new lines of each possible mistake."""
    rows, data = [], source.encode().splitlines(keepends=True)

    def walk(node: Any, arguments: list[str]) -> None:
        if isinstance(node, ast.FunctionDef):
            arguments = [x.arg for x in [*node.args.args, *node.args.kwonlyargs]]
        for what, new in changes(node, arguments):
            x: Any = node.test if isinstance(node, ast.If) else node  # without its branches
            old = b"".join(data[x.lineno - 1 : x.end_lineno])
            tail = old[len(old) - len(data[x.end_lineno - 1]) + x.end_col_offset :]
            text = ast.unparse(new) if isinstance(new, ast.stmt) else f"({ast.unparse(new)})"
            changed = old[: x.col_offset] + text.encode() + tail
            rows.append((x.lineno, what, old.decode(), changed.decode()))
        skipped = [getattr(node, "returns", None), *getattr(node, "decorator_list", [])]
        for child in ast.iter_child_nodes(node):
            is_check = isinstance(child, ast.keyword) and child.arg == "strict"  # of zip
            if child not in skipped and not (is_check or isinstance(child, NOT_RUN)):
                walk(child, arguments)

    walk(ast.parse(source), [])
    return rows


def tests_of(coverage: str, file: str, line: int) -> list[str]:
    """Return the tests that pass a line, those of the fewest files first."""
    with sqlite3.connect(f"file:{coverage}?mode=ro", uri=True) as base:
        rows = base.execute(PASSES, ("%" + file,)).fetchall()
    byte, bit = divmod(line, 8)
    passing = [test for test, bits, _ in rows if byte < len(bits) and bits[byte] >> bit & 1]
    return list(dict.fromkeys(test.split("[")[0] for test in passing))


def existing(tests: list[str]) -> list[str]:
    """Return the tests that are still there; of a lost one its file, if that is there."""
    kept: dict[str, None] = {}
    for file, _, name in (test.partition("::") for test in tests):
        if not Path(file).exists():
            continue
        is_there = f"def {name}(" in Path(file).read_text("utf-8")
        kept.setdefault(f"{file}::{name}" if is_there else file)
    return list(kept)[:TESTS]


def run(mistake: dict[str, Any]) -> dict[str, Any]:
    """Plant a mistake, run its tests until one fails, and restore the file, also on Ctrl-C."""
    file, old = Path(mistake["file"]), mistake["old"]
    source, times = file.read_bytes(), file.stat()
    text = source.decode()
    places = [i for i in range(len(text)) if text.startswith(old, i)]
    if not places:
        return mistake | {"seen": "gone", "by": "the text is not there"}
    i = min(places, key=lambda i: abs(text.count("\n", 0, i) + 1 - mistake["line"]))
    with tempfile.NamedTemporaryFile("w") as listed:
        listed.write("\n".join(mistake["tests"]))
        listed.flush()
        command = [sys.executable, *PYTEST, f"@{listed.name}"]
        environment = os.environ | {"PYTHONDONTWRITEBYTECODE": "1"}  # which would outlive the file
        try:
            file.write_text(text[:i] + mistake["new"] + text[i + len(old) :], encoding="utf-8")
            done = subprocess.run(command, capture_output=True, timeout=SECONDS, env=environment)
        except subprocess.TimeoutExpired:
            return mistake | {"seen": "not decided", "by": f"not done after {SECONDS} s"}
        finally:
            file.write_bytes(source)
            os.utime(file, ns=(times.st_atime_ns, times.st_mtime_ns))
    rows = (done.stdout + done.stderr).decode().strip().splitlines() or ["no output"]
    is_import = any(x.startswith("ERROR tests/") or "while loading conftest" in x for x in rows)
    if done.returncode in (3, 4) and not is_import:
        raise SystemExit(f"pytest ended with {done.returncode}: {rows[-5:]}")
    by = next((row for row in rows if row.startswith(("FAILED", "ERROR"))), rows[-1])
    seen = "NOT SEEN" if done.returncode in (0, 5) else "seen"
    return mistake | {"seen": seen, "by": by.split(" - ")[0]}


def main(words: list[str] | None = None) -> None:
    """Plant, run, print, and record."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("globs", nargs="*", help="modules, from the root of the repository")
    parser.add_argument("--count", type=int, default=30, help="number of mistakes")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--coverage", help="a database of coverage with a context per test")
    parser.add_argument("--record", help="append a JSON line for each mistake")
    parser.add_argument("--replay", help="plant the mistakes of a record instead of new ones")
    options = parser.parse_args(words)
    chosen: list[dict[str, Any]]
    if options.replay:
        chosen = [json.loads(row) for row in Path(options.replay).read_text("utf-8").splitlines()]
    else:
        files = sorted({str(file) for x in options.globs for file in Path().glob(x)})
        rows = [(f, *row) for f in files for row in candidates(Path(f).read_text("utf-8"))]
        random.Random(options.seed).shuffle(rows)
        chosen = [dict(zip(("file", "line", "what", "old", "new"), x, strict=True)) for x in rows]
    seen: list[str] = []
    for mistake in chosen:
        if not options.replay and len(seen) >= options.count:
            break
        saw = mistake.get("by", "").removeprefix("FAILED ").split("[")[0]  # runs first
        tests = [saw] * ("::" in saw) + mistake.get("tests", [])
        if options.coverage:
            tests = tests_of(options.coverage, mistake["file"], mistake["line"])
        mistake["tests"] = existing(tests)
        if mistake["tests"]:
            result = run(mistake)
            seen.append(result["seen"])
            print(
                f"{seen[-1]}: {mistake['file']}:{mistake['line']} {mistake['what']}, {result['by']}"
            )
            print(f"  - {mistake['old'].strip()}\n  + {mistake['new'].strip()}", flush=True)
            if options.record:
                with Path(options.record).open("a", encoding="utf-8") as stream:
                    stream.write(json.dumps(result) + "\n")
    print(f"{seen.count('seen')} of {len(seen)} seen")


if __name__ == "__main__":
    signal.signal(signal.SIGTERM, lambda *_: sys.exit("stopped"))  # after restoring
    main()
