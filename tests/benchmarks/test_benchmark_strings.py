"""The benchmark of the string-kernel layers: what it counts, compares, refuses and writes."""

from __future__ import annotations

import importlib
import sys
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import nn

from representer.nn import StringKernelRNN
from representer.ops import core
from representer.ops.selection import chosen_backend


@pytest.fixture
def strings(bench, monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """Return the script as a module, without the package that compiles itself."""
    monkeypatch.setitem(sys.modules, "sru", None)  # so that importing it fails
    return bench("strings")


def test_the_operations_are_those_of_the_products(strings: ModuleType):
    size = importlib.import_module("cases").Size(5, 3, 7, 7)
    one = 2 * 5 * 3 * 7 * 7
    counted = {name: strings.operations(name, size, strings.FORWARD) for name in strings.LAYERS}
    assert counted == {
        strings.HIGHWAY: 3 * one,
        "order 1": 2 * one,
        "order 2": 3 * one,
        "order 3": 4 * one,
        "order 1, gate on x and h": 3 * one,
    }
    assert strings.operations(strings.SRU, size, strings.TRAINING) == 9 * one
    assert strings.operations(strings.LSTM, size, strings.FORWARD) == 8 * one
    for name in strings.LAYERS:
        weights = [p for p in strings.ours(name, size).parameters() if p.dim() > 1]
        matrices = sum(p.numel() for p in weights if p.shape[-1] == 7 and p.numel() >= 49)
        assert matrices * 2 * 15 == counted[name], name


class _Wrong(StringKernelRNN):
    def forward(self, input, state=None):
        output, state = super().forward(input, state)
        return (output if chosen_backend() else output * 1.001), state


def test_a_wrong_kernel_is_not_timed(strings: ModuleType, monkeypatch: pytest.MonkeyPatch):
    size = importlib.import_module("cases").Size(3, 2, 4, 4)
    strings.verify(strings.HIGHWAY, size)
    monkeypatch.setattr(strings, "StringKernelRNN", _Wrong)
    with pytest.raises(SystemExit, match=r"order 1, highway at .* is off by .*: not timed"):
        strings.verify(strings.HIGHWAY, size)


def test_a_package_that_is_not_there_is_left_out_with_the_reason(strings: ModuleType):
    package, reason = strings.import_sru()
    assert package is None
    assert reason.startswith("left out: import of sru halted")
    assert "pip install --no-deps sru==2.6.0" in reason


def test_the_peer_is_timed_where_it_is_there(strings: ModuleType):
    class Peer:
        @staticmethod
        def SRU(features: int, units: int, num_layers: int) -> nn.Module:
            return nn.LSTM(features, units, num_layers)

    size = importlib.import_module("cases").Size(3, 2, 4, 4)
    made = strings.candidates(size, strings.TRAINING, Peer)
    assert [c.name for c in made] == [*strings.LAYERS, "nn.LSTM", "sru"]
    assert [c.name for c in made if c.is_slow] == ["sru"]
    for candidate in made:
        candidate.run()


@pytest.mark.skipif(bool(core.MISSING), reason=core.MISSING)
def test_a_quick_run_writes_a_page(
    strings: ModuleType, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    path, cases = tmp_path / "results" / "strings.md", importlib.import_module("cases")
    command = ["benchmarks/strings.py", "--quick", "--cases", "words", "--out", str(path)]
    monkeypatch.setattr(sys, "argv", command)
    monkeypatch.setitem(cases.SIZES, "words", cases.Size(4, 2, 6, 6))
    threads = torch.get_num_threads()
    strings.main()
    torch.set_num_threads(threads)
    text = path.read_text()
    assert [line for line in text.splitlines() if line.startswith("#")] == [
        "# String-kernel layers: measured speeds",
        "## Limits of the machine",
        "## Goals",
        "## (T, B, m, d) = (4, 2, 6, 6), forward",
        "## (T, B, m, d) = (4, 2, 6, 6), forward + backward",
    ]
    for told in (
        f"python {' '.join(command)}",
        f"torch {torch.__version__}",
        "| sru | left out: ",
        "not to be quoted",
        "| order 2, (T, B, m, d) = (4, 2, 6, 6), forward: speedup over nn.LSTM | ≥ 2.20 |",
    ):
        assert told in text
    assert "speedup over sru" not in text
    assert list(path.parent.iterdir()) == [path]


@pytest.mark.parametrize(("lstm", "verdict"), [(3.0, "met"), (2.0, "missed")])
def test_a_goal_is_met_by_the_median_and_shares_are_of_the_peak(
    strings: ModuleType, lstm: float, verdict: str
):
    timing, machine, results = map(importlib.import_module, ("timing", "machine", "results"))
    key = (1, "words", strings.FORWARD)
    rounds = timing.Rounds({
        "order 2": dict.fromkeys(range(8), 1.0),
        strings.LSTM: dict.fromkeys(range(5), lstm) | dict.fromkeys(range(5, 8), 9.0),
    })  # fmt: skip
    limits = machine.Limits(1, dict.fromkeys(core.USABLE or ("none",), 1e9), {})
    counted = {"order 2": 2.5e8, strings.LSTM: 5e8}
    found = results.Results({1: limits}, {key: results.Measured(rounds, counted, (0.0, 0.0))})
    goal = results.Goal(*key, "order 2", strings.LSTM, 2.2)
    page = importlib.import_module("string_page").page(found, [goal], "python", ("0", "0"), "", "")
    rows = [line for line in page.splitlines() if line.startswith("| order 2")]
    at_the_peak = importlib.import_module("report").number(4 * lstm)
    assert rows[0].endswith(f"| {lstm:.2f} ({lstm:.2f} – 9.00) | {at_the_peak} | {verdict} |")
    assert rows[1].endswith("| 0.250 |")  # 2.5e8 operations in a second, at a peak of 1e9
