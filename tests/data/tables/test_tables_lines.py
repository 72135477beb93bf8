"""Text files are read by their content: lines of fastText, one text a line, or a table."""

from __future__ import annotations

import json

import openpyxl
import pytest

from representer.data.tables import read_grid
from representer.data.text import read_table
from representer.errors import DataError

ROWS = [("good soup", "x"), ("bad; fish, cold", "y"), ("fine bread", "x"), ("old wine", "y")]
RECORDS = [{"text": text, "label": label} for text, label in ROWS]
FASTTEXT = "".join(f"__label__{label} {text}\n" for text, label in ROWS)
TABBED = "".join(f"{text}\t{label}\n" for text, label in ROWS)
COLUMNS = {name: [one[name] for one in RECORDS] for name in ("text", "label")}
BY_ROW = {name: dict(enumerate(cells)) for name, cells in COLUMNS.items()}
BOOK = openpyxl.Workbook()
for row in (("Reviews of 2024",), (), ("text", "label"), *ROWS):
    BOOK.active.append(row)


@pytest.mark.parametrize(
    ("name", "content"),
    [
        ("reviews.train", FASTTEXT), ("a.txt", FASTTEXT), ("a.csv", FASTTEXT), ("a.tsv", FASTTEXT),
        ("reviews", f"text\tlabel\n{TABBED}"), ("a.TXT", f"text\tlabel\n{TABBED}"),
        ("a.txt", "text;label\n" + "".join(f'"{text}";{label}\n' for text, label in ROWS)),
        ("a.json", json.dumps(RECORDS)), ("a.json", json.dumps(RECORDS, indent=1)),
        ("a.jsonl", json.dumps(RECORDS)), ("a", json.dumps({"data": RECORDS, "version": 1})),
        ("a.json", json.dumps(COLUMNS)), ("a.json", json.dumps(BY_ROW, indent=2)),
    ],
)  # fmt: skip
def test_texts_and_labels_are_those_that_were_written(tmp_path, name, content):
    (tmp_path / name).write_text(content)
    table = read_table(tmp_path / name)
    assert (list(zip(table.texts, table.labels, strict=True)), table.dropped) == (ROWS, [])
    assert len({*table.lines}) == len(ROWS)  # predictions are written by line


def test_a_table_without_a_header_or_suffix_has_numbered_columns(tmp_path):
    path = tmp_path / "SMSSpamCollection"
    path.write_text("ham\tSee you\nspam\tA prize, claim it\nham\tOk\nspam\tFree entry\n" * 2)
    table = read_table(path)
    assert (table.text_column, table.label_column, table.labels[1]) == ("2", "1", "spam")


def test_several_labels_of_a_line_are_joined(tmp_path):
    (tmp_path / "a.txt").write_text("__label__b __label__a one two\n__label__a one\n")
    assert read_table(tmp_path / "a.txt").labels == ["b|a", "a"]


def test_plain_lines_are_one_text_each_in_the_column_that_is_wanted(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("Once, upon a time\n\n there; was\n")
    for wanted in ("text", "review"):
        table = read_table(path, wanted, require_label=False)
        assert (table.texts, table.lines) == (["Once, upon a time", " there; was"], [1, 3])
    path.write_text("smiles\nCCO\n")  # a header
    assert read_grid(path, ["smiles"], header=True).rows == [["CCO"]]
    with pytest.raises(DataError, match="Pass a table with a header, or lines such as __label__"):
        read_table(path)


def test_a_workbook_needs_no_suffix(tmp_path):
    BOOK.save(tmp_path / "book")
    assert read_table(tmp_path / "book").labels == [label for _, label in ROWS]
