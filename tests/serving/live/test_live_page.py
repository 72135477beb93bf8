"""Tests of the page of the live view in a browser."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from browser import missing
from representer.estimators import MoleculeClassifier, TextClassifier
from representer.serving import ServedModel
from representer.serving.live import Example, LiveView

pytestmark = [pytest.mark.browser, pytest.mark.skipif(bool(missing()), reason=missing() or "-")]
HOSTILE = "<img src=x onerror=document.title='hit'><script>document.title='hit'</script>"
PHONE = {"width": 390, "height": 844}


@pytest.fixture
def page(chromium: Any) -> Iterator[Any]:
    """A page of a phone; errors of the console, such as blocked requests, fail the test."""
    opened = chromium.new_page(viewport=PHONE, color_scheme="dark")
    problems: list[str] = []

    def note(message: Any) -> None:
        is_answer = "status of 422" in message.text  # to an object that cannot be read
        if message.type in ("error", "warning") and not is_answer:
            problems.append(message.text)

    opened.on("console", note)
    opened.on("pageerror", lambda error: problems.append(str(error)))
    opened.on("dialog", lambda dialog: problems.append(dialog.message))
    yield opened
    opened.close()
    assert problems == []


@pytest.fixture(scope="module")
def hostile_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A model whose words and classes are markup."""
    folder = tmp_path_factory.mktemp("hostile") / "run"
    model = TextClassifier(answer="kernel", tokenizer="blanks", random_state=0, verbose=0)
    texts = [f"{HOSTILE} good", f"{HOSTILE} bad", "so good", "so bad"] * 8
    model.fit(texts, [f"{HOSTILE}+", f"{HOSTILE}-"] * 16).save(folder)
    return folder


def expect(locator: Any) -> Any:
    from playwright.sync_api import expect as expecting  # not installed for other tests

    return expecting(locator)


def opened(page: Any, port: int) -> None:
    page.goto(f"http://127.0.0.1:{port}/")
    expect(page.locator("#status")).not_to_be_empty()


def typed(page: Any, text: str) -> None:
    """Type a text and wait for its words."""
    page.fill("#input", "")
    page.type("#input", text)
    expect(page.locator(".place")).to_have_text(text.split())


def bars(page: Any) -> list[tuple[float, float]]:
    """Return the heights of the bars above and below each word."""
    return page.eval_on_selector_all(
        ".place",
        "all => all.map(one => ['::before', '::after'].map(kind => "
        "parseFloat(getComputedStyle(one, kind).height)))",
    )


def test_what_is_typed_is_marked_and_another_word_is_one_click_away(
    serve: Any, page: Any, text_run: Path
) -> None:
    view = LiveView(ServedModel(text_run, device="cpu"), [Example("line 1", "", "good film")])
    opened(page, serve(view).port)
    assert page.input_value("#input") == "good film"
    typed(page, "good bad bad play")
    assert page.inner_text(".answer") == "no"
    own = view.explain("good bad bad play")["places"]
    most = max(max(one["raises"], -one["lowers"]) for one in own)
    full = max(max(both) for both in bars(page))
    assert full == pytest.approx(0.65 * 16, abs=0.1)
    assert min(one["lowers"] for one in own) < 0
    for (above, below), one in zip(bars(page), own, strict=True):
        assert above == pytest.approx(full * one["raises"] / most, abs=0.1)  # pixels
        assert below == pytest.approx(full * -one["lowers"] / most, abs=0.1)
    assert f"Score {view.explain('good bad bad play')['score']:.2f}" in page.inner_text("#sum")
    page.click(".place >> text=bad >> nth=0")
    page.click("#changes button >> text=good")
    expect(page.locator(".answer")).to_have_text("yes")
    assert page.input_value("#input") == "good good bad play"
    page.fill("#input", " ")
    expect(page.locator("#status")).to_contain_text("Type something")


def test_the_page_is_used_by_keyboard(serve: Any, page: Any, text_run: Path) -> None:
    opened(page, serve(LiveView(ServedModel(text_run, device="cpu"))).port)
    typed(page, "good film")
    page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.textContent") == "good"
    assert "raises" in page.evaluate("document.activeElement.getAttribute('aria-label')")
    page.keyboard.press("Enter")
    page.wait_for_selector("#changes table")
    assert page.evaluate("document.activeElement.id") == "h-changes"
    page.keyboard.press("Tab")
    choice = page.evaluate("document.activeElement.textContent")
    page.keyboard.press("Enter")
    expect(page.locator("#what-if")).to_be_hidden()
    assert choice in page.input_value("#input").split() or choice == "(no word)"


def test_markup_is_shown_and_never_runs(serve: Any, page: Any, hostile_run: Path) -> None:
    view = LiveView(
        ServedModel(hostile_run, device="cpu"), [Example(HOSTILE, HOSTILE, f"{HOSTILE} good")]
    )
    opened(page, serve(view).port)
    page.click(".place >> nth=0")
    page.wait_for_selector("#changes table")
    assert page.inner_text(".answer") == f"{HOSTILE}+"
    assert page.query_selector_all("main img, main script, main iframe") == []
    assert page.eval_on_selector("#example option", "one => one.textContent") == HOSTILE
    assert "<script>document.title='hit'</script>" in page.inner_text("#lines")
    page.wait_for_timeout(200)
    assert page.title() == "Live view of a text model"


def test_a_molecule_is_drawn_under_the_policy(serve: Any, page: Any, tmp_path: Path) -> None:
    smiles = ["C" * k + "O" * (k % 3) for k in range(1, 31)]
    model = MoleculeClassifier(answer="kernel", random_state=0, verbose=0)
    model.fit(smiles, ["long" if len(one) > 15 else "short" for one in smiles]).save(tmp_path / "r")
    opened(page, serve(LiveView(ServedModel(tmp_path / "r", device="cpu"))).port)
    drawn = page.eval_on_selector_all("#drawing svg path", "all => all.map(one => one.outerHTML)")
    assert len(drawn) > 13  # bonds
    assert 'stroke-width="2' in drawn[0]
    page.fill("#input", "CC(")
    page.wait_for_selector("#status.error")
    assert "CC(" in page.inner_text("#status")


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_nothing_is_wider_than_a_phone(
    serve: Any, page: Any, hostile_run: Path, scheme: str
) -> None:
    page.emulate_media(color_scheme=scheme)
    opened(page, serve(LiveView(ServedModel(hostile_run, device="cpu"))).port)
    page.fill("#input", f"{'long' * 50} {HOSTILE} good " * 3)
    expect(page.locator(".place")).to_have_count(15)
    page.click(".place >> nth=0")
    page.wait_for_selector("#changes table")
    assert page.evaluate("document.documentElement.scrollWidth") == PHONE["width"]
    ink, paper = page.evaluate(
        "['color', 'backgroundColor'].map(name => getComputedStyle(document.body)[name])"
    )
    is_dark = [sum(map(int, re.findall(r"\d+", color)[:3])) < 3 * 128 for color in (ink, paper)]
    assert is_dark == ([False, True] if scheme == "dark" else [True, False])
