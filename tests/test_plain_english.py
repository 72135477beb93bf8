"""The style check of ``make check`` sees each wording of its table, and the places it names."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

TOOL = Path(__file__).parents[1] / "tools" / "plain_english.py"
_spec = importlib.util.spec_from_file_location("plain_english", TOOL)
assert _spec is not None
assert _spec.loader is not None
plain_english = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(plain_english)


@pytest.mark.parametrize(
    "text",
    [
        "the " + "me" + "nd is simple",
        "in the " + "man" + "ner of torch",
        "a whole " + "number from" + " 1 on",
        "our " + "ri" + "vals",
        "the model " + "goes by lags",
        "the gate " + "sees h",
        "one without evidence has " + "no say",
        "    device: " + "Of the parameters.",
        "one number " + "a unit",
        "def test_it_" + "goes_on_to_the_same_end(): ...",
        "def test_a_layer_" + "says_why(): ...",
        "def test_what_" + "is_no_sum_is_rejected(): ...",
        'def f():\n    """' + 'What comes out."""',
        'def f():\n    """' + 'Whether it runs."""',
        "def f(of" + ": Tensor): ...",
    ],
)
def test_a_wording_of_the_table_is_found(text: str) -> None:
    assert next(iter(plain_english.findings("fine\n" + text)))[0] >= 2


@pytest.mark.parametrize(
    "text",
    ["recommend", "amendment", "the fix", "one number and a unit", '"""Return what comes."""'],
)
def test_plain_wording_passes(text: str) -> None:
    assert list(plain_english.findings(text)) == []


def test_the_command_names_file_and_line(tmp_path: Path, capsys: pytest.CaptureFixture) -> None:
    page = tmp_path / "page.md"
    page.write_text("one\ntwo " + "me" + "nds\n", encoding="utf-8")
    assert plain_english.main([str(page)]) == 1
    assert capsys.readouterr().out == f"{page}:2: {'me' + 'nds'!r}: write fix\n"
