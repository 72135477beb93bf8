"""The suites of the fault campaign for the operations: a few cases of each, a planted mistake."""

from __future__ import annotations

import pytest
import torch

from representer.ops import core

pytestmark = pytest.mark.skipif(bool(core.MISSING), reason=core.MISSING)
SUITES = ("operators", "long_sequences", "sanitizers")
CHOSEN = {
    "operators": ("gated_scan-cpp-{}-float32-strided", "kbrn_scan-cpp-{}-empty",
                  "rkm-strides-{}", "product-strides-{}", "far-sequences-{}"),
    "long_sequences": ("1-multiply-no-last-given-0-identity-0.5-torch.float32",),
}  # fmt: skip


@pytest.mark.parametrize("suite", SUITES)
def test_the_names_of_cases_are_unique_and_those_of_a_small_share_are_among_them(bench, suite):
    made = bench(f"faults.{suite}").SUITE
    names = [case.name for case in made.cases(0, 1.0)]
    assert len(set(names)) == len(names)
    assert {case.name for case in made.cases(0, 0.1)} < set(names)


@pytest.mark.parametrize("suite", CHOSEN)
def test_cases_pass(bench, failures, suite):
    cases = {case.name: case for case in bench(f"faults.{suite}").SUITE.cases(0, 1.0)}
    assert failures(cases[name.format(core.USABLE[0])] for name in CHOSEN[suite]) == []


def test_a_wrong_gradient_is_noticed(bench, monkeypatch):
    operators = bench("faults.operators")
    monkeypatch.setattr(operators, "evaluated", lambda *given: {"result 0": torch.zeros(1, 1, 1)})
    with pytest.raises(AssertionError, match="result 0"):
        operators.matches(operators.OPS["gated_scan"], "reference", torch.float64, "contiguous")


@pytest.mark.slow  # compiles a program
def test_recorded_calls_can_be_repeated_without_python(bench):
    sanitizers = bench("faults.sanitizers")
    name = core.USABLE[-1]
    for group in sanitizers.GROUPS:
        calls = sanitizers.recorded(name, 4) / f"{group}.calls"
        done = sanitizers.run("none", calls, name, 2)
        assert done.returncode == 0, sanitizers.reported(done)
