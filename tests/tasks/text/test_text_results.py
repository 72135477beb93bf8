"""The closing table, the comparison and the list of errors."""

from __future__ import annotations

import numpy as np

from representer.tasks.text.text_data import Part
from representer.tasks.text.text_results import summary, verdict, worst_mistakes


def baseline(name: str, low: float, high: float) -> dict:
    return {"name": name, "difference": [(low + high) / 2, low, high]}


def test_only_an_interval_without_zero_puts_a_model_ahead_or_behind():
    metrics = {
        "model": "M",
        "test": {"count": 300},
        "comparisons": [baseline("A", -0.01, 0.02)],
        "baselines": [baseline("B", 0.01, 0.02), baseline("C", -0.03, -0.01)],
    }
    assert verdict(metrics) == (
        "On 300 test documents, M is level with A (+0.5 points, 95 % interval -1.0 to +2.0), "
        "ahead of B (+1.5 points, 95 % interval +1.0 to +2.0) and "
        "behind C (-2.0 points, 95 % interval -3.0 to -1.0)."
    )


def test_without_baselines_there_is_no_verdict():
    assert verdict({"model": "M", "comparisons": [], "baselines": []}) == ""


def test_the_closing_table_has_a_line_for_each():
    figures = {"accuracy": 0.5, "accuracy_interval": [0.4, 0.6], "macro_f1": 0.25}
    metrics = {
        "model": "M", "test": figures, "seconds": 2.0, "comparisons": [],
        "baselines": [{"name": "B", "seconds": 1.0, **figures}],
    }  # fmt: skip
    header, model, other = summary(metrics).splitlines()
    assert "accuracy" in header
    assert model.split() == ["M", "50.00", "%", "40.00", "–", "60.00", "%", "0.250", "2.0", "s"]
    assert other.startswith("B")


def test_the_most_confident_errors_come_first_and_correct_documents_are_left_out():
    texts = ["right", "unsure", "x " * 400, "sure"]
    part = Part("a.csv", texts, [2, 3, 4, 9], [[]] * 4, [0, 0, 1, 1])
    found = np.array([[0.99, 0.01], [0.4, 0.6], [0.7, 0.3], [0.9, 0.1]])
    mistakes = worst_mistakes(part, ["a", "b"], found)
    assert [m["line"] for m in mistakes] == [9, 4, 3]
    assert mistakes[0] == {
        "line": 9, "truth": "b", "predicted": "a", "probability": 0.9, "text": "sure"
    }  # fmt: skip
    assert mistakes[1]["text"].endswith(" …")
    assert len(mistakes[1]["text"]) < 330
