"""The recipe of the charging problem."""

from __future__ import annotations

import json
from dataclasses import replace

from representer.tasks.recipe import Request
from representer_papers.kbdnn2018 import RECIPES, charging
from representer_papers.kbdnn2018.charging import ChargingSetting, _write_table, train_charging


def test_a_learned_unit_charges_within_a_few_updates():
    found = train_charging(ChargingSetting("kbrn", "authors_code", 0, 60, 500))
    updates, accuracies = zip(*found["curve"], strict=True)
    assert updates[0] == 1
    assert updates[-1] == 60
    assert accuracies[-1] > 0.75  # the better constant prediction reaches 0.55
    assert len(found["function"]) == 201


def test_the_budget_is_a_fraction_of_the_updates(tmp_path, monkeypatch):
    seen = []
    monkeypatch.setattr(charging.tables, "panels", lambda *_, **__: None)
    monkeypatch.setattr(
        charging, "train_charging", lambda s: seen.append(s) or {"curve": [[1, 0.5]], "ones": 0.4}
    )
    request = Request(tmp_path, tmp_path / "out", 0.25, seeds=(3,), cells=("rnn",))
    RECIPES["kbrn-charging"].run(replace(request, command="representer"))
    assert seen == [ChargingSetting("rnn", "paper", 3, 2_500, 25_000)]


def test_all_seeds_are_tested_on_the_same_sequences_and_trained_on_their_own(monkeypatch):
    draws, charge = [], charging.charging
    monkeypatch.setattr(
        charging,
        "charging",
        lambda size, preset, generator: (
            draws.append((size, generator.initial_seed())) or charge(size, preset, generator)
        ),
    )
    monkeypatch.setattr(charging, "BATCH", 4)
    for seed in (0, 1):
        train_charging(ChargingSetting("rnn", "paper", seed, 2, 7))
    tests, batches = ([d for d in draws if d[0] == size] for size in (7, 4))
    assert tests[0] == tests[1]
    assert len(set(batches)) == 4
    assert {seed for _, seed in batches}.isdisjoint({seed for _, seed in tests})


def test_a_row_shows_accuracies_after_some_updates_the_last_and_the_best(tmp_path, monkeypatch):
    monkeypatch.setattr(charging.tables, "panels", lambda *_, **__: None)
    curve = [[1, 0.1], [90, 0.5], [120, 0.6], [1000, 0.9], [9000, 0.95], [10_000, 0.8]]
    setting = {"cell": "rnn", "seed": 0, "preset": "paper", "updates": 10_000, "test": 5}
    folder = tmp_path / "paper-rnn-seed0"
    folder.mkdir()
    (folder / "recipe.json").write_text(json.dumps(setting))
    (folder / "metrics.json").write_text(json.dumps({"curve": curve, "ones": 0.4}))
    request = Request(tmp_path, tmp_path, command="representer")
    text = _write_table(request).read_text("utf-8")
    assert "| 0 | 10,000 | 50.00 | 90.00 | 80.00 | 80.00 | 95.00 |" in text
    assert "Always predicting 1 is correct at 40.0 % of the steps, always 0 at 60.0 %." in text
