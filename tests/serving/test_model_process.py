"""Tests of the process of a model."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import pytest

from representer.errors import DataError
from representer.serving.answers import Answers, Job
from representer.serving.limits import Limits
from representer.serving.model_process import EndedError, ModelProcess, SlowError
from served_toys import Toy, broken

Start = Callable[[Any], ModelProcess]


@pytest.fixture
def started() -> Iterator[Start]:
    """Return a function from what loads a model to its process."""
    running = []

    def start(model: Any) -> ModelProcess:
        running.append(ModelProcess(partial(Answers, model, Limits())))
        return running[-1]

    yield start
    for process in running:
        process.stop()


def test_a_call_that_takes_too_long_ends_the_process_and_the_next_one_starts_it(
    started: Start,
) -> None:
    process = started(Toy)
    process.start()
    first = process.about["model"]["process"]
    with pytest.raises(SlowError, match=r"took more than 0\.2 s"):
        process.ask([Job("predict", b'{"inputs": ["hang"]}')], 0.2)
    (reply,) = process.ask([Job("predict", b'{"inputs": [21]}')], 20)
    assert reply.body == b'{"predictions":[42]}'
    assert process.about["model"]["process"] != first


def test_a_process_that_dies_is_said_and_started_again(started: Start) -> None:
    process = started(Toy)
    with pytest.raises(EndedError, match="exit code 7"):
        process.ask([Job("predict", b'{"inputs": ["end"]}')], 20)
    assert process.ask([Job("predict", b'{"inputs": [1]}')], 20)[0].body == b'{"predictions":[2]}'


def test_the_reason_against_a_model_comes_from_its_process(started: Start) -> None:
    process = started(broken)
    with pytest.raises(DataError, match="runs/none: there is no model"):
        process.start()
    with pytest.raises(EndedError, match="cannot be loaded: runs/none"):
        process.ask([Job("predict")], 20)


def test_open_streams_are_counted_and_end_with_the_process(started: Start) -> None:
    process = started(Toy)
    process.ask([Job("open")], 20)
    assert process.streams == 1
    process.stop()
    process.start()
    assert process.streams == 0
