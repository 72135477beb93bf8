"""Runs and estimators are shared as folders with a model card, and as repositories."""

from __future__ import annotations

import json
from copy import copy

import numpy as np
import pytest

from local_hub import COMMIT, put_into_cache, record_uploads
from made_up_run import write_made_up_run
from representer import hub
from representer.errors import ArgumentError, DataError
from representer.estimators import TextClassifier
from representer.storage.run import RunFolder

TEXTS = ["a good film", "a bad film", "so good", "so bad"] * 6
LABELS = ["+", "-"] * 12


@pytest.fixture(scope="module")
def classifier() -> TextClassifier:
    sizes = {"hidden_size": 3, "embedding_size": 3, "batch_size": 8}
    return TextClassifier(**sizes, epochs=1, random_state=0, verbose=0).fit(TEXTS, LABELS)


@pytest.fixture
def run(classifier, tmp_path):
    """A run folder as the command line writes it, with made-up scores."""
    made_up = write_made_up_run(tmp_path / "made up", ["+", "-"])
    saved = copy(classifier)
    saved.reading_ = {"text": "review"}
    saved.save(tmp_path / "run")
    with RunFolder(tmp_path / "run", resume=True) as folder:
        for name in ("metrics.json", "details.json"):
            folder.write_json(name, json.loads((made_up / name).read_text()))
        for name in ("config.yaml", "splits.json", "final.safetensors", "explanations.json"):
            folder.write_text(name, "secret")
    return tmp_path / "run"


def test_a_shared_run_predicts_the_same_and_holds_scores_but_no_texts_and_paths(
    run, classifier, tmp_path
):
    hub.save_pretrained(run, tmp_path / "shared")
    loaded = hub.from_pretrained(tmp_path / "shared")
    assert isinstance(loaded, TextClassifier)
    np.testing.assert_array_equal(loaded.predict_proba(TEXTS), classifier.predict_proba(TEXTS))
    names = {file.name for file in (tmp_path / "shared").iterdir()} - {".lock"}
    assert names == {
        "README.md", "manifest.json", "model.json", "model.safetensors", "vocabulary.json",
        "kernel.json", "kernel.safetensors", "pool.json", "metrics.json", "metrics.jsonl",
    }  # fmt: skip
    metrics = json.loads((run / "metrics.json").read_text())
    assert json.loads((tmp_path / "shared/metrics.json").read_text()) == metrics
    low, high = metrics["test"]["accuracy_interval"]
    assert f"[{low:.4g}, {high:.4g}]" in (tmp_path / "shared/README.md").read_text()
    assert json.loads((tmp_path / "shared/model.json").read_text())["reading"] == {"text": "review"}


@pytest.mark.parametrize("content", ["x", ["x"], {"test": [1]}])
def test_damaged_scores_are_not_shared(run, tmp_path, content):
    (run / "manifest.json").unlink()
    (run / "metrics.json").write_text(json.dumps(content))
    with pytest.raises(DataError, match=r"metrics\.json: cannot be used"):
        hub.save_pretrained(run, tmp_path / "shared")


def test_a_fitted_estimator_goes_to_a_repository_and_back(classifier, tmp_path, monkeypatch):
    repository = tmp_path / "repository"
    api = record_uploads(repository, monkeypatch)
    assert hub.push_to_hub(classifier, "me/films", private=True) == "me/films: Upload a model"
    assert api.return_value.create_repo.call_args.kwargs == {"private": True, "exist_ok": True}
    assert not (repository / ".lock").exists()
    card = (repository / "README.md").read_text()
    assert 'hub.from_pretrained("me/films")' in card
    assert "It was not tested." in card
    put_into_cache(repository, tmp_path / "cache", "me/films")
    loaded = hub.from_pretrained(
        "me/films", revision=COMMIT, cache_dir=tmp_path / "cache", local_files_only=True
    )
    np.testing.assert_array_equal(loaded.predict_proba(TEXTS), classifier.predict_proba(TEXTS))


def test_nothing_is_overwritten(run, tmp_path):
    (tmp_path / "README.md").write_text("another project")
    with pytest.raises(ArgumentError, match="a folder without README"):
        hub.save_pretrained(run, tmp_path)
    with pytest.raises(ArgumentError, match="a folder without a run"):
        hub.save_pretrained(run, run)


def test_a_damaged_run_is_not_shared(run, tmp_path):
    (run / "metrics.json").write_text("{}")
    with pytest.raises(DataError, match=r"metrics\.json: cannot be used"):
        hub.save_pretrained(run, tmp_path / "shared")
    assert not (tmp_path / "shared").exists()
