"""Tests of the answers in the process of a model."""

from __future__ import annotations

import asyncio
import json
import socket
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from representer.errors import DataError, RepresenterError
from representer.serving import Limits
from representer.serving.answers import (
    Answers,
    BusyError,
    Job,
    NoStreamError,
    Reply,
    refusal,
)
from representer.serving.guard import Metrics
from representer.serving.model_process import EndedError, ModelProcess, SlowError, Worker
from served_toys import Toy, broken

toys: Any = Toy


def predictions(inputs: Any) -> Job:
    """Return a job that predicts."""
    return Job("predict", json.dumps({"inputs": inputs}).encode())


def test_a_wrong_object_is_named_by_its_place_in_the_inputs() -> None:
    (reply,) = Answers(toys, Limits())([predictions([1, 2, 3, "wrong"])])
    assert (reply.status, json.loads(reply.body)) == (422, {"error": "inputs[3] is wrong."})


@pytest.mark.parametrize(("body", "status", "problem"), [
    (b"{", 422, "the body is not JSON"),
    (b'{"inputs": [' + b"[" * 100_000, 400, "cannot be parsed"),
    (b'{"inputs": [' + b"9" * 5000 + b"]}", 400, "cannot be parsed"),
    (b"\xff", 422, "the body is not JSON"), (b"[]", 422, "the body: "),
    (b'{"inputs": []}', 422, "inputs: "), (b'{"inputs": [1], "top": 0}', 422, "top: "),
    (b'{"inputs": [1, 1, 1, 1]}', 422, "has 4 inputs; at most 3"),
])  # fmt: skip
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


@pytest.mark.parametrize(("error", "status"), [
    (SlowError("slow"), 504), (EndedError("ended"), 503), (BusyError("busy"), 503),
    (NoStreamError("none"), 404), (DataError("bad"), 422),
])  # fmt: skip
def test_errors_have_a_status(error: RepresenterError, status: int) -> None:
    assert refusal(error).status == status


# Tests of who may ask a server, and how much.


Serve = Any
TOKEN = "a-token-of-some-length"


def test_without_the_token_only_health_is_answered(serve: Serve, text_run: Path) -> None:
    client = serve(text_run, TOKEN)
    stranger, thief = client._replace(token=None), client._replace(token=TOKEN[:-1])
    for other in (stranger, thief):
        for method, path in (("GET", "/model"), ("GET", "/metrics"), ("GET", "/openapi.json"),
                             ("POST", "/predict"), ("POST", "/streams")):  # fmt: skip
            status, answer = other.request(method, path, {"inputs": ["good"]})
            assert status == 401
            assert "Bearer" in answer["error"]
        assert other.request("GET", "/health")[0] == 200
    assert client.post("/predict", {"inputs": ["good"]}, host="model.example")[0] == 200


@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "", "localhost.:80"])
def test_another_host_is_refused_without_a_token(serve: Serve, text_run: Path, host: str) -> None:
    client = serve(text_run)
    assert client.post("/predict", {"inputs": ["good"]}, host=host)[0] in (400, 403)
    for own in ("localhost", "localhost:8000", "127.0.0.1:1", "[::1]:80", "[::1]"):
        assert client.post("/predict", {"inputs": ["good"]}, host=own)[0] == 200


def test_a_page_cannot_send_a_form(serve: Serve, text_run: Path) -> None:
    headers = {"content-type": "text/plain"}
    status, answer = serve(text_run).request("POST", "/predict", {"inputs": ["good"]}, headers)
    assert status == 415
    assert "application/json" in answer["error"]


def test_a_large_body_is_refused(serve: Serve, text_run: Path) -> None:
    client = serve(text_run, max_bytes=1000)
    assert client.post("/predict", {"inputs": ["g" * 900]})[0] == 200
    status, answer = client.post("/predict", {"inputs": ["g" * 1000]})
    assert status == 413
    assert "1,000 bytes" in answer["error"]


def test_a_body_that_never_ends_is_answered(serve: Serve, text_run: Path) -> None:
    client = serve(text_run, max_seconds=0.3)
    with socket.create_connection(("127.0.0.1", client.port), 20) as connection:
        connection.sendall(
            b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Length: 100\r\n"
            b"Content-Type: application/json\r\n\r\n{"
        )
        assert b" 504 " in connection.recv(1000)


# Tests of the queue of a model.


class Process:
    """Answers in the thread of the worker, once it is released."""

    def __init__(self, limits: Limits) -> None:
        self._answers = Answers(Toy, limits)  # type: ignore[arg-type]
        self.released, self.calls, self.starts = threading.Event(), list[list[str]](), 0
        self.streams = 0

    def ask(self, jobs: Sequence[Job], seconds: float) -> list[Reply]:
        assert self.released.wait(20)
        self.calls.append([json.dumps(json.loads(job.body or "{}").get("inputs")) for job in jobs])
        if any(b"hang" in job.body for job in jobs):
            raise SlowError("too slow")
        return self._answers(jobs)

    def start(self) -> None:
        self.starts += 1

    def stop(self) -> None:
        self.released.set()


def answers(
    requests: Sequence[Any], leave: Sequence[int] = (), **limits: Any
) -> tuple[Process, list[Any]]:
    """Return a process and the answers to requests that wait together; some clients leave."""
    process = Process(Limits(**limits))

    async def main() -> list[Any]:
        worker: Any = Worker(process, Limits(**limits), Metrics())  # type: ignore[arg-type]
        running = asyncio.create_task(worker.run())
        first = asyncio.create_task(asked(worker.ask("open")))
        await asyncio.sleep(0)  # it runs; the next ones wait for it together
        await asyncio.sleep(0)
        tasks = [
            asyncio.create_task(asked(worker.ask(kind, json.dumps({"inputs": inputs}).encode())))
            for kind, inputs in requests
        ]
        await asyncio.sleep(0)
        for k in leave:
            tasks[k].cancel()
        process.released.set()
        found = await asyncio.gather(first, *tasks, return_exceptions=True)
        running.cancel()
        return found[1:]

    return process, asyncio.run(main())


async def asked(answer: Coroutine[Any, Any, Reply]) -> Any:
    reply = await answer
    (content,) = json.loads(reply.body).values()
    return content if reply.status == 200 else (reply.status, content)


def test_requests_that_wait_together_are_one_call_and_a_wrong_one_fails_alone() -> None:
    requests = [("predict", [1, 2]), ("predict", ["wrong"]), ("predict", [3])]
    process, found = answers(requests)
    assert found == [[2, 4], (422, "inputs[0] is wrong."), [6]]
    assert len(process.calls) == 2  # the first one opened a stream


def test_objects_of_several_requests_are_predicted_together_only_if_the_model_takes_them() -> None:
    class Lonely(Toy):
        takes_objects_of_several_requests = False

        def predict(self, objects: Sequence[Any]) -> list[Any]:
            return [sum(objects) for _ in objects]

    jobs = [Job("predict", json.dumps({"inputs": inputs}).encode()) for inputs in ([1, 2], [3])]
    replies = Answers(Lonely, Limits())(jobs)  # type: ignore[arg-type]
    assert [json.loads(reply.body)["predictions"] for reply in replies] == [[3, 3], [3]]


def test_an_explanation_is_a_call_of_its_own() -> None:
    requests = [("predict", [1]), ("explain", [1, 2]), ("predict", [3])]
    process, found = answers(requests)
    assert found == [[2], [{"row": 1}, {"row": 2}], [6]]
    assert process.calls[1:] == [["[1]"], ["[1, 2]"], ["[3]"]]


def test_a_request_that_ended_the_process_is_the_only_one_that_fails() -> None:
    requests = [("predict", [1]), ("predict", ["hang"]), ("predict", [3])]
    process, found = answers(requests)
    assert found[::2] == [[2], [6]]
    assert found[1] == (504, "too slow")
    assert process.starts == 2  # after the call of all, and after that of the one


def test_a_client_that_left_costs_nothing() -> None:
    process, found = answers([("predict", [1]), ("predict", [2])], leave=[0])
    assert isinstance(found[0], asyncio.CancelledError)
    assert found[1] == [4]
    assert process.calls[1:] == [["[2]"]]


def test_more_requests_than_may_wait_are_refused() -> None:
    _, found = answers([("predict", [k]) for k in range(4)], max_waiting=3)
    assert found[:3] == [[0], [2], [4]]
    assert isinstance(found[3], BusyError)


def test_a_large_body_is_a_call_of_its_own() -> None:
    requests = [("predict", [1]), ("predict", [1.0] * 4000), ("predict", [2])]
    process, found = answers(requests, max_objects=4000)
    assert [len(one) for one in found] == [1, 4000, 1]
    assert [len(call) for call in process.calls[1:]] == [1, 1, 1]


# Tests of the process of a model.


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
