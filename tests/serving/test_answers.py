"""Tests of the answers in the process of a model."""

from __future__ import annotations

import json
from typing import Any

import pytest

from representer.errors import DataError, RepresenterError
from representer.serving.answers import Answers, Job, refusal
from representer.serving.limits import Limits
from representer.serving.model_process import EndedError, SlowError
from representer.serving.served_model import BusyError, NoStreamError
from served_toys import Toy

toys: Any = Toy


def predictions(inputs: Any) -> Job:
    """Return a job that predicts."""
    return Job("predict", json.dumps({"inputs": inputs}).encode())


def test_a_wrong_object_is_named_by_its_place_in_the_inputs() -> None:
    (reply,) = Answers(toys, Limits())([predictions([1, 2, 3, "wrong"])])
    assert (reply.status, json.loads(reply.body)) == (422, {"error": "inputs[3] is wrong."})


@pytest.mark.parametrize(
    ("body", "status", "problem"),
    [
        (b"{", 422, "the body is not JSON"),
        (b'{"inputs": [' + b"[" * 100_000, 400, "cannot be parsed"),
        (b'{"inputs": [' + b"9" * 5000 + b"]}", 400, "cannot be parsed"),
        (b"\xff", 422, "the body is not JSON"),
        (b"[]", 422, "the body: "),
        (b'{"inputs": []}', 422, "inputs: "),
        (b'{"inputs": [1], "top": 0}', 422, "top: "),
        (b'{"inputs": [1, 1, 1, 1]}', 422, "has 4 inputs; at most 3"),
    ],
)
def test_a_body_that_is_no_request_is_refused(body: bytes, status: int, problem: str) -> None:
    (reply,) = Answers(toys, Limits(max_objects=3))([Job("predict", body)])
    assert reply.status == status
    assert problem in json.loads(reply.body)["error"]


def test_a_bug_of_a_model_is_an_answer(capsys: pytest.CaptureFixture[str]) -> None:
    (reply,) = Answers(toys, Limits())([predictions([None])])  # 2 * None
    assert (reply.status, json.loads(reply.body)) == (500, {"error": "internal: TypeError"})
    assert "Traceback" in capsys.readouterr().err


def test_streams_are_opened_read_and_closed() -> None:
    answer = Answers(toys, Limits(max_streams=1))
    (opened,), (busy,) = answer([Job("open")]), answer([Job("open")])
    assert (opened.status, busy.status) == (201, 503)
    name = json.loads(opened.body)["stream"]
    sums = [answer([Job("part", b'{"input": %d}' % part, name)])[0].body for part in (2, 3)]
    assert sums == [b'{"sum":2}', b'{"sum":5}']
    assert [answer([Job("close", b"", name)])[0].status for _ in range(2)] == [204, 404]


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (SlowError("slow"), 504), (EndedError("ended"), 503), (BusyError("busy"), 503),
        (NoStreamError("none"), 404), (DataError("bad"), 422),
    ],
)  # fmt: skip
def test_errors_have_a_status(error: RepresenterError, status: int) -> None:
    assert refusal(error).status == status
