"""``fit language``, ``evaluate`` and ``generate``: from a text to a model that writes on."""

from __future__ import annotations

import json
import math
import re
import shutil

import numpy as np
import pytest

from cli.conftest import LANGUAGE, LINE, last_json, metrics_of
from representer import estimators
from representer.estimators import language


def test_what_always_follows_is_learned(language_run):
    test = metrics_of(language_run)["test"]
    assert test["tokens"] == 6 * 8 - 1
    assert test["perplexity"] < 1.5
    assert test["perplexity"] == pytest.approx(math.exp(test["loss"]))


def test_the_closing_lines_have_tokens_beside_perplexities(run, running_text, tmp_path):
    outcome = run(
        "fit", "language", running_text, "--out", tmp_path / "run", *LANGUAGE, "--epochs", "1"
    )
    assert outcome.code == 0
    assert "47 tokens of the test text" in outcome.out
    rows = [re.split(r"  +", line.strip()) for line in outcome.out.splitlines()]
    names = [row[0] for row in rows if row[1:2] == ["perplexity"]]
    assert names == [
        "kernel + string-kernel", "kernel alone", "network alone", "1-gram", "3-gram, Kneser-Ney",
    ]  # fmt: skip
    assert "384 tokens to train on" in outcome.err
    metrics = metrics_of(tmp_path / "run")
    assert metrics["verdict"] in outcome.out
    assert "of the spread of the scores comes from the kernel" in outcome.out
    page = (tmp_path / "run" / "report.html").read_text()
    assert "of the spread of the scores comes from the kernel" in page
    assert metrics["verdict"].startswith("On 47 test tokens, kernel + string-kernel is ")
    own = metrics["test"]["perplexity"]
    for row in metrics["baselines"]:
        difference, low, high = row["difference"]
        assert difference == pytest.approx(own - row["perplexity"])
        assert low <= difference <= high


def test_evaluate_gives_the_figures_of_another_text(run, language_run, tmp_path):
    other = tmp_path / "other.txt"
    other.write_text(f"{LINE}\nfour eight\n")
    found = last_json(run("evaluate", language_run, other))
    assert found["tokens"] == 10
    assert found["unknown"] == 1
    other.write_text("\n\n")
    outcome = run("evaluate", language_run, other)
    assert outcome.code == 2
    assert "other.txt: the text has no token to predict" in outcome.error
    other.write_text("zwei drei one\n")
    assert "other.txt: 67% of the words to test are unknown" in (
        run("evaluate", language_run, other).err
    )
    same = language_run.parent / "count.txt"
    assert last_json(run("evaluate", language_run, same))["perplexity"] < 1.5


def test_generate_continues_a_prompt(run, language_run):
    outcome = run("generate", language_run, "--prompt", "one two", "-n", "6", "--temperature", "0")
    assert outcome.out == "one two three four five six seven\n\n"
    again = run("generate", language_run, "--temperature", "0", "-n", "7")
    assert again.out == LINE + "\n"
    whole = run("generate", language_run, "--prompt", "one\n", "-n", "2", "--temperature", "0")
    assert whole.out == "one\none two\n"


def test_words_of_a_prompt_that_are_unknown_are_named_and_nothing_is_lost(run, language_run):
    outcome = run(
        "generate", language_run, "--prompt", "zwei three", "-n", "2", "--temperature", "0"
    )
    assert outcome.code == 0
    assert "unknown tokens, read as <unk>: 'zwei'" in outcome.err
    assert outcome.out.startswith("zwei three ")
    assert len(outcome.out.split()) == 4


def test_words_of_a_script_without_spaces_are_found_to_be_unknown(run, tmp_path):
    lines = [chr(0x4E00 + k % 7) + chr(0x4E00 + k % 5) + chr(0x4E00 + k) for k in range(60)]
    (tmp_path / "a.txt").write_text("\n".join(lines), encoding="utf-8")
    words = "fit", "language", tmp_path / "a.txt", *LANGUAGE, "--answer", "kernel", "--out"
    outcome = run(*words, tmp_path / "words")
    assert "100% of the words to test are unknown, so perplexity tells little; --level char" in (
        outcome.err + outcome.out
    )
    outcome = run(*words, tmp_path / "characters", "--level", "char")
    assert "are unknown" not in outcome.err + outcome.out


def test_a_vocabulary_that_does_not_fit_is_refused(run, running_text, tmp_path, monkeypatch):
    monkeypatch.setattr(language, "available", lambda: 4096)
    outcome = run("fit", "language", running_text, "--out", tmp_path / "run", *LANGUAGE)
    assert outcome.code == 2
    assert "9 tokens of 12 numbers" in outcome.error
    assert "--max-vocabulary" in outcome.error


def test_the_report_shows_the_curve_the_excerpt_and_a_sample(language_run):
    page = (language_run / "report.html").read_text(encoding="utf-8")
    for part in ("Learning curves", "Surprisal by token", "Generated sample", "3-gram, Kneser-Ney"):
        assert part in page
    assert "<script" not in page
    assert "seven" in page


def test_predict_writes_the_next_token_of_each_line(run, language_run, tmp_path):
    text = tmp_path / "beginnings.txt"
    text.write_text(f"one\none zwei\n{LINE}\n")
    outcome = run("predict", language_run, text)
    assert "1 unknown token" in outcome.err
    rows = [line.split(",") for line in outcome.out.splitlines()]
    assert rows[0] == ["line", "prediction", "probability"]
    assert [row[:2] for row in (rows[1], rows[3])] == [["1", "two"], ["3", "<eos>"]]
    lines = text.read_text().splitlines()
    chances = estimators.load(language_run).predict_proba(lines).max(axis=1)
    assert [float(row[2]) for row in rows[1:]] == pytest.approx(chances.tolist(), abs=1e-6)


def test_predict_and_explain_take_single_texts(run, language_run):
    outcome = run("predict", language_run, "--input", "one", "--input", "three four")
    rows = [line.split(",") for line in outcome.out.splitlines()]
    assert rows[0] == ["beginning", "prediction", "probability"]
    assert [row[:2] for row in rows[1:]] == [["one", "two"], ["three four", "five"]]
    explained = run("explain", language_run, "--input", "three four")
    assert explained.out.startswith("after line 1: five (")


def test_an_explained_score_is_the_logit_of_the_next_token(
    run, running_text, language_run, tmp_path
):
    out = shutil.copytree(language_run, tmp_path / "run")
    assert "Explained predictions" not in (out / "report.html").read_text()
    outcome = run("explain", out, running_text, "--limit", "2", "--report")
    assert outcome.out.startswith("after line 1: ")
    entries = json.loads((out / "explanations.json").read_text())
    assert [entry["row"] for entry in entries] == [1, 2]
    model = estimators.load(out)
    assert isinstance(model, estimators.LanguageModel)
    logits = np.log(model.predict_proba([LINE])[0])
    for entry in entries:
        assert entry["score"] == pytest.approx(logits.max() - logits.mean(), abs=1e-5)
        assert entry["prediction"].split()[0] == model.predict([LINE])[0]
    assert "<h3>After line 2: " in (out / "report.html").read_text()
