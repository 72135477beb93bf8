"""The report is one complete file, without external resources, and safe to open."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path
from typing import Any

import pytest

from made_up_run import change, write_made_up_run
from page_checks import faults
from representer.errors import DataError
from representer.report import figures, pictures, summary, write_report
from representer.report import page as page_module
from representer.report.figures import (
    ResultBar,
    comparison,
    parity,
    reliability,
    subjects,
)
from representer.report.metrics import (
    points,
    rounded,
    signed,
    slug,
    wilson_interval,
)
from representer.report.page import Results, _of_target, by_target, headings
from representer.report.summary import AHEAD, BEHIND, LEVEL, trust_in_classes, trust_in_intervals
from undrawn import undrawn


@pytest.fixture(scope="session")
def page(tmp_path_factory) -> str:
    run = write_made_up_run(tmp_path_factory.mktemp("run"))
    return write_report(run).read_text(encoding="utf-8")


def without_figures(run: Path) -> str:
    """Return the page of a run for tests that do not look at its figures."""
    with undrawn():
        return write_report(run).read_text("utf-8")


def picture_of(drawn) -> ElementTree.Element:
    """Return the picture for a laptop; the one for a phone must say the same."""
    wide, narrow = (
        ElementTree.fromstring(svg) for svg in re.findall(r"<svg.*?</svg>", drawn, re.DOTALL)
    )
    assert wide.attrib["aria-label"] == narrow.attrib["aria-label"]
    assert float(narrow.attrib["width"][:-2]) < float(wide.attrib["width"][:-2])
    return wide


def test_the_page_has_no_external_resources_and_no_scripts(page):
    assert "<script" not in page
    assert "<link" not in page
    assert not re.search(r"(src|href)\s*=\s*[\"'](?!#)", page)
    assert not re.search(r"url\((?!#)", page)
    assert "@import" not in page


def test_the_page_is_small(page):
    assert len(page.encode()) < 2_000_000


@pytest.mark.parametrize(
    "heading",
    ["Test results", "Learning curves", "Per class", "Calibration", "Confusion",
     "Most confident errors", "Data", "Model", "Reproduce", "Environment"],
)  # fmt: skip
def test_every_part_is_there(page, heading):
    assert re.search(rf'<h2 id="[\w-]+">{heading}</h2>', page)
    assert re.search(rf'<li><a href="#[\w-]+">{heading}</a></li>', page)


def test_links_headings_pictures_and_widths_are_in_order(page):
    assert faults(page) == []


def test_the_headline_is_the_accuracy_beside_the_baselines(page, tmp_path):
    metrics = json.loads((write_made_up_run(tmp_path) / "metrics.json").read_text())
    accuracy = f"{100 * metrics['test']['accuracy']:.1f}\u202f%"
    screen = page[: page.index('<div id="results">')]
    assert f"is right for {accuracy} of the test documents: better than TF-IDF" in screen
    assert screen.index(f"<b>{accuracy}</b>") < screen.index("Best baseline: TF-IDF")


def test_one_sentence_compares_with_the_best_baseline_and_one_names_the_parts(page, tmp_path):
    assert "<p>On 760 test documents, RKM-CIFG is ahead of the best baseline.</p>" in page
    assert "40 % of the spread of the scores comes from the kernel" in page
    run = write_made_up_run(tmp_path)
    change(run, "metrics.json", parts={})
    assert "of the spread of the scores" not in without_figures(run)


def test_the_reliability_plot_has_a_point_for_every_bin(page, tmp_path):
    metrics = json.loads((write_made_up_run(tmp_path) / "metrics.json").read_text())
    found = metrics["test"]["calibration"]
    assert f"Expected calibration error: {100 * found['error']:.1f}\u202f%" in page
    drawing = picture_of(reliability(found["bins"]))
    paths = [one for one in drawing.iter() if "PathCollection" in one.get("id", "")]
    assert len(paths) == 1
    assert len([one for one in paths[0].iter() if one.tag.endswith("use")]) in (
        0,
        len(found["bins"]),
    )
    assert "accuracy (%)" in "".join(drawing.itertext())


def test_texts_and_names_cannot_become_markup(page):
    assert "<b>agree</b>" not in page
    assert "&lt;b&gt;agree&lt;/b&gt; to &amp; share" in page


def test_a_hostile_class_name_stays_text(tmp_path):
    run = write_made_up_run(tmp_path, ["<script>alert(1)</script>", "b"])
    text = write_report(run).read_text(encoding="utf-8")
    assert "<script" not in text
    assert "&lt;script&gt;alert(1)" in text


def test_no_template_switches_escaping_off():
    for template in Path(figures.__file__).parent.glob("*.html"):
        text = template.read_text(encoding="utf-8")
        assert not re.search(r"\|\s*safe\b|autoescape|Markup", text), template.name


def test_a_class_name_with_dollar_signs_is_no_formula(tmp_path):
    run = write_made_up_run(tmp_path, ["$\\broken{$", "b"])
    change(run, "metrics.json", model="$\\broken{$")
    assert "$\\broken{$" in write_report(run).read_text(encoding="utf-8")


def test_axes_are_labeled_with_quantity_and_unit(page):
    for label in ("accuracy on the test documents (%)", "loss (nats per document)",
                  "accuracy (%)", "epoch (passes over the training data)"):  # fmt: skip
        assert label in page


def test_figures_use_the_text_color_of_the_page():
    drawing = comparison([ResultBar("a & b", 0.9, 0.8, 0.95, is_model=True)], "documents")
    assert "currentColor" in drawing
    assert "#000000" not in drawing
    assert picture_of(drawing).attrib["role"] == "img"


def test_the_best_accuracy_is_on_top_of_the_comparison(tmp_path):
    folder = write_made_up_run(tmp_path)
    metrics = json.loads((folder / "metrics.json").read_text())
    results = page_module._results(metrics, metrics["baselines"])
    accuracies = [result.accuracy for result in results]
    assert accuracies == sorted(accuracies, reverse=True)
    assert [result.is_model for result in results].count(True) == 1


def test_many_classes_give_a_list_of_confusions_instead_of_a_matrix(tmp_path):
    run = write_made_up_run(tmp_path, [f"class {i}" for i in range(30)])
    text = without_figures(run)
    assert '<table class="matrix">' not in text
    assert "the most frequent confusions are listed" in text


def test_a_model_without_errors_says_so(tmp_path):
    run = write_made_up_run(tmp_path)
    change(run, "details.json", mistakes=[])
    assert "every test document is classified correctly" in without_figures(run)


def test_dropped_rows_are_listed_with_reason_and_lines(page):
    row = page[page.index('<td title="sha256 abab') :]
    assert re.findall(r"<td.*?>(.*?)</td>", row)[:4] == [
        "news.csv", "all parts", "7\u202f603", "7\u202f600"
    ]  # fmt: skip
    assert "3 × no text (line 17, 90, 204)" in page


def test_the_indices_of_equations_are_subscripts(page):
    assert (
        "c<sub>t</sub> = (1 − f<sub>t</sub>) ⊙ c̃<sub>t</sub> + f<sub>t</sub> ⊙ c<sub>t−1</sub>"
        in page
    )


def test_a_run_without_baselines_has_a_report_too(tmp_path):
    run = write_made_up_run(tmp_path)
    change(run, "metrics.json", baselines=[])
    change(run, "metrics.json", verdict="")
    assert "Learning curves" in without_figures(run)


def test_the_error_for_an_unfinished_run_names_the_file_and_the_fix(tmp_path):
    with pytest.raises(DataError, match=r"there is no metrics\.json.*--resume"):
        write_report(tmp_path)


NAME = r"price $_$ \$ $x^{$ \x1b[2J"
SHOWN = NAME.replace("\x1b", r"\x1b")
CARD = {"waveform": [[0.1, 0.2], [0.3, 0.1]], "times": [0.0, 0.1], "amplitudes": [1.0, 2.0],
        "frequency": 5.0, "gate": NAME, "unit": 0}  # fmt: skip


@pytest.mark.parametrize(
    "draw",
    [
        lambda name: comparison([ResultBar(name, 0.5, 0.4, 0.6, is_model=True)], "documents"),
        lambda name: parity([(1.0, 1.1, 0.1), (2.0, 2.1, 0.1)], name),
        lambda name: subjects({name: 0.5}, None, 0.5),
        lambda name: pictures.wavelet(CARD, [name, f"_{name}"]),
    ],
    ids=["comparison", "parity", "subjects", "wavelet"],
)
def test_a_name_with_dollars_and_controls_is_shown_as_it_is(draw):
    shown = "".join(picture_of(draw(NAME)).itertext())
    assert SHOWN in shown
    assert (f"_{SHOWN}" in shown) == ("ms from" in shown)  # the channels of a wavelet


def test_the_title_of_a_picture_may_hold_anything():
    figure, _ = figures.canvas(2.0, 1.0)
    drawing = figures.svg(figure, 'a"><script>alert(1)</script>')
    assert "<script>" not in drawing
    assert 'aria-label="a&quot;&gt;&lt;script&gt;' in drawing


# The first screen says how good the model is, and whether that is beyond chance.


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


@pytest.mark.parametrize(("relation", "words", "first"), [
    (AHEAD, "better than TF-IDF + logistic regression, the best baseline, by more", "Predict"),
    (LEVEL, "as good as TF-IDF + logistic regression, the best", "If you need only"),
    (BEHIND, "worse than TF-IDF + logistic regression", "Use TF-IDF + logistic regression"),
])  # fmt: skip
def test_the_answer_and_the_advice_follow_the_comparison(run, relation, words, first):
    run.metrics["standing"][""]["relation"] = relation
    screen = screen_of(run)
    assert words in screen.answer
    assert screen.steps[0].text.startswith(first)


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


# Certainty is called trustworthy only where the test part agrees with it.


def metrics_of(*bins: tuple[int, float, float], share: float = 0.2) -> dict[str, Any]:
    """Return test metrics from the count, confidence and accuracy of bins."""
    count = sum(own[0] for own in bins)
    accuracy = sum(n * right for n, _, right in bins) / count
    error = sum(n * abs(confidence - right) for n, confidence, right in bins) / count
    return {
        "count": count,
        "accuracy": accuracy,
        "accuracy_interval": wilson_interval(accuracy * count, count),
        "per_class": [{"label": "a", "support": share * count}],
        "calibration": {
            "error": error,
            "bins": [dict(zip(("count", "confidence", "accuracy"), own, strict=True))
                     for own in bins],
        },
    }  # fmt: skip


@pytest.mark.parametrize(
    ("bins", "verdict"),
    [
        ([(400, 0.8, 0.8)], "Yes"),
        ([(400, 0.815, 0.8)], "Yes"),
        ([(400, 0.9, 0.8)], "Overconfident"),
        ([(400, 0.7, 0.8)], "Underconfident"),
        ([(150, 0.4, 0.65), (150, 0.7, 0.45)], "On average only"),  # opposite mistakes cancel
        ([(12, 0.4, 0.5), (12, 0.7, 0.58)], "Yes"),  # as large by chance on so few
        ([(50_000, 0.4, 0.43), (50_000, 0.7, 0.67)], "Yes"),  # certain, and of no consequence
    ],
)
def test_certainty_is_trusted_where_it_is_near_the_accuracy(bins, verdict):
    assert trust_in_classes(metrics_of(*bins)).figure == verdict


def test_a_model_like_the_constant_guess_is_not_certain():
    found = trust_in_classes(metrics_of((400, 0.95, 0.95), share=0.95))
    assert (found.figure, found.tone) == ("Not beyond chance", "bad")
    assert found.text.endswith("always answering 'a' is right for 95 %".replace(" %", "\u202f%"))


@pytest.mark.parametrize(
    ("held", "verdict"), [(0.95, "Yes"), (0.8, "Overconfident"), (1.0, "Underconfident")]
)
def test_intervals_are_trusted_where_they_hold_what_they_say(held, verdict):
    found = trust_in_intervals({"count": 400, "coverage": {"0.95": held}})
    assert found is not None
    assert found.figure == verdict


# Numbers of the report have sensible digits.


@pytest.mark.parametrize(("number", "digits", "text"), [
    (0.58649, 3, "0.586"), (1234.5, 3, "1234"), (0.0, 3, "0"), (0.91, 2, "0.91"),
    (9.9, 2, "9.9"),
])  # fmt: skip
def test_a_number_has_so_many_significant_digits(number, digits, text):
    assert rounded(number, digits) == text


def test_signs_are_typographic_and_zero_has_none():
    assert signed(-0.126, 2) == "−0.13"
    assert signed(0.126, 2) == "+0.13"
    assert signed(-0.001, 2) == "0.00"
    assert points(-0.012) == "−1.2"


def test_the_contents_are_the_sections_of_the_page():
    assert slug("Test results: log S (mol/l)") == "test-results-log-s-mol-l"
    page = '<h2 id="a">A &amp; B</h2><h2>not a section</h2><h2 id="c">C</h2>'
    assert headings(page) == [("a", "A &amp; B"), ("c", "C")]


def test_letters_of_a_logo_are_as_high_as_their_weights():
    logo = {
        "name": "A-C",
        "value": 2.0,
        "columns": [{"A": 2.0, "C": -1.0}, {}, {"C": 1.0, "A": 1.0}],
    }
    draw: Any = pictures.logos
    figure = draw.__wrapped__(5.2, {"title": "bound", "part": "kernel", "logos": [logo]}).figure
    boxes = [patch.get_path().get_extents() for patch in figure.axes[0].patches]
    assert [box.height for box in boxes] == pytest.approx([1.0, 0.5, 0.5])
    assert [box.y0 for box in boxes] == pytest.approx([0.0, 0.0, 0.5])
    assert [round(box.x0) for box in boxes] == [0, 2, 2]
