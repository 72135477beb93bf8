"""The options of runs: written as YAML and as a command, and compared when a run is resumed."""

from __future__ import annotations

import shlex

import pytest
import yaml

from representer.cli.main import load
from representer.cli.parser import parse
from representer.options import language as language_options
from representer.options import text as text_options
from representer.options.language import LanguageConfig
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


def test_options_that_the_trainer_watches_or_that_are_free_do_not_count():
    found = determining(LanguageConfig(data="a"), TrainerConfig(), ("data", "out"))
    assert not {"data", "out", "lr", "epochs", "seed"} & set(found)
    assert found["unroll"] == 35
    assert found["cell"] == "string-kernel"
