"""The model card names data, scores with intervals, both parts, how to load it, and limits."""

from __future__ import annotations

import json
import re

import pytest

from made_up_run import write_made_up_run
from representer.report.model_card import model_card

DESCRIBED = {
    "estimator": "TextClassifier", "task": "text", "version": "0.2.0",
    "examples": {"train": 14000, "valid": 2000}, "target": {"names": ["World", "Sp|orts<b>"]},
}  # fmt: skip


@pytest.fixture
def run(tmp_path):
    folder = write_made_up_run(tmp_path)
    return [json.loads((folder / name).read_text()) for name in ("metrics.json", "details.json")]


def test_the_card_shows_what_the_run_measured(run):
    metrics, details = run
    lines = model_card("me/news", DESCRIBED, metrics, details).splitlines()
    assert lines[:5] == [
        "---", "library_name: representer", "pipeline_tag: text-classification",
        "tags: [representer, kernel-methods, text]", "---",
    ]  # fmt: skip
    headings = [line for line in lines if line.startswith("#")]
    assert headings == [
        "# me/news", "## Data", "## Scores", "## Kernel and network", "## How to load it",
        "## Limits",
    ]  # fmt: skip
    test, other = metrics["test"], metrics["baselines"][0]
    (low, high), (d, d_low, d_high) = test["accuracy_interval"], other["difference"]
    score = (
        f"| RKM-CIFG | {test['accuracy']:.4g} [{low:.4g}, {high:.4g}] | {test['macro_f1']:.4g} |"
    )
    assert any(line.startswith(score) for line in lines)
    assert any(line.endswith(f"| {d:+.3g} [{d_low:+.3g}, {d_high:+.3g}] |") for line in lines)
    assert "40 % of the spread of the scores comes from the kernel" in "\n".join(lines)
    assert metrics["verdict"] in lines
    assert 'model = hub.from_pretrained("me/news")' in lines


def test_names_from_the_data_are_text_in_tables_and_html(run):
    card = model_card("x`\n# y", DESCRIBED, *run)
    assert "2 classes: World, Sp\\|orts&lt;b>." in card
    assert "\n# y" not in card


def test_markdown_in_names_has_no_effect(run):
    metrics, details = run
    hostile = "**a** [b](http://c) `d` <img src=x onerror=e> www.f.org | g"
    names = {"names": [hostile, "# h", "- i", "1. j"]}
    source = {
        "file": f"/x/{hostile}\n# k",
        "role": hostile,
        "rows": 1,
        "kept": 1,
        "sha256": "0" * 64,
    }
    details |= {"title": hostile, "data": {"sources": [source]}}
    card = model_card(
        hostile, DESCRIBED | {"target": names}, {**metrics, "model": hostile}, details
    )
    shown = card[: card.index("```python")]
    for meaning in (
        r"\*\*a",
        r"\[b",
        r"\]\(",
        "http:",
        "`d",
        "<img",
        r"www\.",
        r"\| g",
        "# k",
        "# h",
    ):
        assert not re.search(rf"(?<!\\){meaning}", shown), meaning
    assert "\\[b\\]\\(http&#58;//c)" in shown


def test_each_target_and_the_differences_over_subjects_have_their_row():
    row = {"count": 60, "rmse": 0.5, "rmse_interval": [0.4, 0.6], "r2": 0.9}
    metrics = {
        "model": "kernel", "kind": "regression", "targets": ["a", "b"],
        "test": {"a": row, "b": row | {"rmse": 0.7}},
        "comparisons": [], "baselines": [{"name": "mean", "test": {"a": row, "b": row},
                                          "difference": {"a": [0.0, -1, 1], "b": [0.2, 0, 1]}}],
    }  # fmt: skip
    card = model_card("m", {**DESCRIBED, "task": "molecule"}, metrics)
    assert "pipeline_tag: graph-ml" in card
    assert "**b**\n\n| model | RMSE | R² |" in card
    assert "| mean | 0.5 [0.4, 0.6] | 0.9 | +0.2 [+0, +1] |" in card
    subjects = {"mean": 0.5, "interval": [0.4, 0.6], "better": 6}
    metrics = {
        "model": "kernel", "test": {"accuracy": 1.0}, "folds": [{}] * 6,
        "baselines": [{"name": "power", "test": {"accuracy": 0.5}, "difference": subjects}],
    }  # fmt: skip
    card = model_card("m", {**DESCRIBED, "task": "signal"}, metrics)
    assert "| power | 0.5 | +0.5 [+0.4, +0.6] |" in card
    assert "6 models without the test subjects" in card
    assert "pipeline_tag" not in card
