"""The options of a text run: ranges, presets, and what they are without being given."""

from __future__ import annotations

import inspect
import subprocess
import sys
from dataclasses import fields

import pytest

from representer.errors import ArgumentError
from representer.models.cells import CELLS, build_cell
from representer.tasks.text.text_config import DEMO, PRESETS, ReadOptions, TextConfig, defaults


@pytest.mark.parametrize(
    ("name", "value"),
    [("epochs", 0), ("hidden_size", -1), ("lr", 0.0), ("lr", float("inf")), ("dropout", 1.0),
     ("valid_fraction", 0.0), ("test_fraction", 1.0), ("patience", -1), ("seed", -1),
     ("clip_value", float("nan")), ("pooling", "max"), ("tokenizer", "bpe"), ("min_length", 0)],
)  # fmt: skip
def test_a_value_out_of_range_is_refused_by_name(name, value):
    with pytest.raises(ArgumentError, match=f"^{name} is "):
        TextConfig(**{name: value})


def test_the_parts_leave_something_to_train_on():
    with pytest.raises(ArgumentError, match="less than 1"):
        TextConfig(valid_fraction=0.5, test_fraction=0.5)


def test_every_field_has_a_help_text():
    assert all(field.metadata["help"] for field in fields(TextConfig))


def test_every_way_of_reading_is_an_option_of_fitting_too():
    config = TextConfig(text="a,b", header=False, delimiter=";")
    assert config.reading == ReadOptions(text="a,b", header=False, delimiter=";")


@pytest.mark.parametrize("settings", [*PRESETS.values(), DEMO])
def test_presets_set_fields_that_there_are_to_values_that_they_take(settings):
    config = TextConfig(**settings)
    assert all(getattr(config, name) == value for name, value in settings.items())


def test_the_papers_settings_are_those_of_its_section_6():
    paper = defaults("paper", demo=False)
    assert (paper["hidden_size"], paper["embedding_size"], paper["layer_norm"]) == (300, 300, True)
    assert (paper["pooling"], paper["clip_value"], paper["forget_bias"]) == ("mean", 0.0, 0.0)


def test_importing_the_options_does_not_import_torch():
    code = "import sys, representer.tasks.text.text_config; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("preset", [None, *PRESETS])
@pytest.mark.parametrize("cell", CELLS)
def test_every_cell_can_be_built_with_every_preset(cell, preset):
    usual = defaults(preset, demo=False, cell=cell)
    names = ("filter_length", "layer_norm", "forget_bias", "learn_static_gates", "order", "decay")
    build_cell(cell, 3, 4, {name: usual[name] for name in names} | {"decay": 0.5})


@pytest.mark.parametrize("cell", CELLS)
def test_a_preset_leaves_out_only_what_the_cell_has_not(cell):
    usual, wanted = defaults("authors_code", demo=False, cell=cell), PRESETS["authors_code"]
    known = inspect.signature(CELLS[cell]).parameters
    for name, value in wanted.items():
        if name in known:
            assert usual[name] == value, name
