"""The format of a file by its suffix."""

from __future__ import annotations

from pathlib import Path

import pytest

from representer.data.tables.files import FORMATS, TABLES, TASKS, format_of
from representer.tasks.registry import TASKS as ALL


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("S001R04.EDF", "mne"), ("a_raw.fif.gz", "mne"), ("a.CSV.XZ", "csv"), ("a.Sdf", "sdf"),
        ("SMSSpamCollection", "lines"), ("cooking.train", "lines"), ("a.docx", None),
    ],
)  # fmt: skip
def test_the_suffix_tells_the_format_in_either_case_and_under_a_compression(name, kind):
    assert format_of(Path(name)) == kind


def test_tables_have_no_task_of_their_own():
    assert set(TASKS.values()) <= {*ALL}
    assert not set(TASKS) & {FORMATS[suffix] for suffix in TABLES}
