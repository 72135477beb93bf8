"""The benchmark of the cells: what it counts and compares, and that it refuses wrong kernels."""

from __future__ import annotations

import sys
from itertools import count
from pathlib import Path
from types import ModuleType

import pytest
import torch
from torch import nn

from representer.nn import RKMLSTM
from representer.ops import core
from representer.ops.selection import chosen_backend


def test_every_candidate_runs_once_a_round_and_a_slow_one_in_a_few(bench):
    timing: ModuleType = bench("timing")
    seconds, now = {"ours": 1.0, "theirs": 3.0, "loop": 50.0}, [0.0]

    def taking(name: str):
        def run() -> None:
            now[0] += seconds[name]

        return run

    candidates = [timing.Candidate(name, taking(name), name == "loop") for name in seconds]
    rounds = timing.interleave(candidates, lambda: now[0], 10, 3)
    assert {name: len(taken) for name, taken in rounds.seconds.items()} == {
        "ours": 10,
        "theirs": 10,
        "loop": 3,
    }
    assert rounds.ratio("theirs", "ours").median == 3
    assert rounds.ratio("loop", "ours") == timing.Spread(50, 50, 50)


def test_a_ratio_is_taken_within_each_round(bench):
    timing: ModuleType = bench("timing")
    ours, theirs = {0: 1.0, 1: 2.0, 2: 4.0}, {0: 2.0, 1: 4.0, 2: 8.0, 3: 100.0}
    ratio = timing.Rounds({"ours": ours, "theirs": theirs}).ratio("theirs", "ours")
    assert ratio == timing.Spread(2, 2, 2)


def test_the_operations_are_those_of_the_products(bench):
    cases: ModuleType = bench("cases")
    size = cases.Size(5, 3, 7, 11)
    made = cases.layers(size, eager=True)
    counted = {n: cases.operations(layer, size, cases.FORWARD) for n, layer in made.items()}
    one_gate = 2 * 5 * 3 * 11 * (7 + 11)
    assert counted["nn.LSTM"] == counted["RKM-LSTM"] == 4 * one_gate
    assert counted["nn.GRU"] == counted["RKM-CIFG"] == 3 * one_gate
    assert counted["Linear Kernel"] == one_gate
    assert counted[cases.UNBOUND] is None
    training, no_input = (
        cases.operations(made["RKM-LSTM"], size, mode)
        for mode in (cases.TRAINING, cases.NO_INPUT_GRADIENT)
    )
    assert training == 3 * counted["RKM-LSTM"]
    assert training - no_input == 4 * 2 * 5 * 3 * 11 * 7


def test_goals_stand_beside_an_earlier_page_and_their_bound(bench, tmp_path: Path):
    results, timing, machine, report = map(bench, ("results", "timing", "machine", "report"))
    goal = results.Goal(1, "words", "forward", "RKM-LSTM", "nn.LSTM", 1.5)
    limits = {
        1: machine.Limits(1, dict.fromkeys(core.USABLE, 1e9), {}),
        2: machine.Limits(2, dict.fromkeys(core.USABLE, 1.9e9), {}),
    }
    page = tmp_path / "earlier.md"

    def table(seconds: float, before: Path | None) -> list[str]:
        rounds = timing.Rounds({"nn.LSTM": {0: seconds}, "RKM-LSTM": {0: 1.0}})
        measured = results.Measured(rounds, {"RKM-LSTM": 5e8}, (0.0, 0.0))
        found = results.Results(limits, {(1, "words", "forward"): measured})
        return report.goals_table([goal.judged(found)], before).splitlines()

    page.write_text("# A page\n\n" + "\n".join(table(2.0, None)) + "\n\n## Another table\n")
    head, _, row = table(1.4, page)[-3:]
    assert head == "| what | goal | before | measured | bound |  |"
    figures = "≥ 1.50 | 2.00 (2.00 – 2.00) | 1.40 (1.40 – 1.40) | 2.80 | missed |"  # 1.4 / 0.5 s
    assert row.endswith(f"forward: speedup over nn.LSTM | {figures}")

    on_two = results.Goal(2, "words", "forward", "RKM-LSTM", "RKM-LSTM, one thread", 1.8)
    rounds = timing.Rounds({"RKM-LSTM": {0: 1.0}, on_two.over: {0: 1.7}})
    measured = results.Measured(rounds, {"RKM-LSTM": 5e8}, (0.0, 0.0))
    found = results.Results(limits, {(2, "words", "forward"): measured})
    assert on_two.judged(found).bound == 1.9
    page.write_text("# Not such a page\n")
    with pytest.raises(SystemExit, match="there is no table of goals"):
        results.earlier(page)


@pytest.mark.parametrize("by_index", [True, False])
def test_the_eager_loop_is_the_layer(bench, by_index: bool):
    layer, x = RKMLSTM(4, 6), torch.randn(5, 2, 4)
    loop = bench("eager").EagerRKMLSTM(layer, by_index=by_index)
    torch.testing.assert_close(loop(x)[0], layer(x)[0])


class _Wrong(RKMLSTM):
    def forward(self, input, state=None):
        output, state = super().forward(input, state)
        return (output if chosen_backend() else output * 1.001), state


def test_a_wrong_kernel_is_not_timed(bench, monkeypatch: pytest.MonkeyPatch):
    verify, cases = bench("verify"), bench("cases")
    size = cases.Size(3, 2, 4, 5)
    verify.verify(size)
    right = cases.layers

    def with_a_wrong_one(size, *, eager):
        return {**right(size, eager=eager), "RKM-LSTM": _Wrong(4, 5)}

    monkeypatch.setattr(verify, "layers", with_a_wrong_one)
    with pytest.raises(SystemExit, match=r"RKM-LSTM at .* is off by .*: not timed"):
        verify.verify(size)


def test_a_goal_is_met_or_missed_by_what_was_measured(bench):
    results, timing, machine = bench("results"), bench("timing"), bench("machine")
    goal = results.Goal(1, "words", "forward", "RKM-LSTM", "nn.LSTM", 1.5)
    found = results.Results({1: machine.Limits(1, dict.fromkeys(core.USABLE, 1e9), {})})
    assert goal.found(found) is None
    for seconds, verdict in ((2.0, "met"), (1.4, "missed")):
        rounds = timing.Rounds({"nn.LSTM": {0: seconds}, "RKM-LSTM": {0: 1.0}})
        measured = results.Measured(rounds, {"RKM-LSTM": 5e8}, (0.1, 9.0))
        found.measured[1, "words", "forward"] = measured
        assert goal.verdict(found) == verdict
    of_peak = results.Goal(1, "words", "forward", "RKM-LSTM", results.PEAK, 0.4)
    assert of_peak.found(found).median == 0.5
    two = results.Goal(2, "words", "forward", "RKM-LSTM", "nn.LSTM", 1.0)
    found.measured[2, "words", "forward"] = measured
    assert two.verdict(found) == "met, at a load of 9.0: not a quiet machine"


@pytest.mark.skipif(bool(core.MISSING), reason=core.MISSING)
def test_a_quick_run_writes_a_page(bench, monkeypatch: pytest.MonkeyPatch, tmp_path: Path):
    cells, page = bench("cells"), tmp_path / "results" / "cpu.md"
    command = ["benchmarks/cells.py", "--quick", "--cases", "step", "--out", str(page)]
    monkeypatch.setattr(sys, "argv", command)
    loads = count(1)
    monkeypatch.setattr(cells, "load", lambda: f"{next(loads)}.00")
    monkeypatch.setitem(bench("measure").STEP_MODES, bench("cases").IN_SUCCESSION, (2, 1))
    cells.main()
    text = page.read_text()
    assert [line for line in text.splitlines() if line.startswith("#")] == [
        "# CPU: measured speeds",
        "## Limits of the machine",
        "## Goals",
        "## One thread, CPU time",
        "### one step, B = 1, m = d = 300",
    ]
    for told in (
        f"python {' '.join(command)}",
        f"torch {torch.__version__}",
        "1.00 → 2.00",
        "three rounds: not to be quoted",
        "| RKM-LSTM, one step, B = 1, m = d = 300, steps in succession: speedup over nn.LSTM |",
    ):
        assert told in text
    rows = [line.split(" | ")[0] for line in text.partition("### one step")[2].splitlines()]
    assert [row.strip("| ") for row in rows if row.startswith("| ")][2:] == [
        "nn.LSTM",
        "nn.LSTMCell",
        *(cases := bench("cases")).OURS,
        *(name + cases.STREAM for name in cases.OURS),
        cases.READING,
    ]
    assert list(page.parent.iterdir()) == [page]


def test_what_is_not_there_is_refused(bench, monkeypatch: pytest.MonkeyPatch):
    cells = bench("cells")
    monkeypatch.setattr(sys, "argv", ["cells.py", "--threads", "4096"])
    with pytest.raises(SystemExit, match=r"--threads 4096: this process may use 1 to"):
        cells.main()
    monkeypatch.setattr(core, "LIBRARY", None)
    monkeypatch.setattr(core, "MISSING", "there is no core")
    with pytest.raises(SystemExit, match="there is no core"):
        cells.main()


def test_a_peer_of_torch_counts_its_gates(bench):
    cases = bench("cases")
    size = cases.Size(1, 1, 1, 1)
    assert cases.operations(nn.LSTM(1, 1), size, cases.FORWARD) == 16


def test_a_step_is_reported_in_microseconds_per_call(bench):
    report, results, timing, machine = (
        bench(name) for name in ("report", "results", "timing", "machine")
    )
    (mode, (calls, _)), *_ = bench("measure").STEP_MODES.items()
    seconds = {"nn.LSTM": 2.0, "nn.LSTMCell": 1.0, "RKM-LSTM": 0.5}
    rounds = timing.Rounds({name: {0: calls * taken * 1e-4} for name, taken in seconds.items()})
    found = results.Results({1: machine.Limits(1, {}, {})})
    found.measured[1, results.STEPS, mode] = results.Measured(rounds, {}, (0.0, 0.0))
    (text,) = report._steps(found)
    assert text.splitlines()[-1] == (
        "| RKM-LSTM | 50.0 (50.0 – 50.0) | 4.00 (4.00 – 4.00) | 2.00 (2.00 – 2.00) |"
    )
