"""The page that predicts and explains without a server."""

from __future__ import annotations

import json
import random
import re
import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from both_halves import with_both
from browser import look, missing, opened_page
from representer.data.text import tokenize
from representer.errors import KindError
from representer.estimators import MoleculeClassifier, TextClassifier, TextRegressor
from representer.export import export_run, runs
from representer.export.content import word_rules
from representer.export.runs import PAGE

from .conftest import LABELS, TEXTS, Exported

needs_node = pytest.mark.skipif(not shutil.which("node"), reason="no node, which runs JavaScript")
needs_clang = pytest.mark.skipif(
    not all(map(shutil.which, runs.TOOLS)), reason="no clang or wasm-ld"
)
NEW = ["a very good film", "bad, isn't it? Very bad indeed", "", "an unheard plot", "👍 good"]
HOSTILE = "</script><script>document.title='hit'</script>"
_ANSWERS = """
const { readFileSync } = require("fs");
const page = readFileSync(process.argv[1], "utf8");
const script = page.match(/(\\/\\/ What a server[^]*?)\\n"use strict"/)[1];
const offline = new Function(script + "; return offline;")();
(async () => {
  for (const input of JSON.parse(readFileSync(0, "utf8")))
    console.log(JSON.stringify(await offline("/live", { input })));
})();
"""


def node(script: str, *arguments: str, given: Any) -> list[Any]:
    """Return the lines that a script of JavaScript prints."""
    words, text = ["node", "-e", script, *arguments], json.dumps(given)
    done = subprocess.run(words, input=text, capture_output=True, text=True, check=True)
    return [json.loads(line) for line in done.stdout.split("\n")[:-1]]


def answers(folder: Path, texts: list[str]) -> list[Any]:
    """Return what a page answers for each text."""
    return node(_ANSWERS, str(folder / PAGE), given=texts)


def check(estimator: Any, folder: Path) -> None:
    """Compare the page with what the estimator predicts and explains of its kernel half."""
    explanations = estimator.explain(NEW)
    chances = estimator.predict_proba(NEW)
    for found, one, row in zip(answers(folder, NEW), explanations, chances, strict=True):
        assert list(found["prediction"]["probabilities"].values()) == pytest.approx(row, abs=1e-5)
        assert found["prediction"]["prediction"] == one.prediction
        assert found["score"] == pytest.approx(one.score, abs=1e-5)
        if found["parts"] == ["kernel"]:
            assert found["constant"] == pytest.approx(one.baseline, abs=1e-5)
        sums = [sum(own["raises"] + own["lowers"] for own in found["places"])]
        sums += [sum(own["contribution"] for own in found["by_place"])]
        sums += [found["raises"]["sum"] + found["lowers"]["sum"]]
        assert sums == pytest.approx([one.score - found["constant"]] * 3, abs=1e-5)
        kernel = {line.what: (line.kernel, len(line.places)) for line in one.by_feature}
        for line in [*found["raises"]["lines"], *found["lowers"]["lines"]]:
            wanted, count = kernel.get(line["what"], (0.0, 1))
            assert line["kernel"] == pytest.approx(wanted, abs=1e-5)
            assert len(line["places"]) == count


@needs_node
@needs_clang
@pytest.mark.filterwarnings("ignore:.* texts have nothing that training had")
def test_a_page_predicts_and_explains_both_halves(exported: Exported, tmp_path: Path):
    found = export_run(exported.estimator, tmp_path, "html")
    assert found.left_out == ""
    assert found.others == (PAGE,)
    assert found.c is not None
    check(exported.estimator, tmp_path)
    (own,) = answers(tmp_path, ["very good"])
    lines = {line["what"]: line for line in own["raises"]["lines"] + own["lowers"]["lines"]}
    numbers = torch.tensor(exported.estimator.inputs_.encode(["very good"]))
    with torch.no_grad():
        scores = [exported.estimator.network_(numbers, torch.tensor([n]))[0] for n in (1, 2)]
    label = exported.estimator.classes_.tolist().index(own["prediction"]["prediction"])
    before, after = (float(each[label] - each.mean()) for each in scores)
    assert lines["good"]["network"] == pytest.approx(0.7 * (after - before), abs=1e-5)


@needs_node
@pytest.mark.filterwarnings("ignore:.* texts have nothing that training had")
def test_a_page_of_the_kernel_alone_needs_no_compiler(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(runs.shutil, "which", lambda name: None)
    labels = [f"{HOSTILE}{label}" for label in LABELS]
    texts = [f"{text} {HOSTILE}" for text in TEXTS]
    estimator = TextClassifier(answer="kernel", random_state=0, verbose=0).fit(texts, labels)
    assert export_run(estimator, tmp_path, "html").left_out == ""
    check(estimator, tmp_path)


@needs_node
def test_a_page_without_a_compiler_says_what_it_lacks(
    exported: Exported, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(runs.shutil, "which", lambda name: None)
    found = export_run(exported.estimator, tmp_path, "html")
    assert re.match(r"the network \(its share of the predictions is 50%\): .*clang", found.left_out)
    kernel = exported.estimator.part("kernel")
    (own,) = answers(tmp_path, ["good film"])
    assert own["parts"] == ["kernel"]
    assert own["prediction"]["prediction"] == kernel.predict(["good film"])[0]
    with pytest.raises(KindError, match=r"without clang and wasm-ld; .* Install clang and lld"):
        export_run(exported.estimator.part("network"), tmp_path / "network", "html")


@needs_node
@needs_clang
def test_numbers_have_their_uncertainty_and_interval(tmp_path: Path):
    numbers = np.arange(20.0) % 4
    estimator = with_both(TextRegressor(
        cell="rkm-cifg", hidden_size=4, embedding_size=4, epochs=1, random_state=0, verbose=0,
        conformal=0.2,
    ).fit(TEXTS, numbers))  # fmt: skip
    export_run(estimator, tmp_path, "html", int8=True)
    values, deviations = estimator.predict(NEW[:2], return_std=True)
    low, high = np.array(estimator.predict_interval(NEW[:2])).reshape(2, -1)
    for row, found in enumerate(answers(tmp_path, NEW[:2])):
        own = found["prediction"]
        assert own["prediction"] == pytest.approx(values[row], abs=1e-2)
        assert own["uncertainty"] == pytest.approx(deviations[row], abs=1e-2)
        assert [own["low"], own["high"]] == pytest.approx([low[row], high[row]], abs=3e-2)
        assert found["score"] == pytest.approx(own["prediction"])


@needs_node
def test_several_labels_have_their_thresholds(tmp_path: Path):
    sets = [["x", "y"], ["y"], ["x"], []] * 5
    estimator = TextClassifier(answer="kernel", multilabel=True, random_state=0, verbose=0)
    estimator.fit(TEXTS, sets)
    export_run(estimator, tmp_path, "html")
    explanations = estimator.explain(NEW[:2])
    chances, predicted = estimator.predict_proba(NEW[:2]), estimator.predict(NEW[:2])
    for row, found in enumerate(answers(tmp_path, NEW[:2])):
        own = found["prediction"]
        assert list(own["probabilities"].values()) == pytest.approx(chances[row], abs=1e-5)
        assert own["prediction"] == (", ".join(predicted[row]) or "none")
        assert found["score"] == pytest.approx(explanations[row].score, abs=1e-5)


_TOKENS = """
const { readFileSync } = require("fs");
const { rules, texts } = JSON.parse(readFileSync(0, "utf8"));
for (let text of texts) {
  for (const [source, flags, to] of rules.replace)
    text = text.replace(new RegExp(source, flags), to);
  if (rules.is_composed) text = text.normalize("NFC");
  if (rules.is_lower) text = text.toLowerCase();
  console.log(JSON.stringify(text.match(new RegExp(rules.pattern, "gu")) || []));
}
"""
ALPHABET = [
    *"ab Zé'n't.,-_3½²Ⅷ 　\x1c\x85", "don't", "O'Clock", "n't", "'s", "'re", "3,000.5", "--", "...",
    "\u0301", "\u0301" * 40, "\u0e01\u0e34", "日本", "ｶﾅ", "\u200d", "Ω", "e.g.", "nan", "infinity",
    "br", "1e5", "👍", "İ", "ß", "٣", "\ufeff",
]  # fmt: skip


@needs_node
@pytest.mark.parametrize("scheme", ["words", "blanks", "leam"])
def test_texts_have_the_same_words_in_javascript(scheme: Any):
    draw = random.Random(0)
    texts = ["".join(draw.choices(ALPHABET, k=draw.randint(0, 12))) for _ in range(2000)]
    rules = runs.javascript(word_rules(scheme))
    found = node(_TOKENS, given={"rules": rules, "texts": texts})
    for text, words in zip(texts, found, strict=True):
        assert words == tokenize(text, scheme), repr(text)


def test_other_runs_have_no_page(tmp_path: Path):
    model = MoleculeClassifier(answer="kernel", random_state=0, verbose=0)
    model.fit(["CCO", "CCC", "CCN", "COC"] * 3, [0, 1] * 6)
    with pytest.raises(
        KindError, match="the run is of the task molecule; expected one of the task text"
    ):
        export_run(model, tmp_path, "html")


@pytest.mark.browser
@pytest.mark.skipif(bool(missing()), reason=missing() or "-")
@needs_clang
def test_a_typed_text_is_explained_offline(exported: Exported, chromium: Any, tmp_path: Path):
    from playwright.sync_api import expect

    export_run(exported.estimator, tmp_path, "html")
    with opened_page(chromium, tmp_path / PAGE, "phone", "dark") as page:
        page.context.set_offline(True)
        page.type("#input", "a very good film")
        # wait_for_function would evaluate a string, which the policy of the page forbids
        expect(page.locator(".place")).to_have_text(["a", "very", "good", "film"])
        expect(page.locator(".answer")).to_have_text("+")
        (explained,) = exported.estimator.explain(["a very good film"])
        assert f"Score {explained.score:.2f}" in page.inner_text("#sum")
        assert "needs no server" in page.inner_text("#about")
        found = look(page)
    assert found.messages == []
    assert found.violations == []
    assert found.outside == []
