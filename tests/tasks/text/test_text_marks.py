from __future__ import annotations

from representer.tasks.text.text_marks import as_text, sentence

ENTRY = {
    "noun": "line", "row": 7, "prediction": "sea (98 %)", "score": 1.5, "constant": 0.5,
    "words": ["old", "wave", "and", "tide"], "by_word": [0.0, 0.75, 0.0, 0.25],
    "marked": [False, True, False, True],
    "ngrams": [{"positions": [1, 3], "text": "wave … tide", "contribution": 0.9, "unit": 2}],
    "units": {"2": {"text": "wave/salt · tide/sail", "half_life": 1.5}},
    "strongest": [{"unit": 2, "effect": 0.9}], "steps": [], "layers": 1,
}  # fmt: skip
STEP = {
    "step": 1, "word": "wave", "contribution": 0.75, "unit": 3, "unit_contribution": 0.5,
    "written": 0.25, "kept": 1e-5, "read": 1.0,
}  # fmt: skip


def test_matched_words_are_in_brackets_without_a_terminal():
    assert as_text(ENTRY, styled=False).splitlines() == [
        "line 7: sea (98 %)",
        "  old [wave] and [tide]",
        "  evidence +1.500: words +1.000, constant +0.500",
        "  matched words  contribution  unit  half-life  reference",
        "  wave … tide         +0.9000     2       1.50  wave/salt · tide/sail",
        "  strongest units: 2 (+0.900)",
    ]


def test_on_a_terminal_they_are_bold_and_underlined():
    shown = sentence(["old", "wave"], [False, True], styled=True)
    assert shown == "old \x1b[1;4mwave\x1b[0m"
    assert "[wave]" not in as_text(ENTRY, styled=True)


def test_the_layer_is_named_where_there_are_several():
    lines = as_text(ENTRY | {"layers": 3}, styled=False).splitlines()
    assert lines[3] == "  layer 1 of 3, contributions propagated through the layers above"
    assert len(lines) == len(as_text(ENTRY, styled=False).splitlines()) + 1


def test_steps_have_their_gates():
    ledger = ENTRY | {"ngrams": [], "steps": [STEP]}
    head, row = as_text(ledger, styled=False).splitlines()[-2:]
    assert head.split()[:3] == ["word", "position", "contribution"]
    assert row.split() == ["wave", "2", "+0.7500", "3", "+0.5000", "0.250", "1e-05", "1.000"]


def test_a_unit_without_decay_never_forgets():
    units = {"2": {"text": "wave", "half_life": None}}
    assert "    never  wave" in as_text(ENTRY | {"units": units}, styled=False)


def test_control_characters_are_replaced():
    evil = "\x1b[2J"
    entry = ENTRY | {
        "prediction": evil, "words": [evil, "a", "b", "c"],
        "ngrams": [ENTRY["ngrams"][0] | {"text": evil}],
        "units": {"2": {"text": evil, "half_life": 1.0}},
    }  # fmt: skip
    steps = ENTRY | {"ngrams": [], "steps": [STEP | {"word": evil}]}
    assert "\x1b" not in as_text(entry, styled=False) + as_text(steps, styled=False)
