from __future__ import annotations

from representer.tasks.text import as_text, sentence

LINES = [
    {"what": "wave … tide", "places": [[1, 3]], "kernel": 0.5, "network": 0.25,
     "contribution": 0.75},
    {"what": "old", "places": [[0], [2]], "kernel": 0.0, "network": -0.25, "contribution": -0.25},
]  # fmt: skip
ENTRY = {
    "noun": "line", "row": 7, "prediction": "sea (98 %)", "score": 1.5, "constant": 0.5,
    "parts": ["kernel", "network"], "contributions": LINES,
    "others": {"count": 3, "contribution": 0.5},
    "words": ["old", "wave", "and", "tide"], "by_word": [-0.25, 0.375, 0.0, 0.375],
    "marked": [False, True, False, True], "layers": 1,
}  # fmt: skip
UNIT = {
    "unit": 2, "contribution": 0.9, "half_life": 1.5,
    "ngrams": [{"text": "wave … tide", "contribution": 0.9}],
}  # fmt: skip
STEP = {
    "step": 1, "word": "wave", "contribution": 0.75, "unit": 3, "unit_contribution": 0.5,
    "written": 0.25, "kept": 1e-5, "read": 1.0,
}  # fmt: skip


def test_an_ngram_has_one_line_with_the_contribution_of_each_part():
    assert as_text(ENTRY, styled=False).splitlines() == [
        "line 7: sea (98 %)",
        "  old [wave] and [tide]",
        "                  contribution        kernel       network",
        "  wave … tide        +0.750000     +0.500000     +0.250000",
        "  old (2 places)     -0.250000     +0.000000     -0.250000",
        "  3 others           +0.500000",
        "  constant           +0.500000",
        "  score              +1.500000",
    ]
    alone = as_text(ENTRY | {"parts": ["network"]}, styled=False).splitlines()
    assert alone[2] == "  wave … tide        +0.750000"


def test_on_a_terminal_marked_words_are_bold_and_underlined():
    shown = sentence(["old", "wave"], [False, True], styled=True)
    assert shown == "old \x1b[1;4mwave\x1b[0m"
    assert "[wave]" not in as_text(ENTRY, styled=True)


def test_units_and_their_references_are_one_level_deeper():
    lines = as_text(ENTRY | {"units": [UNIT]}, styled=False).splitlines()
    assert lines[:8] == as_text(ENTRY, styled=False).splitlines()
    assert lines[8:] == [
        "  units of the network with the largest contributions:",
        "    unit 2 +0.9000, half-life 1.50 words, from",
        "         +0.9000  wave … tide",
    ]
    unit = UNIT | {"half_life": None}
    assert "half-life never" in as_text(ENTRY | {"units": [unit]}, styled=False)


def test_the_layer_is_named_where_there_are_several():
    lines = as_text(ENTRY | {"layers": 3, "units": [UNIT]}, styled=False).splitlines()
    assert lines[8] == "  of layer 1 of 3, contributions propagated through the layers above:"


def test_steps_have_their_gates():
    head, row = as_text(ENTRY | {"steps": [STEP]}, styled=False).splitlines()[-2:]
    assert head.split()[:3] == ["word", "position", "contribution"]
    assert row.split() == ["wave", "2", "+0.7500", "3", "+0.5000", "0.250", "1e-05", "1.000"]


def test_control_characters_are_replaced():
    evil = "\x1b[2J"
    unit = UNIT | {"ngrams": [{"text": evil, "contribution": 1.0}]}
    entry = ENTRY | {
        "prediction": evil, "words": [evil, "a", "b", "c"], "units": [unit],
        "contributions": [LINES[0] | {"what": evil}], "steps": [STEP | {"word": evil}],
    }  # fmt: skip
    assert "\x1b" not in as_text(entry, styled=False)
