"""Explanations on the page: lines in two groups that sum to the score, marks and pictures."""

from __future__ import annotations

import json
import re
import time
from typing import Any

import numpy as np
import pytest

from made_up_run import change, write_made_up_run
from page_checks import faults, unequal_sums
from representer.estimators.explanation import Contribution, Explanation
from representer.report import page as page_module
from representer.report import pictures, write_report
from representer.report.page import DRAWN, shown_entries, shown_entry
from representer.report.pictures import MOST_ATOMS, draw_graph, draw_shares, positions, series
from undrawn import figures_are_not_drawn  # noqa: F401 (used by all tests of the file)

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
        "number": 4, "truth": "a", "predicted": "b (99 %)", "text": "x", "explained": entry(),
    }  # fmt: skip
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


@pytest.mark.parametrize(("count", "edges", "sentence"), [
    (151, [[v, v + 1] for v in range(150)], "Not drawn, since it has 151 nodes"),
    (2000, [[v, v + 1] for v in range(1999)], "Not drawn, since it has 2,000 nodes"),
    (100, [[u, v] for u in range(100) for v in range(u)], "Not drawn, since it has 4,950 edg"),
])  # fmt: skip
def test_a_large_graph_is_not_drawn_and_a_sentence_says_so(count, edges, sentence):
    assert draw_graph([""] * count, edges, [0.1] * count).startswith(sentence)


def test_a_path_a_star_and_components_are_drawn_in_time_and_no_nodes_coincide():
    start = time.process_time()
    for edges in (
        [(v, v + 1) for v in range(149)],
        [(0, v) for v in range(1, 150)],
        [(v, v + 1) for v in range(149) if v % 10],
        [],
    ):
        spots = positions(150, edges)
        assert spots.min() >= 0
        assert spots.max() <= 1
        apart = np.linalg.norm(spots[:, None] - spots, axis=2) + np.eye(150)
        assert apart.min() > 1e-3
    assert time.process_time() - start < 4  # Kamada-Kawai takes over 10 s for the path alone


def test_a_path_is_drawn_as_a_line_of_equal_steps_and_one_node_in_the_middle():
    spots = positions(20, [(v, v + 1) for v in range(19)])
    assert np.abs(np.diff(spots[:, 0])) == pytest.approx(np.full(19, 1 / 19), rel=0.05)
    assert positions(1, []).tolist() == [[0.5, 0.5]]


def test_a_large_molecule_is_not_drawn_and_a_sentence_says_so():
    pytest.importorskip("rdkit")
    from representer.data.molecules import parse_smiles

    for atoms in (MOST_ATOMS, MOST_ATOMS + 1):
        drawn = draw_shares(parse_smiles("C" * atoms), {"atoms": [0.1] * atoms})
        assert drawn.startswith("<svg" if atoms == MOST_ATOMS else "Not drawn, since it has 301")


def test_the_first_objects_of_a_page_are_drawn():
    graph = entry(nodes=["a", "b"], edges=[[0, 1]], by_node=[0.1, 0.2])
    pictures = [str(one["picture"]) for one in shown_entries([graph] * (DRAWN + 1))]
    assert all(picture.startswith("<svg") for picture in pictures[:DRAWN])
    assert pictures[DRAWN].startswith("Not drawn, since the page has 50 drawings")
    assert shown_entries([entry()] * (DRAWN + 1))[DRAWN]["picture"] == ""


def test_the_training_loss_of_an_ensemble_is_that_of_one_member():
    row = page_module._per_member({"train_loss": 5.0, "valid_loss": 0.8}, 5)
    assert row == {"train_loss": 1.0, "valid_loss": 0.8}


def test_the_bars_of_a_window_fill_their_steps_without_covering_others():
    moments = [(0.5, 0.1), (1.0, -0.2), (1.5, 0.3)]
    entry = {"traces": {"Fz": [0.0] * 9}, "moments": moments, "seconds": 1.5}
    bars = pictures._window.__wrapped__(5.0, entry).figure.axes[1].patches
    assert [bar.get_height() for bar in bars] == [0.1, -0.2, 0.3]
    for bar, (end, _) in zip(bars, moments, strict=True):
        assert bar.get_x() == pytest.approx(end - 0.475)
        assert bar.get_width() == pytest.approx(0.45)


def test_the_axis_of_a_series_has_whole_steps():
    values = np.cos(np.arange(19))
    entry = {"series": {"0": values.tolist()}, "shown": [*range(19)], "by_step": values.tolist()}
    figure = series.__wrapped__(5.0, entry).figure
    for ax in figure.axes:
        assert all(tick == round(tick) for tick in ax.get_xticks())
