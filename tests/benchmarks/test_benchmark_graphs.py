"""The benchmark of graphs: its candidates agree, and a wrong one is not timed."""

from __future__ import annotations

from types import ModuleType

import pytest
import torch

from representer.ops import core

pytestmark = pytest.mark.skipif(core.LIBRARY is None, reason=core.MISSING)


@pytest.fixture
def graphs(bench) -> ModuleType:
    """Return the script as a module."""
    return bench("graphs")


@pytest.mark.parametrize("backward", [False, True])
def test_every_sum_is_that_of_pyg(graphs, backward):
    for parts in graphs.PARTS:
        section = graphs.sums((9, 20, 3, 17), parts, backward)  # raises if they differ
        assert len(section.candidates) >= 2
        for candidate in section.candidates:
            candidate.run()


def test_a_wrong_sum_is_not_timed(graphs, monkeypatch):
    right = graphs.walk_aggregate
    monkeypatch.setattr(graphs, "walk_aggregate", lambda *a, **o: right(*a, **o) * 1.01)
    with pytest.raises(SystemExit, match="the values differ; nothing is timed"):
        graphs.sums((9, 20, 3, 17), "plain", False)


def test_an_epoch_trains_every_network(graphs, monkeypatch):
    made = []

    def recorded(build):
        return lambda *sizes, **options: made.append(build(*sizes, **options)) or made[-1]

    for name in ("Gine", "WLKernelNN"):
        monkeypatch.setattr(graphs, name, recorded(getattr(graphs, name)))
    monkeypatch.setattr(graphs, "COUNT", 4)
    for candidate, net in zip(graphs.epochs().candidates, made, strict=True):
        before = {name: weight.detach().clone() for name, weight in net.named_parameters()}
        candidate.run()
        same = [n for n, weight in net.named_parameters() if torch.equal(weight, before[n])]
        assert not same, candidate.name


def test_the_table_divides_the_baseline_by_each_candidate(graphs, bench):
    seconds = {graphs.OURS: 0.25, graphs.SCATTER: 1.0}
    rounds = bench("timing").Rounds({name: {0: taken} for name, taken in seconds.items()})
    text = graphs.text_of(graphs.Section("sums", [], graphs.SCATTER), rounds)
    assert f"speedup over {graphs.SCATTER}" in text
    assert f"| {graphs.OURS} | 250 (250 – 250) | 4.00 (4.00 – 4.00) |" in text
