"""What a run says about itself."""

from __future__ import annotations

import shlex

import numpy as np
import pytest

from representer.tasks.text.text_config import TextConfig, defaults
from representer.tasks.text.text_data import Part
from representer.tasks.text.text_results import command_of, summary, verdict, worst_mistakes


@pytest.mark.parametrize(
    ("config", "command"),
    [
        (TextConfig(data="a b.csv", out="r"), "representer fit text 'a b.csv' --out r"),
        (TextConfig(data="a", bidirectional=True), "representer fit text a --bidirectional"),
        (TextConfig(data="a", layer_norm=False), "representer fit text a --layer-norm false"),
        (TextConfig(data="a", lr=0.01, resume=True), "representer fit text a --lr 0.01"),
        (TextConfig(**defaults(None, demo=True) | {"demo": True}), "representer fit text --demo"),
        (
            TextConfig(**defaults("paper", demo=False) | {"data": "a", "preset": "paper"}),
            "representer fit text a --preset paper",
        ),
    ],
)
def test_the_command_has_what_is_not_the_default(config, command):
    assert command_of(config) == command


def test_the_command_gives_the_configuration_back():
    from representer.cli import fit_text
    from representer.cli.parser import parse

    config = TextConfig(data="a.csv", text="2,3", label="1", header=False, patience=0, lr=3e-4)
    words = shlex.split(command_of(config))[3:]
    arguments = parse("fit text", fit_text, words)
    assert arguments is not None
    assert {name: arguments[name] for name in config.to_dict()} == config.to_dict()


def rival(name: str, low: float, high: float) -> dict:
    return {"name": name, "difference": [(low + high) / 2, low, high]}


def test_only_an_interval_without_zero_makes_a_model_better_or_worse():
    metrics = {
        "model": "M",
        "comparisons": [rival("A", -0.01, 0.02)],
        "baselines": [rival("B", 0.01, 0.02), rival("C", -0.03, -0.01)],
    }
    assert verdict(metrics).startswith("M is level with A, better than B and worse than C, by the")


def test_without_rivals_there_is_no_verdict():
    assert verdict({"model": "M", "comparisons": [], "baselines": []}) == ""


def test_the_closing_table_has_a_line_for_each():
    figures = {"accuracy": 0.5, "accuracy_interval": [0.4, 0.6], "macro_f1": 0.25}
    metrics = {
        "model": "M", "test": figures, "seconds": 2.0, "comparisons": [],
        "baselines": [{"name": "B", "seconds": 1.0, **figures}],
    }  # fmt: skip
    header, model, baseline = summary(metrics).splitlines()
    assert "accuracy" in header
    assert model.split() == ["M", "50.00", "%", "40.00", "–", "60.00", "%", "0.250", "2.0", "s"]
    assert baseline.startswith("B")


def test_the_surest_mistakes_come_first_and_right_answers_not_at_all():
    texts = ["right", "unsure", "x " * 400, "sure"]
    part = Part("a.csv", texts, [2, 3, 4, 9], [[]] * 4, [0, 0, 1, 1])
    found = np.array([[0.99, 0.01], [0.4, 0.6], [0.7, 0.3], [0.9, 0.1]])
    mistakes = worst_mistakes(part, ["a", "b"], found)
    assert [m["line"] for m in mistakes] == [9, 4, 3]
    assert mistakes[0] == {
        "line": 9, "truth": "b", "predicted": "a", "probability": 0.9, "text": "sure"
    }  # fmt: skip
    assert mistakes[1]["text"].endswith(" …")
    assert len(mistakes[1]["text"]) < 330
