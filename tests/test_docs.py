"""The documentation works: examples run, commands and links exist."""

from __future__ import annotations

import ast
import contextlib
import doctest
import importlib
import io
import os
import re
import resource
import shlex
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from papers.conftest import _recipes_are_found  # noqa: F401  (an autouse fixture)
from representer.cli import main
from representer.cli.parser import parse

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]
TUTORIALS = sorted((ROOT / "docs/tutorials").glob("[!i]*.md"))
TUTORIAL_SECONDS = 180  # of CPU time, and one core is enough
NO_RUN = "<!-- no-run -->"
PEERS = "<!-- peers -->"  # above a block that needs a package of the extra `peers`
BLOCK = re.compile(rf"^({PEERS}\n)?( *)```(\w+)\n(.*?)^\2```$", re.MULTILINE | re.DOTALL)
LINK = re.compile(r"\]\(([^)\s]+)\)|^\[[^\]]+\]: (\S+)$", re.MULTILINE)
MAKE_TARGETS = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text("utf-8"), re.MULTILINE)


def name_of(page: Path) -> str:
    return str(page.relative_to(ROOT))


def blocks(page: Path, *languages: str, peers: bool = False) -> Iterator[tuple[int, str]]:
    """Yield the fenced blocks of some languages with the lines at which they begin.

    Those that need a package of the extra `peers` are left out, or yielded alone.
    """
    text = page.read_text(encoding="utf-8")
    for found in BLOCK.finditer(text):
        if found[3] in languages and bool(found[1]) == peers:
            yield text.count("\n", 0, found.start(4)) + 1, found[4]


def run_block(code: str, namespace: dict[str, Any], place: str, line: int) -> None:
    """Run Python, a doctest, or a command that is shown with all that it prints."""
    if code.startswith("$ "):
        command, _, shown = code.partition("\n")
        printed = io.StringIO()
        with contextlib.redirect_stdout(printed), contextlib.redirect_stderr(printed):
            main.entry_point(shlex.split(command)[2:])
        assert printed.getvalue() == shown, f"{place}:{line}"
    elif code.startswith(">>>"):
        test = doctest.DocTestParser().get_doctest(code, namespace, place, place, line - 1)
        assert doctest.DocTestRunner().run(test, clear_globs=False).failed == 0, f"{place}:{line}"
        namespace.update(test.globs)
    else:  # blank lines in front, so that a traceback has the line of the page
        exec(compile("\n" * (line - 1) + code, place, "exec"), namespace)


def commands() -> Iterator[Any]:
    """Yield the lines of shell blocks, those that end in a backslash joined with the next."""
    for page in PAGES:
        for line, text in blocks(page, "sh"):
            for command in text.replace("\\\n", " ").splitlines():
                words = shlex.split(command, comments=True)
                while words and re.fullmatch(r"[A-Z_]+=\S*", words[0]):  # NAME=value COMMAND
                    words = words[1:]
                if words:
                    yield pytest.param(words, id=f"{name_of(page)}:{line}:{words[0]}")


@pytest.mark.slow
@pytest.mark.parametrize("page", TUTORIALS, ids=name_of)
def test_a_tutorial_runs_in_three_minutes(page, tmp_path):
    """As a program of its own, in an empty folder; the site shows it as a notebook."""
    code = "\n".join(code for _, code in blocks(page, "python"))
    (tmp_path / "tutorial.py").write_text(code, encoding="utf-8")
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    run = subprocess.run(
        [sys.executable, "tutorial.py"], cwd=tmp_path, capture_output=True, text=True,
        env={**os.environ, "MPLBACKEND": "agg"},
    )  # fmt: skip
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    assert run.returncode == 0, run.stderr
    seconds = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    assert seconds < TUTORIAL_SECONDS


@pytest.mark.parametrize("page", TUTORIALS, ids=name_of)
def test_what_a_tutorial_imports_exists(page):
    """The tutorials themselves are run by the slow tests alone."""
    trees = [ast.parse(code) for _, code in blocks(page, "python")]
    nodes = [node for tree in trees for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)]
    assert nodes
    names = [f"{node.module}.{alias.name}" for node in nodes for alias in node.names]
    assert [name for name in names if not exists(name)] == []


@pytest.mark.parametrize("page", [page for page in PAGES if page not in TUTORIALS], ids=name_of)
def test_the_examples_of_a_page_run_from_top_to_bottom(page, tmp_path, monkeypatch):
    if NO_RUN in page.read_text(encoding="utf-8"):
        pytest.skip("the page says that its examples are not run")
    monkeypatch.chdir(tmp_path)
    namespace: dict[str, Any] = {"__name__": "example"}
    for line, code in blocks(page, "python", "console"):
        run_block(code, namespace, name_of(page), line)


def programs() -> Iterator[Any]:
    """Yield the blocks that need a package of the extra `peers`, each a complete program."""
    for page in PAGES:
        for line, code in blocks(page, "python", peers=True):
            yield pytest.param(name_of(page), line, code, id=f"{name_of(page)}:{line}")


@pytest.mark.peers
@pytest.mark.parametrize(("place", "line", "code"), list(programs()))
def test_a_program_with_another_library_runs(place, line, code, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    run_block(code, {"__name__": "example"}, place, line)


def test_every_program_of_the_page_of_adapters_has_less_than_15_lines():
    page = ROOT / "docs/howto/adapters.md"
    found = [*blocks(page, "python"), *blocks(page, "python", peers=True)]
    lines = {line: sum(bool(text.strip()) for text in code.splitlines()) for line, code in found}
    assert {line: count for line, count in lines.items() if count >= 15} == {}


def exists(name: str) -> bool:
    module, _, attribute = name.rpartition(".")
    try:
        importlib.import_module(name)
    except ModuleNotFoundError:
        return bool(module) and hasattr(importlib.import_module(module), attribute)
    return True


@pytest.mark.parametrize("page", sorted((ROOT / "docs/reference").glob("*.md")), ids=name_of)
def test_every_object_of_a_reference_page_exists(page):
    names = re.findall(r"^::: (\S+)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    assert names
    assert [name for name in names if not exists(name)] == []


@pytest.mark.parametrize("words", list(commands()))
def test_a_command_of_the_docs_has_the_options_that_it_is_given(words, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    Path("settings.yaml").write_text("epochs: 3\n")
    if words[0] == "torchrun":
        words = words[words.index("-m") + 1 :]
    if words[0] == "representer":
        name, rest = main._find_command(words[1:])
        assert name is not None
        assert parse(name, main.load(name), rest) is not None
    elif words[0] == "make":
        assert set(words[1:]) <= set(MAKE_TARGETS)
    else:
        assert words[0] in ("pip", "python")


@pytest.mark.parametrize("page", [*PAGES, ROOT / "CHANGELOG.md"], ids=name_of)
def test_a_link_leads_to_a_file_that_there_is(page):
    targets = [found[1] or found[2] for found in LINK.finditer(page.read_text("utf-8"))]
    files = [t.partition("#")[0] for t in targets if not re.match(r"\w+:|#", t)]
    assert [f for f in files if not (page.parent / f).exists()] == []


@pytest.mark.parametrize(
    "part", ["nn", "functional", "ops", "kernels", "estimators", "explain", "models", "export"]
)
def test_every_public_name_is_in_the_reference(part):
    page = (ROOT / "docs" / "reference" / f"{part}.md").read_text("utf-8")
    public = importlib.import_module(f"representer.{part}").__all__
    assert [name for name in public if not re.search(rf"\b{name}\b", page)] == []


def test_a_page_that_must_run_is_seen_to_fail(tmp_path):
    page = tmp_path / "page.md"
    wrong = (
        ("python", "assert 1 == 2"), ("python", ">>> 1 + 1\n3"), ("console", "$ representer cels"),
    )  # fmt: skip
    page.write_text("".join(f"text\n```{kind}\n{code}\n```\n" for kind, code in wrong))
    found = list(blocks(page, "python", "console"))
    assert [line for line, _ in found] == [3, 7, 12]
    for line, code in found:
        with pytest.raises(AssertionError):
            run_block(code, {}, "page", line)


def test_every_file_that_a_contributor_is_sent_to_exists():
    pages = [ROOT / "CONTRIBUTING.md", *(ROOT / "docs" / "howto").glob("*.md")]
    named = {
        (page.name, path)
        for page in pages
        for path in re.findall(r"`([a-z_0-9/]+/[a-z_0-9]+\.py)`", page.read_text(encoding="utf-8"))
    }
    roots = (ROOT, ROOT / "src", ROOT / "src" / "representer")
    assert {(p, f) for p, f in named if not any((root / f).is_file() for root in roots)} == set()
    assert len(named) > 10
