"""Planted mistakes are seen by the test that passes the line, and the file is as it was."""

from __future__ import annotations

import json
import runpy
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[1] / "tools/mutants.py"
SOURCE = "def clipped(x, limit):\n    if x > limit:\n        return limit\n    return x + 0\n"
TEST = "from size import clipped\n\ndef test_clipped():\n    assert clipped(3, 2) == 2\n"


def test_mistakes_are_planted_again_and_the_file_is_restored(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A test of the first branch sees what changes it, and no mistake of the other."""
    monkeypatch.chdir(tmp_path)
    Path("size.py").write_text(SOURCE)
    Path("test_size.py").write_text(TEST)
    tool = runpy.run_path(str(TOOL))
    planted = [
        dict(zip(("line", "what", "old", "new"), row, strict=True))
        | {"file": "size.py", "tests": ["test_size.py::test_clipped", "test_gone.py::test_gone"]}
        for row in tool["candidates"](SOURCE)
    ]
    assert [(x["line"], x["what"], x["new"].strip()) for x in planted] == [
        (2, "branch negated", "if (not x > limit):"),
        (2, "comparison turned", "if (x >= limit):"),
        (3, "neighbor returned", "return x"),
        (4, "neighbor returned", "return x"),
        (4, "operator exchanged", "return (x - 0)"),
        (4, "constant changed", "return x + (1)"),
    ]
    chosen = [planted[0], planted[1], planted[2]]
    Path("record").write_text("".join(json.dumps(x) + "\n" for x in chosen))
    tool["main"](["--replay", "record"])
    assert capsys.readouterr().out.endswith("2 of 3 seen\n")
    assert Path("size.py").read_text() == SOURCE
