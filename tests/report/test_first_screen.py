"""The first screen says how good the model is, and whether that is beyond chance."""

from __future__ import annotations

import json

import pytest

from made_up_run import write_made_up_run
from representer.report import summary
from representer.report.page import Results, _of_target, by_target
from representer.report.summary import AHEAD, BEHIND, LEVEL


@pytest.fixture
def run(tmp_path) -> Results:
    folder = write_made_up_run(tmp_path)
    metrics, details = (
        json.loads((folder / name).read_text()) for name in ("metrics.json", "details.json")
    )
    return Results(metrics, details, [], [])


def screen_of(run: Results) -> summary.Screen:
    targets = [_of_target(run, *own) for own in by_target(run.metrics).items()]
    return summary.of_classes(run, targets)


def card(screen: summary.Screen, label: str) -> summary.Card:
    (found,) = [one for one in screen.cards if one.label.startswith(label)]
    return found


@pytest.mark.parametrize(
    ("relation", "words", "first"),
    [
        (AHEAD, "better than TF-IDF + logistic regression, the best baseline, by more", "Predict"),
        (
            LEVEL,
            "as good as TF-IDF + logistic regression, the best",
            "If you need only",
        ),
        (BEHIND, "worse than TF-IDF + logistic regression", "Use TF-IDF + logistic regression"),
    ],
)
def test_the_answer_and_the_advice_follow_the_comparison(run, relation, words, first):
    run.metrics["standing"][""]["relation"] = relation
    screen = screen_of(run)
    assert words in screen.answer
    assert screen.steps[0].text.startswith(first)


def test_a_lower_result_within_chance_is_not_called_as_good(run):
    run.metrics["standing"][""] |= {"relation": LEVEL, "difference": [-0.11, -0.33, 0.1]}
    answer = screen_of(run).answer
    assert "no better than TF-IDF + logistic regression, the best baseline; the diff" in answer
    run.metrics["standing"][""]["difference"] = [0.11, -0.1, 0.33]
    assert "as good as TF-IDF" in screen_of(run).answer


def test_without_baselines_nothing_is_compared(run):
    run.metrics["standing"] = {"": {}}
    screen = screen_of(run)
    assert "baseline" not in screen.answer
    assert not [one for one in screen.cards if one.label.startswith("Best")]


def test_shares_of_kernel_and_network_make_a_bar(run):
    found = card(screen_of(run), "Kernel and network")
    assert dict(found.shares) == {"kernel": 0.4, "network": 0.6}
    assert found.figure == "40\u202f% + 60\u202f%"
    run.metrics["parts"]["kernel"]["share"] = 0.0
    assert card(screen_of(run), "Kernel and network").figure == "network alone"


def test_commands_name_the_run_with_quotes_where_needed(run):
    run.details["config"]["out"] = "runs/my news"
    codes = [step.code for step in screen_of(run).steps]
    assert "representer explain 'runs/my news' FILE" in codes
