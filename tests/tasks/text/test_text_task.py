"""The options of a text run: ranges, presets, and what they are without being given."""

from __future__ import annotations

import inspect
import subprocess
import sys
from dataclasses import fields

import pytest

from looped import looped
from representer.errors import ArgumentError
from representer.models.cells import CELLS, build_cell
from representer.tasks.text import FLOW
from representer.tasks.text_options import DEMO, PRESETS, TextConfig, defaults_of


@pytest.mark.parametrize(
    ("name", "value"),
    [("valid_fraction", 0.0), ("test_fraction", 1.0), ("seed", -1), ("threads", -1),
     ("baselines", "false"), ("min_length", 0)],
)  # fmt: skip
def test_a_value_out_of_range_is_refused_by_name(name, value):
    with pytest.raises(ArgumentError, match=f"^{name} is "):
        TextConfig(**{name: value})


@pytest.mark.parametrize(
    ("name", "value"),
    [("epochs", 0), ("hidden_size", -1), ("lr", 0.0), ("lr", float("inf")), ("dropout", 1.0),
     ("patience", -1), ("clip_value", float("nan")), ("pooling", "max"), ("tokenizer", "bpe")],
)  # fmt: skip
def test_a_parameter_out_of_range_is_refused_before_the_data_are_read(name, value):
    with pytest.raises(ArgumentError, match=f"^{name} is "):
        FLOW.prepare(TextConfig(data="nowhere.csv", **{name: value}))


def test_the_parts_leave_something_to_train_on():
    with pytest.raises(ArgumentError, match="less than 1"):
        TextConfig(valid_fraction=0.5, test_fraction=0.5)


def test_every_field_has_a_help_text():
    assert all(field.metadata["help"] for field in fields(TextConfig))


@pytest.mark.parametrize("settings", [*PRESETS.values(), DEMO])
def test_presets_set_fields_that_there_are_to_values_that_they_take(settings):
    config = TextConfig(**settings)
    assert all(getattr(config, name) == value for name, value in settings.items())


def test_the_papers_settings_are_those_of_its_section_6():
    paper = defaults_of(TextConfig(preset="paper"))
    assert (paper["hidden_size"], paper["embedding_size"], paper["layer_norm"]) == (300, 300, None)
    assert (paper["pooling"], paper["clip_value"], paper["forget_bias"]) == ("mean", 0.0, 0.0)
    assert (paper["filter_padding"], paper["candidate_bias"]) == ("causal", False)


def test_the_authors_code_looks_ahead_and_has_a_bias_on_the_candidate():
    code = defaults_of(TextConfig(preset="authors_code", cell="rkm-lstm"))
    assert (code["filter_padding"], code["candidate_bias"]) == ("same", True)


def test_importing_the_options_does_not_import_torch():
    code = "import sys, representer.tasks.text_options; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("preset", [None, *PRESETS])
@looped("cell", CELLS)
def test_every_cell_can_be_built_with_every_preset(cell, preset):
    usual = defaults_of(TextConfig(preset=preset, cell=cell))
    names = (
        "filter_length", "forget_bias", "candidate_bias", "learn_static_gates", "order", "decay",
    )  # fmt: skip
    own = {name: usual[name] for name in names} | {"decay": 0.5}
    build_cell(cell, 3, 4, own | {"initialization": usual["initialization"]})


@pytest.mark.parametrize("cell", CELLS)
def test_a_preset_leaves_out_only_what_the_cell_has_not(cell):
    usual = defaults_of(TextConfig(preset="authors_code", cell=cell))
    wanted = PRESETS["authors_code"]
    known = inspect.signature(CELLS[cell]).parameters
    for name, value in wanted.items():
        if name in known:
            assert usual[name] == value, name
