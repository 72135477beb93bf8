"""The stored baselines of a split."""

from __future__ import annotations

import json

import pytest

from representer.tasks.text import FLOW
from representer.tasks.text_options import TextConfig
from representer_papers.shared.baselines import read_baselines, write_baselines


def test_stored_baselines_have_their_predictions_and_sizes(data, tmp_path):
    folder = data / "ag_news_csv"
    config = TextConfig(
        data=str(folder / "train.csv"), test=str(folder / "test.csv"), header=False, text="2,3",
        label="1", valid_fraction=0.2,
    )  # fmt: skip
    prepared, path = FLOW.prepare(config), tmp_path / "baselines.json"
    write_baselines(path, prepared)
    tfidf, majority = read_baselines(path)
    # every text has a word that determines its class
    assert tfidf.predictions.tolist() == prepared.values["test"].tolist()
    assert len(set(majority.predictions.tolist())) == 1
    written = json.loads(path.read_text())
    assert written["sizes"] == {"train": 24, "valid": 6, "test": 10}
    assert written["baselines"][1]["accuracy"] == pytest.approx(0.5)
