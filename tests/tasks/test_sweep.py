"""The search itself: no prediction of a test object."""

from __future__ import annotations

import pytest
from tests.cli.conftest import write_table

from representer.errors import TrainingError
from representer.tasks import estimator_task
from representer.tasks.sweep import Sweep
from representer.tasks.sweep_space import SPACE
from representer.tasks.text.text_flow import sweep
from representer.tasks.text.text_task import TextConfig

pytestmark = pytest.mark.peers


def test_no_test_object_is_predicted(tmp_path, monkeypatch):
    data = write_table(tmp_path / "data.csv")
    config = TextConfig(data=str(data), epochs=1, embedding_size=4, hidden_size=4, device="cpu")
    search = sweep(config, {"lr": SPACE["lr"]}, 1)
    predicted = []
    original = estimator_task.predictions_of
    monkeypatch.setattr(
        estimator_task, "predictions_of",
        lambda estimator, objects: predicted.append([*objects]) or original(estimator, objects),
    )  # fmt: skip
    best = search.run(tmp_path / "out", 1, "random")
    own = search.flow.prepare(config)
    assert predicted == [[*own.parts["valid"].objects]]
    assert len(own.parts["test"].objects) > 0
    assert 3e-4 <= best.lr <= 3e-2
    assert (best.answer, best.seed) == (config.answer, config.seed)


def test_a_trial_that_diverges_is_left_out(tmp_path, monkeypatch):
    data = write_table(tmp_path / "data.csv")
    config = TextConfig(data=str(data), epochs=1, embedding_size=4, hidden_size=4, device="cpu")
    search, values = sweep(config, {"lr": SPACE["lr"]}, 1), iter([None, 0.5, 0.25])

    def train(self, data, chosen, *others):
        if (value := next(values, None)) is None:
            raise TrainingError("the loss is nan")
        chosen_rates.append(chosen["lr"])
        return value

    chosen_rates = []
    monkeypatch.setattr(Sweep, "_train", train)
    best = search.run(tmp_path / "out", 3, "random")
    assert best.lr == pytest.approx(chosen_rates[1], rel=1e-2)
    with pytest.raises(TrainingError, match="Every trial diverged"):
        search.run(tmp_path / "others", 1, "random")
