"""Series in .ts files, tables with a row for each series or step, and .npz files."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from representer.data.series import read_series_file
from representer.errors import DataError


def written(folder: Path, name: str, text: str) -> Path:
    (folder / name).write_text(text, encoding="utf-8")
    return folder / name


SERIES = [[[1.0, 2.0, 3.0]], [[4.0, np.nan]]]
FORMS = {
    "a.ts": "# about\n@problemName a\n@classLabel true x y\n@data\n1,2,3:x\n4,?:y\n",
    "times.ts": "@classLabel true x y\n@data\n(0,1),(1,2),(2,3):x\n(0,4),(1,?):y\n",
    "UCR_TRAIN.tsv": "x\t1\t2\t3\ny\t4\tNaN\tNaN\n",
    "wide.csv": "id,1,2,3,label\na,1,2,3,x\nb,4,,,y\n",
    "long.csv": "id,time,value,label\nb,0,4,y\na,2,3,x\na,0,1,x\na,1,2,x\nb,1,,y\n",
    "lists.jsonl": '{"series": [1, 2, 3], "label": "x"}\n{"series": [4, null], "label": "y"}\n',
}


@pytest.mark.parametrize("name", FORMS)
def test_every_form_holds_the_same_series(tmp_path, name):
    found = read_series_file(written(tmp_path, name, FORMS[name]))
    own = dict(zip(found.labels, found.series, strict=True))
    np.testing.assert_array_equal(own["x"], SERIES[0])
    assert own["y"][0, 0] == 4
    assert np.isnan(own["y"][0, 1:]).all()


def test_channels_of_ts_files_are_separated_by_colons(tmp_path):
    text = "@classLabel true a\n@data\n1,2,3:4,5:a\n"  # of unequal lengths
    (one,) = read_series_file(written(tmp_path, "a.ts", text)).series
    np.testing.assert_array_equal(one, [[1, 2, 3], [4, 5, np.nan]])
    text = "@classLabel false\n@data\n1,2:3,4\n"
    found = read_series_file(written(tmp_path, "b.ts", text), require_labels=False)
    np.testing.assert_array_equal(found.series[0], [[1, 2], [3, 4]])
    assert found.labels == [None]


def test_a_row_for_each_step_has_a_column_for_each_channel(tmp_path):
    text = "case,when,x,y,kind\n" + "".join(f"{c},{t},{t},{-t},{c}\n" for c in "ab" for t in (1, 0))
    path = written(tmp_path, "long.csv", text)
    found = read_series_file(path, label="kind", series="case", time="when")
    assert found.names == ["a", "b"]
    assert found.channels == ["x", "y"]
    np.testing.assert_array_equal(found.series[1], [[0, 1], [0, -1]])


def test_a_row_for_each_series_may_have_a_name_in_any_column(tmp_path):
    path = written(tmp_path, "a.csv", "motor,load,t0,t1\nm1,a,1,2\nm2,b,3,4\n")
    with pytest.raises(DataError, match="--series that of the names of series"):
        read_series_file(path, label="load")
    found = read_series_file(path, label="load", series="motor")
    np.testing.assert_array_equal(found.series, [[[1, 2]], [[3, 4]]])


LONG = "id,time,x,y,label\n" + "".join(f"{c},{t},{t},{-t},{c}\n" for c in "ab" for t in (0, 1))


def test_channels_are_found_by_their_names_and_others_are_not_read(tmp_path):
    first = read_series_file(written(tmp_path, "a.csv", LONG))
    rows = [line.split(",") for line in LONG.splitlines()]
    rows = [[i, time, y, "a note", x, label] for i, time, x, y, label in rows]
    rows[0][3] = "about"
    other = written(tmp_path, "b.csv", "\n".join(",".join(row) for row in rows) + "\n")
    second = read_series_file(other, channels=first.channels)
    assert second.channels == first.channels
    np.testing.assert_array_equal(second.series, first.series)
    np.savez(tmp_path / "a.npz", X=np.ones((2, 2, 3)) * [[1], [2]], channels=["y", "x"])
    arrays = read_series_file(tmp_path / "a.npz", channels=["x", "y"], require_labels=False)
    np.testing.assert_array_equal(arrays.series[0][:, 0], [2, 1])
    message = "there is no channel 'z'; the channels are 'x', 'y'. Name the channels as in training"
    with pytest.raises(DataError, match=message):
        read_series_file(tmp_path / "a.csv", channels=["x", "z"])
    with pytest.raises(DataError, match="there is no channel 'z'"):
        read_series_file(tmp_path / "a.npz", channels=["x", "z"], require_labels=False)


def test_a_channel_of_training_is_neither_a_label_nor_a_time(tmp_path):
    wanted = read_series_file(written(tmp_path, "a.csv", LONG)).channels
    unlabeled = written(tmp_path, "b.csv", "time,x,y,id\n1,3,5,a\n0,2,4,a\n")
    file = read_series_file(unlabeled, channels=wanted, require_labels=False)
    np.testing.assert_array_equal(file.series, [[[2, 3], [4, 5]]])
    text = "id,t,time,load,label\na,5,1,7,x\na,4,0,6,x\n"
    heated = read_series_file(written(tmp_path, "c.csv", text), channels=["t", "load"])
    np.testing.assert_array_equal(heated.series, [[[4, 5], [6, 7]]])


TIMES = {
    "numbers": ["9", "10", "1.1e1"],
    "times of a day": ["9:00", "10:00:01", "10:00:01.5"],
    "dates": ["2024-03-09", "2024-03-10T09:00", "2024-03-10 10:00:00"],
    "slashes": ["2024/3/9 8:00".replace(" 8", " 08"), "2024/3/10 07:00", "2024/12/1 07:00"],
    "time zones": ["2024-11-03T01:50-07:00", "2024-11-03T01:05-08:00", "2024-11-03T10:00Z"],
}


@pytest.mark.parametrize("name", TIMES)
def test_steps_are_sorted_by_what_their_times_mean(tmp_path, name):
    for order in ([0, 1, 2], [2, 0, 1]):
        rows = "".join(f"a,{TIMES[name][k]},{k},x\n" for k in order)
        path = written(tmp_path, "a.csv", "id,time,value,label\n" + rows)
        np.testing.assert_array_equal(read_series_file(path).series[0], [[0, 1, 2]])


def test_times_of_an_unknown_form_are_refused_unless_their_order_is_that_of_the_rows(tmp_path):
    for times, is_right in ((["Jan 1", "Jan 2"], True), (["3/9/2024", "3/10/2024"], False)):
        rows = "".join(f"a,{time},{k},x\n" for k, time in enumerate(times))
        path = written(tmp_path, "a.csv", "id,time,value,label\n" + rows)
        if is_right:
            np.testing.assert_array_equal(read_series_file(path).series[0], [[0, 1]])
            continue
        message = "line 2, column 'time': '3/9/2024' is neither a number nor a date such as"
        with pytest.raises(DataError, match=message):
            read_series_file(path)


def test_arrays_may_have_lengths(tmp_path):
    X = np.arange(12.0).reshape(2, 2, 3)
    np.savez(tmp_path / "a.npz", X=X, y=["a", "b"], lengths=[3, 1])
    found = read_series_file(tmp_path / "a.npz")
    np.testing.assert_array_equal(found.series[1], X[1, :, :1])
    assert found.labels == ["a", "b"]


@pytest.mark.parametrize(("name", "text", "message"), [
    ("a.ts", "@classLabel true a\n@data\n1,x:a\n", "line 3.*'x' is not a number"),
    ("a.ts", "1,2:a\n", "line 1.*above @data"),
    ("a.ts", "@data\n1,2:a\n1:2:a\n", "line 3.*has 2 channels"),
    ("a.ts", "@classLabel false\n@data\n1,2\n", "the series have no labels"),
    ("a.csv", "label,1,2\na,1,2\n,1,2\n", "line 3.*the series has no label"),
    ("a.csv", "label,1,2\na,1,b\nc,1,2\n", "line 2.*'b' is not a number"),
    ("a.csv", "id,t,v,label\na,0,1,x\na,1,1,y\n", "'a' has several labels: 'x', 'y'"),
    ("a.jsonl", '{"series": [1, 2], "label": "a"}\n{"series": "q", "label": "a"}\n',
     "line 2.*is no list"),
])  # fmt: skip
def test_errors_name_the_line(tmp_path, name, text, message):
    with pytest.raises(DataError, match=message):
        read_series_file(written(tmp_path, name, text))


def test_arrays_of_other_shapes_are_refused(tmp_path):
    for arrays, message in (({"X": np.zeros(3)}, "X is"), ({"Z": np.zeros(3)}, "no array X"),
                            ({"X": np.zeros((2, 3)), "y": [1]}, "y has"),
                            ({"X": np.zeros((2, 3)), "y": [1, 2], "lengths": [4, 1]}, "lengths"),
                            ({"X": np.zeros((2, 3))}, "no labels")):  # fmt: skip
        np.savez(tmp_path / "a.npz", **arrays)
        with pytest.raises(DataError, match=message):
            read_series_file(tmp_path / "a.npz")
