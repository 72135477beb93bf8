"""``fit language``, ``evaluate`` and ``generate``: from a text to a model that writes on."""

from __future__ import annotations

import json
import math

import pytest

from representer.cli.main import entry_point

TINY = [
    "--hidden-size", "12", "--epochs", "4", "--batch-size", "4", "--unroll", "8", "--threads", "1",
    "--lr", "0.02", "--input-dropout", "0", "--output-dropout", "0",
]  # fmt: skip
LINE = "one two three four five six seven"


@pytest.fixture(scope="module")
def text(tmp_path_factory):
    path = tmp_path_factory.mktemp("text") / "count.txt"
    path.write_text(f"{LINE}\n" * 60, encoding="utf-8")
    return path


@pytest.fixture(scope="module")
def spoken(text):
    out = text.parent / "run"
    assert entry_point(["fit", "language", str(text), "--out", str(out), *TINY]) == 0
    return out


def last_json(outcome):
    return json.loads(outcome.out.splitlines()[-1])


def test_a_run_holds_everything_that_was_promised(spoken):
    names = {path.name for path in spoken.iterdir()}
    assert names >= {
        "config.yaml", "vocabulary.json", "model.safetensors", "metrics.jsonl", "metrics.csv",
        "metrics.json", "details.json", "splits.json", "report.html",
    }  # fmt: skip


def test_what_always_follows_is_learned(spoken):
    test = json.loads((spoken / "metrics.json").read_text())["test"]
    assert test["tokens"] == 6 * 8 - 1
    assert test["perplexity"] < 1.5
    assert test["perplexity"] == pytest.approx(math.exp(test["loss"]))


def test_the_closing_lines_have_tokens_beside_perplexities(run, text, tmp_path):
    outcome = run("fit", "language", text, "--out", tmp_path / "run", *TINY, "--epochs", "1")
    assert outcome.code == 0
    assert "47 tokens of the test text" in outcome.out
    assert "string-kernel       perplexity" in outcome.out
    assert "3-gram, Kneser-Ney  perplexity" in outcome.out
    assert "384 tokens to train on" in outcome.err


def test_evaluate_gives_the_figures_of_another_text(run, spoken, tmp_path):
    other = tmp_path / "other.txt"
    other.write_text(f"{LINE}\nfour eight\n")
    found = last_json(run("evaluate", spoken, other))
    assert found["tokens"] == 10
    assert found["unknown"] == 1
    same = spoken.parent / "count.txt"
    assert last_json(run("evaluate", spoken, same))["perplexity"] < 1.5


def test_generate_continues_a_prompt(run, spoken):
    outcome = run("generate", spoken, "--prompt", "one two", "-n", "6", "--temperature", "0")
    assert outcome.out == "one two three four five six seven\n\n"
    again = run("generate", spoken, "--temperature", "0", "-n", "7")
    assert again.out == LINE + "\n"
    whole = run("generate", spoken, "--prompt", "one\n", "-n", "2", "--temperature", "0")
    assert whole.out == "one\none two\n"


def test_words_of_a_prompt_that_are_unknown_are_named_and_nothing_is_lost(run, spoken):
    outcome = run("generate", spoken, "--prompt", "zwei three", "-n", "2", "--temperature", "0")
    assert outcome.code == 0
    assert "the model does not know 'zwei'; read as <unk>" in outcome.err
    assert outcome.out.startswith("zwei three ")
    assert len(outcome.out.split()) == 4


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["-n", "0"], "--tokens is 0; expected 1 or more"),
        (["--temperature", "-1"], "--temperature is -1.0; expected 0 or more"),
        (["--top-p", "0"], "--top-p is 0.0; expected above 0 and up to 1"),
    ],
)
def test_how_to_draw_is_checked_before_anything_is_written(run, spoken, words, message):
    outcome = run("generate", spoken, "--prompt", "one", *words)
    assert outcome.code == 2
    assert message in outcome.error
    assert outcome.out == ""


def test_characters_have_bits(run, text, tmp_path):
    out = tmp_path / "run"
    outcome = run("fit", "language", text, "--out", out, "--level", "char", *TINY, "--epochs", "2")
    assert outcome.code == 0, outcome.err
    test = json.loads((out / "metrics.json").read_text())["test"]
    assert test["bits_per_character"] == pytest.approx(test["loss"] / math.log(2))
    assert test["tokens"] == 6 * (len(LINE) + 1) - 1
    assert "bits per character" in outcome.out
    drawn = run("generate", out, "--prompt", "thr", "-n", "4", "--temperature", "0").out
    assert drawn.startswith("thr")
    assert len(drawn) >= 7


@pytest.mark.parametrize("content", [b"", b"one line", b"\x89PNG\r\n\0\0\n\n"])
def test_a_bad_file_leaves_no_folder(run, tmp_path, content):
    path = tmp_path / "bad.txt"
    path.write_bytes(content)
    outcome = run("fit", "language", path, "--out", tmp_path / "run")
    assert outcome.code == 2
    assert "bad.txt" in outcome.error
    assert not (tmp_path / "run").exists()


def test_a_vocabulary_that_does_not_fit_is_refused(run, text, tmp_path, monkeypatch):
    from representer.tasks.language import language_fit

    monkeypatch.setattr(language_fit, "available", lambda: 4096)
    outcome = run("fit", "language", text, "--out", tmp_path / "run", *TINY)
    assert outcome.code == 2
    assert "9 tokens of 12 numbers" in outcome.error
    assert "--max-vocabulary" in outcome.error


def test_the_report_shows_the_curve_the_excerpt_and_a_sample(spoken):
    page = (spoken / "report.html").read_text(encoding="utf-8")
    for part in ("Learning curves", "Surprisal by token", "Generated sample", "3-gram, Kneser-Ney"):
        assert part in page
    assert "<script" not in page
    assert "seven" in page


def test_report_writes_the_page_again(run, spoken):
    before = (spoken / "report.html").read_text(encoding="utf-8")
    (spoken / "report.html").unlink()
    assert run("report", spoken).code == 0
    assert (spoken / "report.html").read_text(encoding="utf-8") == before


def test_a_language_model_does_not_classify_and_a_classifier_does_not_write(run, spoken, trained):
    table = spoken.parent / "count.txt"
    expected = "the run is one of running text; expected one of texts or "
    assert expected in run("predict", spoken, table).error
    assert "is not a language model" in run("generate", trained).error
    refused = run("evaluate", spoken, table, "--label", "kind")
    assert "--label is 'kind'; expected nothing" in refused.error


def test_the_command_of_the_run_makes_it_again(spoken):
    command = json.loads((spoken / "details.json").read_text())["command"]
    assert command.startswith("representer fit language ")
    assert "--hidden-size 12" in command
    assert "--level" not in command


@pytest.mark.slow
def test_the_demo_beats_counting(run, tmp_path):
    out = tmp_path / "run"
    assert run("fit", "language", "--demo", "--out", out).code == 0
    metrics = json.loads((out / "metrics.json").read_text())
    baselines = [row["perplexity"] for row in metrics["baselines"]]
    assert metrics["test"]["perplexity"] < min(baselines)


def test_evaluation_with_a_cache_and_with_learning_stands_beside_the_plain_one(
    run, spoken, tmp_path
):
    other = tmp_path / "other.txt"
    other.write_text("seven five seven five seven five\n" * 8, encoding="utf-8")
    plain = last_json(run("evaluate", spoken, other))
    assert {"cache", "dynamic"}.isdisjoint(plain)
    words = ["--cache-share", "0.5", "--cache-theta", "0.1", "--dynamic-lr", "0.01"]
    found = last_json(run("evaluate", spoken, other, *words))
    assert found["loss"] == plain["loss"]
    for name in ("cache", "dynamic"):
        assert found[name]["tokens"] == plain["tokens"]
        assert found[name]["perplexity"] < plain["perplexity"]
    again = last_json(run("evaluate", spoken, other, "--dynamic-lr", "0.01"))
    assert again["dynamic"] == found["dynamic"]
    assert "cache" not in again


def test_only_a_language_model_has_a_cache(run, trained, table):
    outcome = run("evaluate", trained, table, "--cache-share", "0.5")
    assert outcome.code == 2
    assert (
        "--cache-share is 0.5; expected nothing, since the model is one of texts" in outcome.error
    )
