"""The page of other libraries' suites, from a report that is written by hand."""

from __future__ import annotations

from pathlib import Path

from looped import looped

FILE = "tests/peers/test_torch_modules.py"
MODULE = "tests.peers.test_torch_modules"
REPORT = f"""<testsuites><testsuite>
<testcase classname="{MODULE}.TestA" file="site-packages/base.py" name="a[LSTM]" time="1.5"/>
<testcase classname="{MODULE}" name="a[KBRN]" time="0.5">{{child}}</testcase>
<testcase classname="{MODULE}" name="a[control nn.LSTM]" time="1"/>
<testcase classname="{MODULE}" name="a[control nn.GRU]" time="1">
<skipped type="pytest.xfail" message="no | hook"/></testcase>
</testsuite></testsuites>"""
OUTCOMES = {
    "": ("2 | 2 | 0 | 0 | 0 | 1 of 2", []),
    '<failure message="1 != 2">…</failure>': ("2 | 1 | 1 | 0 | 0 | 1 of 2", ["1 != 2"]),
    '<error message="left a file"/>': ("2 | 1 | 1 | 0 | 0 | 1 of 2", ["left a file"]),
    '<skipped type="pytest.xfail" message="a reason"/>': ("2 | 1 | 0 | 1 | 0 | 1 of 2", []),
    '<skipped type="pytest.xfail" message=""/>': (
        "2 | 1 | 0 | 1 | 0 | 1 of 2",
        ["no reason is given"],
    ),
    '<skipped type="pytest.skip" message="no GPU"/>': ("2 | 1 | 0 | 0 | 1 | 1 of 2", []),
}


@looped("child", OUTCOMES)
def test_the_page_counts_outcomes_and_a_failure_needs_a_reason(bench, tmp_path: Path, child: str):
    peers, (counts, reasons) = bench("peers"), OUTCOMES[child]
    report = tmp_path / "report.xml"
    report.write_text(REPORT.format(child=child), encoding="utf-8")
    found = peers.cases(report)
    first = peers.suite_table(found).splitlines()[2]
    assert first.startswith("| torch: ModuleInfo")
    assert first.endswith(f"| {counts} |")
    assert "| torch 2." in first
    assert sum(case.seconds for case in found) == 4.0
    assert peers.failures(found) == [f"{FILE}: a[KBRN]: {reason}" for reason in reasons]
    shown = peers.reason_table(found)
    assert "| expected to fail | 1 | `a[control nn.GRU]` | no \\| hook |" in shown
    assert ("a[KBRN]" in shown) == bool(child)
