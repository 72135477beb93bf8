from __future__ import annotations

from typing import Any

from representer.estimators.explanation import Line, as_text, sentence

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


def line(what: str, *where: int, kernel: float = 0.0, network: float = 0.0) -> dict[str, Any]:
    return Line(what, (where,) if where else (), kernel, network).entry()


BY_PLACE = [
    line("old", 0, network=-0.25), line("wave", 1, kernel=0.25, network=0.5),
    line("and", 2, network=0.125), line("old", 3, network=0.375),
]  # fmt: skip
PLACED = ENTRY | {"by_place": BY_PLACE, "listed": 3, "nouns": ["word", "n-gram"]}


def test_words_come_first_and_their_contributions_sum_to_the_score():
    assert as_text(PLACED, styled=False).splitlines() == [
        "line 7: sea (98 %)",
        "  [old] [wave] and [old]",
        "                contribution        kernel       network",
        "  wave                +0.750        +0.250        +0.500  ++++++++++++++++++++",
        "  old [4]             +0.375        +0.000        +0.375  ++++++++++",
        "  old [1]             -0.250        +0.000        -0.250  -------",
        "  1 other word        +0.125                              +++",
        "  constant            +0.500                              +++++++++++++",
        "  score               +1.500",
    ]


def test_entries_of_an_earlier_version_are_listed_by_ngram():
    assert as_text(ENTRY, styled=False).splitlines()[1] == (
        "                   contribution        kernel       network"
    )


def test_on_a_terminal_words_have_the_colors_of_the_reports():
    shown = sentence(BY_PLACE, 3, styled=True)
    assert shown.startswith("\x1b[30;48;2;247;221;217mold\x1b[0m \x1b[30;48;2;133;178;218mwave")
    assert "[wave]" not in as_text(PLACED, styled=True)


def test_units_and_their_references_are_one_level_deeper():
    lines = as_text(ENTRY | {"units": [UNIT]}, styled=False, inside=True).splitlines()
    assert lines[:-3] == as_text(ENTRY | {"units": [UNIT]}, styled=False).splitlines()
    assert lines[-3:] == [
        "  units of the network with the largest contributions:",
        "    unit 2 +0.9000, half-life 1.50 words, from",
        "         +0.9000  wave … tide",
    ]
    unit = UNIT | {"half_life": None}
    assert "half-life never" in as_text(ENTRY | {"units": [unit]}, styled=False, inside=True)


def test_steps_have_their_gates():
    head, row = as_text(ENTRY | {"steps": [STEP]}, styled=False, inside=True).splitlines()[-2:]
    assert head.split()[:3] == ["word", "position", "contribution"]
    assert row.split() == ["wave", "2", "+0.7500", "3", "+0.5000", "0.250", "1e-05", "1.000"]


def test_control_characters_are_replaced():
    evil = "\x1b[2J"
    unit = UNIT | {"ngrams": [{"text": evil, "contribution": 1.0}]}
    entry = PLACED | {
        "prediction": evil, "by_place": [line(evil, 0, network=1.0)], "units": [unit],
        "contributions": [LINES[0] | {"what": evil}], "steps": [STEP | {"word": evil}],
    }  # fmt: skip
    for by_feature in (False, True):
        assert "\x1b" not in as_text(entry, styled=False, by_feature=by_feature, inside=True)
