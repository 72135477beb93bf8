"""The data of texts: who is in which part, which words are known, what is refused; regression."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from looped import looped
from representer.errors import DataError
from representer.models.cells import CELLS, build_cell
from representer.options.text import DEMO, PRESETS, TextConfig, defaults_of
from representer.tasks.objects import Data
from representer.tasks.text import FLOW


def write(path: Path, rows: list[tuple[str, str]]) -> str:
    lines = (json.dumps({"text": text, "label": label}) for text, label in rows)
    path.write_text("\n".join(lines) + "\n")
    return str(path)


@pytest.fixture
def data(tmp_path: Path) -> str:
    rows = [(f"word{i} wave tide", "sea") if i % 2 else (f"word{i} moon", "sky") for i in range(40)]
    return write(tmp_path / "data.jsonl", rows)


def prepare(**options: object) -> Data:
    return FLOW.prepare(TextConfig(**options))  # type: ignore[arg-type]


def test_texts_labels_and_lines_belong_together(data: str):
    prepared = prepare(data=data, test_fraction=0.2)
    source = [json.loads(line) for line in Path(data).read_text().splitlines()]
    lines = [line for part in prepared.parts.values() for line in part.lines]
    assert sorted(lines) == list(range(1, 41))
    for name, part in prepared.parts.items():
        numbers = prepared.values[name].tolist()
        for text, number, line in zip(part.objects, numbers, part.lines, strict=True):
            assert source[line - 1] == {
                "text": text,
                "label": prepared.columns("test")[0].classes[number],
            }


def test_more_than_ten_integer_classes_are_in_numerical_order(tmp_path: Path):
    rows = [(f"word{i % 12}", str(i % 12)) for i in range(120)]
    assert prepare(data=write(tmp_path / "a.jsonl", rows)).columns("test")[0].classes == [
        str(i) for i in range(12)
    ]


def test_the_vocabulary_is_that_of_the_training_part_with_the_least_count(data: str):
    prepared = prepare(data=data, min_count=2)
    assert set(prepared.inputs.vocabulary.words[2:]) == {"wave", "tide", "moon"}
    share = float(prepared.facts["unknown words"].partition("%")[0])
    assert 33 <= share <= 50  # every document has one word of its own, and one or two others


def test_files_of_their_own_are_whole_parts(data: str, tmp_path: Path):
    valid = write(tmp_path / "valid.jsonl", [("moon", "sky")])
    test = write(tmp_path / "test.jsonl", [("wave", "sea"), ("moon", "sky")])
    prepared = prepare(data=data, valid=valid, test=test)
    assert [len(part) for part in prepared.parts.values()] == [40, 1, 2]
    splits = json.loads(json.dumps(prepared.splits()))
    assert set(splits["sha256"]) == {data, valid, test}
    assert splits["test"] == {"source": test, "lines": [1, 2]}


def test_long_texts_are_cut_and_counted(data: str, capsys: pytest.CaptureFixture[str]):
    prepared = prepare(data=data, max_length=2, min_count=1)
    assert max(len(document) for document in prepared.encoded["train"]) == 2
    note = "20 of 40 documents are truncated to their first 2 tokens"
    assert note in prepared.facts["length"]
    assert note in capsys.readouterr().err


def test_short_texts_are_left_out_and_counted(data: str, capsys: pytest.CaptureFixture[str]):
    with Path(data).open("a") as file:
        file.write(json.dumps({"text": "moon", "label": "sky"}) + "\n")
    (source,) = prepare(data=data, min_length=2).described()["sources"]
    assert source["dropped"] == [{"reason": "too short", "count": 1, "lines": [41]}]
    assert (source["rows"], source["kept"]) == (41, 40)
    assert "1 row left out: 1 too short (line 41)" in capsys.readouterr().err
    with pytest.raises(DataError, match=r"none of the 41 documents can be used \(too short\)"):
        prepare(data=data, min_length=9)


def test_a_title_names_the_columns_and_the_demo_trains_a_second_cell(data: str):
    assert FLOW.title(TextConfig(data=data), prepare(data=data)) == "data.jsonl: label from text"
    alone = TextConfig(data=data, out="r")
    assert FLOW.networks(alone) == {"": alone}
    first, second = FLOW.networks(TextConfig(demo=True, out="r")).items()
    assert (first[0], first[1].out) == ("rkm-cifg", "r")
    assert (second[0], second[1].cell, second[1].out) == ("lstm", "lstm", "r/lstm")


@pytest.mark.parametrize("cell", ["string-kernel", "rkm-cifg", "torch-lstm"])
def test_a_model_is_described_by_its_equations_where_it_has_some(data: str, cell: str):
    config, prepared = TextConfig(data=data, cell=cell, hidden_size=3), prepare(data=data)
    estimator = FLOW.classifier(cell=cell, hidden_size=3)  # type: ignore[call-arg]
    estimator.target_, estimator.inputs_ = prepared.target, prepared.inputs
    model = FLOW.describe_model(config, prepared, estimator, estimator.new_network(0))
    assert ("memory cell" in model.values) == (cell != "torch-lstm")
    assert model.values["head"] == "mean over time → 3 ReLU → 2"


# The options of a text run: ranges, presets, and what they are without being given.


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


@pytest.mark.parametrize("preset", [None, *PRESETS])
@looped("cell", CELLS)
def test_every_cell_can_be_built_with_every_preset(cell, preset):
    usual = defaults_of(TextConfig(preset=preset, cell=cell))
    names = (
        "filter_length", "forget_bias", "candidate_bias", "learn_static_gates", "order", "decay",
    )  # fmt: skip
    own = {name: usual[name] for name in names} | {"decay": 0.5}
    build_cell(cell, 3, 4, own | {"initialization": usual["initialization"]})
