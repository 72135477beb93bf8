"""Explanations on the page: lines in two groups that sum to the score, marks and pictures."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from made_up_run import change, write_made_up_run
from page_checks import faults, unequal_sums
from representer.estimators.explanation import Contribution, Explanation
from representer.report import page as page_module
from representer.report import write_report
from representer.report.explained import shown_entry
from representer.report.graph_drawing import draw_graph

WORDS = ["not", "a", "<good>", "film"]


def entry(**changes: Any) -> dict[str, Any]:
    parts = (
        Contribution("not <good>", (0, 2), "network", 0.8),
        Contribution("film", (3,), "kernel", -0.3),
        Contribution("a", (1,), "network", 0.004),
    )
    explanation = Explanation("bad", 0.604, 0.1, parts, listed=2)
    return explanation.entry("line", 7, "bad (90 %)") | explanation.marks(WORDS) | changes


def page_of(tmp_path, name, entries) -> str:
    run = write_made_up_run(tmp_path)
    change(run, "details.json", **{name: entries})
    return write_report(run).read_text(encoding="utf-8")


def test_lines_of_each_sign_are_apart_and_sum_to_the_score(tmp_path):
    shown = shown_entry(entry())
    assert [line["what"] for line in shown["favor"]] == ["not <good>"]
    assert [line["what"] for line in shown["against"]] == ["film"]
    page = page_of(tmp_path, "examples", [entry()])
    assert faults(page) == []
    assert "all 1 others" in page


@pytest.mark.parametrize("name", ["score", "constant"])
def test_a_sum_that_is_wrong_is_noticed(tmp_path, name):
    page = page_of(tmp_path, "examples", [entry(**{name: 0.5})])
    assert len(unequal_sums(page)) == 1


def test_words_have_their_weight_and_their_ngrams_in_reach_of_the_keyboard(tmp_path):
    page = page_of(tmp_path, "examples", [entry()])
    marks = re.findall(r'<mark tabindex="0" aria-describedby="(.*?)".*?>(.*?)</mark>', page)
    assert [word for _, word in marks] == ["not", "&lt;good&gt;", "film"]  # "a" is too weak
    tip = re.search(rf'id="{marks[0][0]}">(.*?)</span>', page, re.DOTALL)
    assert tip
    assert tip[1] == "not: +0.40; part of not &lt;good&gt; +0.80"


def test_an_explained_file_is_named(tmp_path):
    run = write_made_up_run(tmp_path)
    (run / page_module.EXPLAINED).write_text(json.dumps([entry(source="new & old.csv")]))
    page = write_report(run).read_text(encoding="utf-8")
    assert ">Explained predictions: new &amp; old.csv</h2>" in page


def test_the_worst_errors_are_explained(tmp_path):
    mistake = {
        "number": 4,
        "truth": "a",
        "predicted": "b (99 %)",
        "text": "x",
        "explained": entry(),
    }
    page = page_of(tmp_path, "mistakes", [mistake, {**mistake, "explained": None}])
    errors = page[page.index('<ol class="errors">') :]
    assert errors.count("<article") == 1


def test_a_graph_is_drawn_with_its_numbers_and_each_edge_once():
    drawn = draw_graph(["C", "O", "<N>"], [[0, 1], [1, 0], [1, 2]], [0.5, -0.5, 0.0])
    assert drawn.count("<line") == 2
    assert re.findall(r"<text.*?>(.*?)</text>", drawn) == ["C0", "O1", "&lt;N2"]
    assert re.findall(r'url\(#(\w+)\)" opacity="(.*?)"', drawn) == [
        ("favor", "1.00"), ("against", "1.00")
    ]  # fmt: skip


def test_the_training_loss_of_an_ensemble_is_that_of_one_member():
    row = page_module._per_member({"train_loss": 5.0, "valid_loss": 0.8}, 5)
    assert row == {"train_loss": 1.0, "valid_loss": 0.8}
