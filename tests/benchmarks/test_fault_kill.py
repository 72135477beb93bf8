"""A few cases of the suites of faults while a run is made."""

from __future__ import annotations

import pytest


@pytest.mark.slow  # minutes in full; the command trains each time
def test_a_killed_fit_continues_to_the_bit(bench) -> None:
    kill = bench("faults.kill")
    kill.setup()
    kinds = {}
    for case in kill.cases(0, 0.2):
        if case.group == "fit text":
            kinds.setdefault(case.name.split(" ", 2)[2], case)
    assert len(kinds) == 3
    for case in kinds.values():
        case.run()


@pytest.mark.slow  # as above
def test_a_stopped_fit_ends_at_once_and_continues_to_the_bit(bench) -> None:
    signals = bench("faults.signals")
    signals.setup()
    for case in signals.cases(0, 0.3):
        if case.name.startswith("text"):
            case.run()
