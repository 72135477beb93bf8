from __future__ import annotations

import gzip
import lzma
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from representer.data.text import Table, read_table
from representer.errors import ArgumentError, DataError

REVIEWS = "text,label\nI liked it,pos\nI did not,neg\nSo so,neg\n"


def read(path: Path, content: str, **options) -> Table:
    path.write_bytes(content.encode())
    return read_table(path, **options)


@pytest.fixture
def path(tmp_path) -> Path:
    return tmp_path / "a.csv"


def test_documents_labels_and_lines_are_read(path):
    table = read(path, REVIEWS)
    assert table.texts == ["I liked it", "I did not", "So so"]
    assert table.labels == ["pos", "neg", "neg"]
    assert table.lines == [2, 3, 4]
    assert (table.text_column, table.label_column) == ("text", "label")
    assert (table.columns, table.dropped, table.header) == (["text", "label"], [], True)
    assert table.source == str(path)


def test_all_formats_give_the_same_documents(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    plain = read(tmp_path / "a.csv", REVIEWS)
    (tmp_path / "a.csv.xz").write_bytes(lzma.compress(REVIEWS.encode()))
    (tmp_path / "A.TSV.GZ").write_bytes(gzip.compress(REVIEWS.replace(",", "\t").encode()))
    pairs = list(zip(plain.texts, plain.labels or [], strict=True))
    objects = "".join(f'{{"label": "{label}", "text": "{text}"}}\n' for text, label in pairs)
    (tmp_path / "a.jsonl").write_text(objects)
    (tmp_path / "a.json.gz").write_bytes(gzip.compress(objects.encode()))
    columns = {"text": plain.texts, "label": plain.labels}
    parquet.write_table(pyarrow.table(columns), tmp_path / "a.parquet")
    for name in ("a.csv.xz", "A.TSV.GZ", "a.jsonl", "a.json.gz", "a.parquet"):
        table = read_table(tmp_path / name)
        assert (table.texts, table.labels) == (plain.texts, plain.labels), name


def test_several_text_columns_are_joined_by_a_space(path):
    content = '"1","Title","Body"\n"2","","Only body"\n"1","Only title"," "\n"2"," ",""\n'
    table = read(path, content, text="2,3", label="1")
    assert table.texts == ["Title Body", "Only body", "Only title"]
    assert table.text_column == "2,3"
    assert [(row.line, row.reason) for row in table.dropped] == [(4, "empty text")]


def test_rows_without_text_or_label_are_dropped_with_line_and_reason(path):
    table = read(path, "text,label\na,x\n,x\nb,\n\nc, y \n  ,z\n")
    assert table.texts == ["a", "c"]
    assert table.labels == ["x", "y"]
    assert [(row.line, row.reason) for row in table.dropped] == [
        (3, "empty text"), (4, "empty label"), (5, "blank line"), (7, "empty text"),
    ]  # fmt: skip


def test_labels_are_optional_on_request(path):
    table = read(path, "text\nsome words\nother words\n", require_label=False)
    assert (table.labels, table.label_column) == (None, None)
    table = read(path, "text,label\na,x\nb,\n", require_label=False)
    assert table.labels == ["x", ""]


def test_a_label_that_is_not_required_need_not_be_one(tmp_path):
    path = tmp_path / "rows.jsonl"
    rows = '{"text": "a", "label": "x"}\n{"text": "b"}\n{"text": "c", "label": {"x": 1}}\n'
    assert read(path, rows, require_label=False).labels == ["x", "", ""]
    with pytest.raises(DataError, match="line 2, column 'label': the object has no such key"):
        read(path, rows)


def test_inferred_properties_are_reported(path):
    table = read(path, "1,a longer text\n2,another of them\n1,and a third one\n")
    assert (table.text_column, table.label_column, table.header) == ("2", "1", False)
    assert len(table.notes) == 3
    assert "not as a header" in table.notes[0]
    assert "column '2'" in table.notes[1]
    assert "column '1'" in table.notes[2]
    assert read(path, REVIEWS, text="text", label="label").notes == []


def test_labels_that_join_others_are_noted(tmp_path):
    path = tmp_path / "t.tsv"

    def notes(*labels: str) -> list[str]:
        rows = "".join(f"film {k}\t{label}\n" for k, label in enumerate(labels))
        return read(path, f"text\tlabel\n{rows}").notes

    note = "The class 'a;b' joins others; --multilabel predicts each label."
    assert note in notes("a;b", "a", "b", "c;d")
    for labels in (("c;d", "a"), ("1,5", "1", "5")):
        assert not any("joins" in text for text in notes(*labels))


def test_json_labels_are_plain_values(tmp_path):
    path = tmp_path / "a.jsonl"
    content = "".join(
        f'{{"text": "t{i}", "label": {v}}}\n' for i, v in enumerate(["1", "true", '"a"'])
    )
    assert read(path, content).labels == ["1", "true", "a"]
    with pytest.raises(DataError, match=r"line 2, column 'label': a value of type list"):
        read(path, '{"text": "a", "label": 1}\n{"text": "b", "label": [1]}\n')
    with pytest.raises(DataError, match=r"line 2, column 'label': the object has no such key"):
        read(path, '{"text": "a", "label": 1}\n{"text": "b"}\n')


def test_nan_is_an_empty_label(tmp_path):
    pyarrow = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    columns = {"text": ["a", "b", "c"], "label": [1.0, float("nan"), 2.0]}
    parquet.write_table(pyarrow.table(columns), tmp_path / "a.parquet")
    table = read_table(tmp_path / "a.parquet")
    assert table.labels == ["1.0", "2.0"]
    assert [(row.line, row.reason) for row in table.dropped] == [(2, "empty label")]


@pytest.mark.parametrize(("name", "content", "options", "message"), [
    ("a.csv", "text,label\na,\n,b\n", {}, "none of the 2 rows.*empty label and empty text"),
    ("a.csv", "text\na\n", {"label": "label", "require_label": False}, "no column 'label'"),
    ("a.csv", "text\na\nb\n", {}, "which column holds the label"),
    ("a.csv", REVIEWS, {"text": "text", "label": "text"}, "a column other than the text"),
    ("a.csv", REVIEWS, {"label": "text,label"}, "a column other than the text"),
    ("a.csv", REVIEWS, {"text": "text", "label": "label,label"}, "each column once"),
    ("a.jsonl", '{"text": 1, "label": "a"}\n', {},
     "line 1, column 'text': a value of type int; expected text"),
    ("a.jsonl", '{"text": "\\ud800", "label": "a"}\n', {},
     "line 1, column 'text': half of a surrogate pair"),
    ("a.docx", REVIEWS, {}, r"suffix.*\.csv.*\.parquet.*\.xz"),
    ("a.docx.gz", REVIEWS, {}, r"suffix.*\.csv.*\.parquet.*\.xz"),
    ("a.parquet.gz", None, {}, "compressed inside"),
])  # fmt: skip
def test_files_without_a_table_of_texts_are_refused(tmp_path, name, content, options, message):
    if content is not None:
        (tmp_path / name).write_text(content)
    with pytest.raises((DataError, ArgumentError), match=message):
        read_table(tmp_path / name, **options)


SUFFIXES = [".csv", ".tsv", ".jsonl", ".parquet", ".csv.gz", ".csv.xz", ".tsv.bz2"]
PIECES = [b"text", b"label", b",", b"\t", b'"', b"\n", b"\r\n", b"a", b" ", b"1", b"\xff", b";"]
PIECES += [b'{"text": "a", "label": "b"}', b'{"', b"}", b"\0", b"pos", b"neg", b"\xef\xbb\xbf"]
LIKELY = st.lists(st.sampled_from(PIECES), max_size=40).map(b"".join)


def check_refused_or_read(path: Path, content: bytes, require_label: bool) -> None:
    path.write_bytes(content)
    try:
        table = read_table(path, require_label=require_label)
    except DataError as error:
        refusal = str(error)
    else:
        check_read(table, require_label)
        return
    assert str(path) in refusal


def check_read(table: Table, require_label: bool) -> None:
    assert len(table.texts) == len(table.lines) >= 1
    assert all(text.strip() for text in table.texts)
    assert table.lines == sorted(set(table.lines))
    if require_label:
        assert table.labels is not None
        assert len(table.labels) == len(table.texts)
        assert all(table.labels)


FUZZ = given(
    content=st.one_of(st.binary(max_size=200), LIKELY), suffix=st.sampled_from(SUFFIXES),
    compressed=st.booleans(), require_label=st.booleans(),
)  # fmt: skip
IN_ONE_FOLDER = HealthCheck.function_scoped_fixture


def fuzz(folder: Path, content: bytes, suffix: str, compressed: bool, require_label: bool) -> None:
    if compressed and suffix.endswith(".gz"):
        content = gzip.compress(content)
    if compressed and suffix.endswith(".xz"):
        content = lzma.compress(content)
    check_refused_or_read(folder / f"a{suffix}", content, require_label)


@settings(deadline=None, max_examples=60, suppress_health_check=[IN_ONE_FOLDER])
@FUZZ
def test_random_bytes_are_rejected_or_read(tmp_path, content, suffix, compressed, require_label):
    fuzz(tmp_path, content, suffix, compressed, require_label)
