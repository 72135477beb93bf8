"""The benchmark of language models: the products that it counts, and what it writes."""

from __future__ import annotations

from types import ModuleType

import pytest
import torch

from representer.ops import core


@pytest.fixture
def language(bench) -> ModuleType:
    """Return the script as a module."""
    return bench("language")


def test_the_products_are_three_times_those_of_the_forward_pass(
    language: ModuleType, monkeypatch: pytest.MonkeyPatch
):
    counted = 0

    def count(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        nonlocal counted
        counted += a.shape[0] * a.shape[1] * b.shape[1]
        return torch.empty(0)

    monkeypatch.setattr(torch.Tensor, "__matmul__", count)
    size = language.Size("tiny", 4, 6, 2, 3)
    language.products(size, 4, 4)()
    layers = [(4, 6), (6, 6), (6, 4)]
    assert size.layers == layers
    rows = 2 * 3
    forward = sum(rows * 4 * d * (m + d) for m, d in layers) + rows * 4 * language.WORDS
    assert counted == 3 * forward


@pytest.mark.skipif(core.LIBRARY is None, reason=core.MISSING or "")
def test_every_model_is_timed_and_told(language: ModuleType, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(language, "WORDS", 20)
    monkeypatch.setitem(language.SIZES, "5m", language.Size("tiny", 4, 4, 2, 3))
    page = language.page({"5m": language.measure(language.SIZES["5m"], 1)}, ("0.1", "0.2"))
    rows = [line for line in page.splitlines() if line.startswith("| ") and " % |" in line]
    assert [row.split("|")[1].strip() for row in rows] == list(language.CELLS)
    assert "| 1.00 | 1.00 |" in rows[0]
    assert all(("met" in row) != ("missed" in row) for row in rows[1:])


def test_steps_learn(language: ModuleType, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(language, "WORDS", 20)
    size = language.Size("tiny", 4, 4, 2, 3)
    model = language.build(size, {"cell": "rkm-lstm"})
    run = language.step(model, size, has_softmax=True)
    first = run()
    for _ in range(20):
        last = run()
    assert last < first


def test_a_row_has_speed_times_and_ratios_of_its_own_model(language: ModuleType, bench):
    seconds = {
        f"{cell}, {part}": taken * (1 if cell == language.THEIRS else 0.5)
        for cell in language.CELLS
        for part, taken in ((language.WHOLE, 2.0), (language.LAYERS, 0.8), ("products", 1.5))
    }
    rounds = bench("timing").Rounds({name: {0: taken} for name, taken in seconds.items()})
    rows = language._table("5m", rounds).splitlines()[2:]
    assert rows[0] == "| nn.LSTM | 560 | 2000 | 800 | 25 % | 1.00 | 1.00 |  |"
    assert rows[1] == "| RKM-LSTM | 1,120 | 1000 | 400 | 25 % | 2.00 | 2.00 | ≥ 1: met |"
    seconds["RKM-LSTM, " + language.WHOLE] = 4.0
    rounds = bench("timing").Rounds({name: {0: taken} for name, taken in seconds.items()})
    assert language._table("5m", rounds).splitlines()[3].endswith("| 0.50 | 2.00 | ≥ 1: missed |")
