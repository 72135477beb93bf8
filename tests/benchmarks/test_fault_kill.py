"""A few cases of the suites of faults while a run is made."""

from __future__ import annotations

import pytest


@pytest.mark.slow  # minutes in full; the command trains each time
def test_a_killed_fit_continues_to_the_bit(bench, failures) -> None:
    kill = bench("faults.kill")
    kill.setup()
    kinds = {}
    for case in kill.cases(0, 0.04):
        if case.group == "fit text":
            kinds.setdefault(case.name.split(" ", 2)[2], case)
    assert len(kinds) == 3
    assert failures(kinds.values()) == []


@pytest.mark.slow  # as above
def test_a_stopped_fit_ends_at_once_and_continues_to_the_bit(bench, failures) -> None:
    signals = bench("faults.signals")
    signals.setup()
    chosen = [case for case in signals.cases(0, 0.3) if case.name.startswith("text")]
    assert chosen
    assert failures(chosen) == []


@pytest.mark.slow  # as above
def test_failing_disks_and_two_runs_in_one_folder_lose_nothing(bench, failures) -> None:
    system = bench("faults.system")
    system.setup()
    tried = [case for case in system.cases(0, 0.01) if case.name.split(":")[0] != "environment"]
    assert len(tried) > 10
    assert failures(tried) == []


@pytest.mark.slow  # processes of its own
def test_a_process_that_was_killed_is_started_again_by_torchrun(bench, failures) -> None:
    processes = bench("faults.several_processes")
    processes.setup()
    found = [case for case in processes.cases(0, 1.0) if " kill of " in case.name]
    assert failures(found[:1]) == []
