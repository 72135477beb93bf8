"""Freed memory is used again, where asked for and only there."""

from __future__ import annotations

import subprocess
import sys
from dataclasses import fields
from pathlib import Path

import pytest

from representer.cli import main
from representer.cli.main import entry_point
from representer.options.text import TextConfig
from representer.tasks import recipe
from representer.tasks.flow import EstimatorTask
from representer.training import generators
from representer.training.generators import keep_freed_memory

SIZES = (40, 30, 10)  # MiB; above 32, glibc always maps afresh unless told otherwise

_STEPS = f"""
import resource, torch, representer
from representer.training.generators import keep_freed_memory
if {{keeps}}: assert keep_freed_memory()
for step in range(16):  # so many that a heap which grows once more is a small part
    if step == 8: before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
    tensors = [torch.ones(size * 2**18) for size in {SIZES}]
    del tensors
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""


def faults(keeps: bool) -> int:
    """Return the page faults of eight steps after the eighth, in a process of their own."""
    program = _STEPS.format(keeps=keeps)
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    return int(ran.stdout)


@pytest.mark.slow
@pytest.mark.skipif(
    generators.platform.libc_ver()[0] != "glibc", reason="the setting is one of glibc's"
)
def test_freed_memory_is_returned_on_request():
    program = """
import torch
from pathlib import Path
from representer.training.generators import keep_freed_memory, return_freed_memory
def resident(): return int(Path("/proc/self/statm").read_text().split()[1])
assert keep_freed_memory()
before = resident()
tensors = [torch.ones(2**18) for _ in range(64)]  # 64 MiB
last = torch.ones(2**10)
del tensors
kept = resident() - before
assert return_freed_memory()
print(kept, resident() - before)
"""
    ran = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    kept, left = map(int, ran.stdout.split())  # pages
    assert kept > 10_000
    assert left < 4_000


@pytest.mark.slow
@pytest.mark.skipif(
    generators.platform.libc_ver()[0] != "glibc", reason="the setting is one of glibc's"
)
def test_freed_memory_is_reused_on_request_and_importing_changes_nothing():
    assert 4 * faults(keeps=True) < faults(keeps=False)


def test_the_commands_that_train_ask_for_it(monkeypatch: pytest.MonkeyPatch):
    asked: list[str] = []
    monkeypatch.setattr(generators, "keep_freed_memory", lambda: asked.append("asked"))
    monkeypatch.setattr(EstimatorTask, "fit", lambda task, config: asked.append("fitted"))
    made = {field.name: getattr(TextConfig(demo=False), field.name) for field in fields(TextConfig)}
    main.load("fit text").run(made | main.USUAL | {"launch": None})
    assert asked == ["asked", "fitted"]


def test_the_command_that_reproduces_asks_for_it(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
):
    asked: list[str] = []
    table = tmp_path / "table.md"
    table.write_text("the table\n", encoding="utf-8")

    def reproduce(request: recipe.Request) -> Path:
        asked.append("reproduced")
        return table

    made_up = recipe.Recipe("made-up", "none", "made up", reproduce)
    monkeypatch.setattr(recipe, "installed_recipes", lambda: {"made-up": made_up})
    monkeypatch.setattr(generators, "keep_freed_memory", lambda: asked.append("asked"))
    assert entry_point(["reproduce", "made-up", "--out", str(tmp_path)]) == 0
    assert asked == ["asked", "reproduced"]
    assert "the table" in capsys.readouterr().out


@pytest.mark.parametrize(("system", "libc"), [("darwin", "glibc"), ("linux", "musl")])
def test_elsewhere_nothing_is_touched(monkeypatch: pytest.MonkeyPatch, system: str, libc: str):
    monkeypatch.setattr(generators.sys, "platform", system)
    monkeypatch.setattr(generators.platform, "libc_ver", lambda: (libc, ""))
    monkeypatch.setattr(generators.ctypes, "CDLL", lambda name: pytest.fail("it was loaded"))
    assert not keep_freed_memory()


def test_a_libc_that_takes_only_the_smaller_size_gets_it(monkeypatch: pytest.MonkeyPatch):
    taken: dict[int, int] = {}

    class Libc:
        @staticmethod
        def mallopt(which: int, size: int) -> int:
            if size > 2**25:
                return 0
            taken[which] = size
            return 1

    class Loaded:
        mallopt = type("Function", (), {"__call__": lambda self, *a: Libc.mallopt(*a)})()

    monkeypatch.setattr(generators.sys, "platform", "linux")
    monkeypatch.setattr(generators.platform, "libc_ver", lambda: ("glibc", "2.31"))
    monkeypatch.setattr(generators.ctypes, "CDLL", lambda name: Loaded)
    assert keep_freed_memory()
    assert taken == {-3: 2**25, -1: 2**25}
