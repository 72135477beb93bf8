"""The options of runs: written as YAML and as a command, and compared when a run is resumed."""

from __future__ import annotations

import shlex
from pkgutil import resolve_name

import pytest
import yaml

from representer.cli.main import load
from representer.cli.parser import parse
from representer.errors import ArgumentError
from representer.options import language as language_options
from representer.options import text as text_options
from representer.options.language import LanguageConfig
from representer.options.registry import TASKS
from representer.options.task import as_yaml, command_of, determining
from representer.options.text import TextConfig
from representer.training.config import TrainerConfig


def of_text(config: TextConfig) -> str:
    return command_of("text", config, text_options.defaults_of(config))


def of_language(config: LanguageConfig) -> str:
    usual = language_options.defaults_of(config)
    return command_of("language", config, usual)


PAPER = text_options.defaults_of(TextConfig(preset="paper"))
STRING = language_options.defaults_of(LanguageConfig(preset="string-5m"))
SHORTER = LanguageConfig(**STRING | {"data": "a", "preset": "string-5m", "epochs": 3})


@pytest.mark.parametrize(("config", "command"), [
    (TextConfig(data="a b.csv", out="r"), "representer fit text 'a b.csv' --out r"),
    (TextConfig(data="a", bidirectional=True), "representer fit text a --bidirectional"),
    (TextConfig(data="a", layer_norm=False), "representer fit text a --layer-norm false"),
    (TextConfig(data="a", lr=0.01, resume=True), "representer fit text a --lr 0.01"),
    (
        TextConfig(**text_options.defaults_of(TextConfig(demo=True)) | {"demo": True}),
        "representer fit text --demo",
    ),
    (
        TextConfig(**PAPER | {"data": "a", "preset": "paper"}),
        "representer fit text a --preset paper",
    ),
    (LanguageConfig(data="a", locked=True), "representer fit language a --locked"),
    (LanguageConfig(data="a", highway=False), "representer fit language a --highway false"),
    (SHORTER, "representer fit language a --preset string-5m --epochs 3"),
])  # fmt: skip
def test_the_command_has_what_is_not_the_default(config, command):
    found = of_text(config) if isinstance(config, TextConfig) else of_language(config)
    assert found == command


@pytest.mark.parametrize(
    ("config", "name"),
    [
        (
            TextConfig(data="a.csv", text="2,3", label="1", header=False, patience=0, lr=3e-4),
            "fit text",
        ),
        (SHORTER, "fit language"),
    ],
    ids=["text", "language"],
)
def test_the_command_gives_the_configuration_back(config, name):
    shown = of_text(config) if isinstance(config, TextConfig) else of_language(config)
    arguments = parse(name, load(name), shlex.split(shown)[3:])
    assert arguments is not None
    assert {name: arguments[name] for name in config.to_dict()} == config.to_dict()


def test_a_file_of_options_leaves_out_what_is_not_chosen():
    written = yaml.safe_load(as_yaml(LanguageConfig(data="é", resume=True)))
    assert written["data"] == "é"
    assert written["lr"] == 2e-3
    assert not {"resume", "valid", "preset"} & set(written)


OUT_OF_RANGE = {  # values of options by task, and how they are refused
    "text": [
        ({"valid_fraction": 0.0}, "^valid_fraction is 0.0; expected a number between 0 and 1"),
        ({"test_fraction": 1.0}, "^test_fraction is 1.0; expected a number between 0 and 1"),
        ({"valid_fraction": 0.5, "test_fraction": 0.5},
         r"^valid_fraction \+ test_fraction is 1.0; .*less than 1"),
        ({"seed": -1}, "^seed is -1; expected 0 or more"), ({"threads": -1}, "^threads is "),
        ({"baselines": "false"}, "^baselines is "), ({"min_length": 0}, "^min_length is "),
        ({"epochs": 0}, "^epochs is "), ({"hidden_size": -1}, "^hidden_size is "),
        ({"lr": 0.0}, "^lr is "), ({"lr": float("inf")}, "^lr is "),
        ({"dropout": 1.0}, "^dropout is "), ({"patience": -1}, "^patience is -1; expected 0 or"),
        ({"clip_value": float("nan")}, "^clip_value is "), ({"pooling": "max"}, "^pooling is "),
        ({"tokenizer": "bpe"}, "^tokenizer is "),
    ],
    "graph": [
        ({"kind": "ranking"}, "one of auto"), ({"demo": True, "test": "x"}, "nothing with --demo"),
    ],
    "molecule": [
        ({"task": "ranking"}, "^task is 'ranking'; expected one of auto, regression, classifi"),
        ({"split": "time"}, "^split is 'time'; expected one of random, scaffold"),
        ({"demo": True, "target": "y"}, "^target is 'y'; expected nothing with --demo"),
    ],
    "signal": [
        ({"stride": 0}, "^stride is 0; expected a positive integer"),
        ({"resample": -1.0}, "^resample is -1.0; expected 0 or more"),
        ({"resample": float("nan")}, "^resample is nan"),
        ({"window_seconds": float("inf")}, "^window_seconds is inf; expected 0 or more"),
        ({"channel_dropout": 1.0}, r"^channel_dropout is 1.0; expected a number in \[0, 1\)"),
        ({"lr": 0.0}, "^lr is 0.0; expected a positive number"),
        ({"valid_fraction": 1.0}, r"^valid_fraction is 1.0; expected a number in \[0, 1\)"),
        ({"folds": 1}, "^folds is 1; expected 0 for each subject, or 2 groups or more"),
        ({"folds": 2, "test_subjects": "a"}, "^test_subjects is 'a'; expected nothing with --fol"),
        ({"standardize": "batch"}, "^standardize is 'batch'; expected one of subject, window,"),
        ({"filters": "gabor"}, "^filters is 'gabor'; expected one of wavelet, dense"),
        ({"pooling": "sum"}, "^pooling is 'sum'"),
        ({"monitor": "auc"}, "^monitor is 'auc'; expected one of auto, accuracy, loss"),
        ({"demo": True, "data": "x.npz"}, "^data is 'x.npz'; expected nothing with --demo"),
    ],
    "language": [
        ({"cutoffs": "10;20"}, "^cutoffs is '10;20'; expected integers separated by commas"),
        ({"unroll": 0}, "^unroll is 0"),
        ({"rnn_dropout": 1.0}, r"^rnn_dropout is 1.0; expected a number in \[0, 1\)"),
        ({"level": "byte"}, "^level is 'byte'; expected one of word, char"),
        ({"optimizer": "lbfgs"}, "expected one of adam, sgd"),
        ({"decay": "1.5"}, r"^decay is '1.5'; expected a number in \[0, 1\], learned"),
        ({"max_vocabulary": 2}, "^max_vocabulary is 2; expected 3 or more, or 0"),
    ],
}  # fmt: skip


@pytest.mark.parametrize(
    ("task", "options", "message"),
    [(task, *row) for task, rows in OUT_OF_RANGE.items() for row in rows],
)
def test_a_value_out_of_range_is_refused_before_the_data_are_read(task, options, message):
    declared = TASKS[task]
    flow = resolve_name(declared.functions["fit"].removesuffix(".fit"))
    data = {} if "demo" in options else {"data": "nowhere"}
    with pytest.raises(ArgumentError, match=message):
        flow.prepare(declared.config(**data | options))


def test_options_that_the_trainer_watches_or_that_are_free_do_not_count():
    found = determining(LanguageConfig(data="a"), TrainerConfig(), ("data", "out"))
    assert not {"data", "out", "lr", "epochs", "seed"} & set(found)
    assert found["unroll"] == 35
    assert found["cell"] == "string-kernel"
