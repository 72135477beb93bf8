"""TensorBoard and MLflow get the metrics of the run."""

from __future__ import annotations

import importlib.util

import pytest

from cli.conftest import write_table
from representer.cli.main import entry_point
from representer.errors import ArgumentError, MissingExtraError
from representer.estimators import TextClassifier
from representer.storage.atomic import parse_json
from representer.training.trainer import Tracker

TINY = ["--epochs", "2", "--embedding-size", "4", "--hidden-size", "4", "--device", "cpu"]
TINY += ["--answer", "network", "--baselines", "none"]


@pytest.fixture(scope="module")
def _imported():
    """Import polars, which mlflow does, and which sets an environment variable."""
    pytest.importorskip("polars")


def test_unknown_and_missing_trackers_are_refused_before_training(monkeypatch):
    with pytest.raises(ArgumentError, match="log_with is 'wandb'; expected tensorboard or mlflow"):
        TextClassifier(log_with="wandb").fit(["a", "b"], [0, 1])
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(
        MissingExtraError, match=r'mlflow-skinny: pip install "representer\[track\]'
    ):
        TextClassifier(log_with="mlflow").fit(["a", "b"], [0, 1])


@pytest.mark.peers
@pytest.mark.usefixtures("_imported")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of TensorBoard
@pytest.mark.parametrize("name", ["tensorboard", "mlflow"])
def test_a_run_logs_what_its_files_have(tmp_path, monkeypatch, name):
    out, store = tmp_path / "run", f"sqlite:///{tmp_path / 'mlflow.db'}"
    monkeypatch.setenv("MLFLOW_TRACKING_URI", store)
    data = write_table(tmp_path / "data.csv")
    words = ["fit", "text", str(data), *TINY, "--out", str(out), "--log-with", name]
    assert entry_point(words) == 0
    rows = [parse_json(line) for line in (out / "metrics.jsonl").read_bytes().splitlines()]
    expected = [(row["step"], row["valid_loss"]) for row in rows]
    assert len(expected) == 2
    if name == "tensorboard":
        from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

        events = EventAccumulator(str(out / name)).Reload().Scalars("valid_loss")
        found = [(event.step, event.value) for event in events]
    else:
        from mlflow import MlflowClient

        client = MlflowClient(store)
        experiment = client.get_experiment_by_name("representer")
        (own,) = client.search_runs([experiment.experiment_id])
        assert (own.info.run_name, own.info.status) == ("run", "FINISHED")
        metrics = client.get_metric_history(own.info.run_id, "valid_loss")
        found = [(metric.step, metric.value) for metric in metrics]
    assert found == [(step, pytest.approx(loss, rel=1e-6)) for step, loss in expected]  # float32
    monkeypatch.setenv("MLFLOW_TRACKING_URI", "no-such-scheme://")
    with pytest.raises(ArgumentError, match="log_with is 'mlflow'; expected a tracker that starts"):
        Tracker("mlflow", out)
