"""The model card names data, scores with intervals, both parts, how to load it, and limits."""

from __future__ import annotations

import json
import re

import pytest

from made_up_run import write_made_up_run
from representer.hub import model_card
from representer.report.summary import (
    ACCURACY,
    PERPLEXITY,
    RMSE,
    chance_sentence,
    parts_sentence,
    standing,
)  # fmt: skip

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


# .


ON = "300 test documents"


@pytest.mark.parametrize(("difference", "measure", "relation"), [
    ((0.02, 0.01, 0.03), ACCURACY, "ahead of"), ((0.02, -0.01, 0.05), ACCURACY, "level with"),
    ((-0.02, -0.03, -0.01), ACCURACY, "behind"), ((0.0, 0.0, 0.0), ACCURACY, "level with"),
    ((-0.2, -0.3, -0.1), RMSE, "ahead of"), ((0.2, 0.1, 0.3), RMSE, "behind"),
    ((-9.0, -12.0, 1.0), PERPLEXITY, "level with"),
])  # fmt: skip
def test_only_an_interval_without_zero_puts_a_model_ahead_or_behind(difference, measure, relation):
    found = standing("M", {"B": difference}, measure, ON)
    assert (found["relation"], found["baseline"]) == (relation, "B")
    assert found["difference"] == list(difference)


def test_the_sentence_is_about_the_best_baseline_and_says_what_to_use_instead():
    others = {"A": (0.3, 0.2, 0.4), "B": (-0.02, -0.03, -0.01), "C": (0.01, 0.0, 0.02)}
    assert standing("M", others, ACCURACY, ON)["sentence"] == (
        "On 300 test documents, M is behind the best baseline, B (-2.0 points, 95 % interval -3.0 "
        "to -1.0): use B instead."
    )
    errors = {"A": (-0.3, -0.4, -0.2), "B": (-0.1, -0.2, -0.05)}
    assert standing("M", errors, RMSE, ON)["sentence"] == (
        "On 300 test documents, M is ahead of the best baseline, B (RMSE -0.1, 95 % interval -0.2 "
        "to -0.05)."
    )
    assert (
        "is level with C (perplexity -1.00, 95 % interval -2.00 to +0.50)."
        in (standing("M", {"C": (-1.0, -2.0, 0.5)}, PERPLEXITY, ON)["sentence"])
    )
    assert standing("M", {}, RMSE, ON) == {}


def test_of_equally_good_baselines_the_constant_guess_counts_and_all_are_named():
    even, worse = (0.0, -0.02, 0.02), (0.1, 0.05, 0.15)
    found = standing("M", {"A": even, "B": worse, "C": even, "majority class": even}, ACCURACY, ON)
    assert found["baseline"] == "majority class"
    assert found["sentence"] == (
        "On 300 test documents, M is level with the best baselines, A, C and majority class (+0.0 "
        "points, 95 % interval -2.0 to +2.0)."
    )


def test_the_shares_and_times_of_parts_are_named_and_so_is_a_dropped_one():
    kernel, network = {"share": 0.375, "seconds": 2.04}, {"share": 0.625, "seconds": 50.0}
    assert parts_sentence({"kernel": kernel, "network": network}) == (
        "38 % of the spread of the scores comes from the kernel (trained in 2.0 s), 62 % from the "
        "network (trained in 50.0 s)."
    )
    dropped = {"kernel": {"share": 1.0, "seconds": None}, "network": {"share": 0.0, "seconds": 9}}
    assert parts_sentence(dropped) == (
        "The network (trained in 9.0 s) added nothing on the validation data and was dropped."
    )
    assert parts_sentence({"network": network}) == ""


def test_a_model_like_the_constant_guess_is_not_praised():
    classes = [{"label": "ham", "support": 90}, {"label": "spam", "support": 10}]
    even = {"count": 100, "accuracy_interval": [0.83, 0.95], "per_class": classes}
    assert chance_sentence(even) == (
        "Always answering 'ham' is right for 90.0 %; the model is not clearly better than that."
    )
    better = even | {"accuracy_interval": [0.93, 0.99]}
    assert chance_sentence(better) == "Always answering 'ham' is right for 90.0 %."
    assert chance_sentence({"rmse": 1.0}) == ""
    never = chance_sentence(even | {"confusion": [[90, 0], [10, 0]]})
    assert never.endswith("than that. The model never answers 'spam', which 10 are.")
    assert "never" not in chance_sentence(even | {"confusion": [[90, 0], [9, 1]]})
