"""The report is one complete file, without external resources, and safe to open."""

from __future__ import annotations

import json
import re
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from made_up_run import NAMES, change, write_made_up_run
from page_checks import faults
from representer.errors import DataError
from representer.report import figures, pictures, write_report
from representer.report import page as page_module
from representer.report.figures import (
    ResultBar,
    comparison,
    learning_curves,
    parity,
    reliability,
    subjects,
)
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


def test_the_same_numbers_give_the_same_figure():
    def curves():
        return learning_curves(
            {"training": [(1.0, 2.0)]}, {"validation": [(1.0, 0.5)]}, 1.0, "text"
        )

    assert curves() == curves()


def test_the_confusion_matrix_has_every_cell(page, tmp_path):
    metrics = json.loads((write_made_up_run(tmp_path) / "metrics.json").read_text())
    table = page[page.index('<table class="matrix">') :]
    table = table[: table.index("</table>")]
    shown = [int(n) for n in re.findall(r">(\d+)</td>", table)]
    assert shown == [n for row in metrics["test"]["confusion"] for n in row]
    assert [n for n in NAMES if f"<th>{n}</th>" in table] == NAMES
    shades = [float(shade) for shade in re.findall(r"var\(--heat\), ([\d.]+)\)", table)]
    shares = [n / sum(row) for row in metrics["test"]["confusion"] for n in row]
    assert shades == pytest.approx([0.75 * share for share in shares], abs=0.0051)  # two digits


def test_the_best_accuracy_is_on_top_of_the_comparison(tmp_path):
    folder = write_made_up_run(tmp_path)
    metrics = json.loads((folder / "metrics.json").read_text())
    results = page_module._results(metrics, metrics["baselines"])
    accuracies = [result.accuracy for result in results]
    assert accuracies == sorted(accuracies, reverse=True)
    assert [result.is_model for result in results].count(True) == 1


def test_losses_are_shown_under_their_names():
    history = [{"epoch": 1, "train_loss": 2.0, "valid_loss": 3.0}]
    assert page_module._losses(history) == {"training": [(1, 2.0)], "validation": [(1, 3.0)]}


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
