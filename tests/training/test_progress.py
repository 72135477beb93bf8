"""Progress: a bar on a terminal, lines in a pipe, nothing when turned off, and never a crash."""

from __future__ import annotations

import io
import os
import sys

import pytest

from representer.errors import say
from representer.training.trainer import Progress


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


def show(progress: Progress) -> None:
    progress.start_epoch(2, 3, 1, 4)
    for loss in (0.5, 0.25, 0.125):
        progress.step(loss)
    progress.line({"step": 8, "epoch": 2, "train_loss": 1 / 3, "f1": None})
    progress.close()


def test_a_line_leaves_the_buffer_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    events: list[str] = []

    class Recorder(io.StringIO):
        def write(self, text: str) -> int:
            events.append("write")
            return super().write(text)

        def flush(self) -> None:
            events.append("flush")

    monkeypatch.setattr(sys, "stdout", Recorder())
    Progress().line({"step": 1})
    assert events[-1] == "flush"


def test_a_pipe_gets_one_line_and_no_bar(capsys: pytest.CaptureFixture[str]) -> None:
    show(Progress())
    out, err = capsys.readouterr()
    assert out == "step 8  epoch 2  train_loss 0.3333  f1 None\n"
    assert err == ""


def test_a_terminal_gets_a_bar_too(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    show(Progress())
    assert "epoch 2/3" in terminal.getvalue()
    assert "1/4" in terminal.getvalue()
    assert capsys.readouterr().out.count("\n") == 1


def test_nothing_is_shown_on_request(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    terminal = Terminal()
    monkeypatch.setattr(sys, "stderr", terminal)
    show(Progress(is_shown=False))
    assert capsys.readouterr().out == terminal.getvalue() == ""


def test_a_closed_or_missing_stream_stops_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    closed = io.StringIO()
    closed.close()
    for stream in (closed, None):
        monkeypatch.setattr(sys, "stdout", stream)
        monkeypatch.setattr(sys, "stderr", stream)
        show(Progress())
        say("hello")
    monkeypatch.undo()
    show(Progress())
    assert capsys.readouterr().out.count("\n") == 1


def test_a_pipe_without_reader_stops_nothing(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    reading, writing = os.pipe()
    os.close(reading)
    stream = io.TextIOWrapper(io.FileIO(writing, "w"), write_through=True)
    monkeypatch.setattr(sys, "stdout", stream)
    show(Progress())
    say("still here")
    assert capsys.readouterr().err == "still here\n"
    monkeypatch.undo()
    stream.close()
