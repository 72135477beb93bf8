"""Hostile requests to servers of small models: wrong bodies, headers, tokens, slow clients."""

from __future__ import annotations

import json
import random
import socket
import threading
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from http.client import HTTPException
from typing import Any

import torch
import uvicorn

from faults import Case, Suite, patience, temporary_folder, tiny_runs
from faults.run_attacks import WEIRD
from faults.tiny_runs import JSON, STOPPED, VALID, make_runs
from representer.serving import Limits, ServedModel, create_app

TASKS = ("text", "language", "molecule", "graph", "signal")
MUTATED = 60  # bodies for each task
SECONDS = 60
TOKEN = "a-token-of-some-length"
PATHS = ("/predict", "/explain")
LONG = "9" * 5000

# bodies that are wrong for every task
BODIES: dict[str, bytes] = {
    "empty": b"", "no JSON": b"{", "bytes": bytes(range(256)), "an array": b"[]",
    "null": b"null", "a text": b'"x"', "no inputs": b"{}", "UTF-16": '{"a": 1}'.encode("utf-16"),
    "deep objects": b'{"inputs": [' + b'{"a":' * 100_000 + b"1" + b"}" * 100_000 + b"]}",
    "too many": json.dumps({"inputs": ["x"] * 1001}).encode(),
    "a wrong top": b'{"inputs": ["x"], "top": -1}',
    "a huge top": f'{{"inputs": ["x"], "top": {LONG}}}'.encode(),
    "a word as top": b'{"inputs": ["x"], "top": "many"}',
    "too large": b'{"inputs": ["' + b"x" * 10_000_001 + b'"]}',
} | {
    f"inputs of {name}": b'{"inputs": ' + inputs + b"}"
    for name, inputs in {
        "null": b"null", "nothing": b"[]", "a word": b'"good"', "an infinity": b"[1e999]",
        "a long number": f"[{LONG}]".encode(), "NaN": b"[NaN]", "arrays of no width": b"[[[]]]",
        "many kinds": b'["good", 1, null, [], {}]', "ragged arrays": b"[[[1, 2], [1]]]",
        "words in arrays": b'[[["a"]]]', "deep arrays": b"[" * 100_000 + b"]" * 100_000,
    }.items()
}  # fmt: skip
TEXTS = ("", " ", "\0", "\ud800", "λ" * 100_000, "x " * 100_000, "\x1b[2J", "C1CC", "C" * 20_000,
         "(" * 5000, "\u202e", "<script>")  # fmt: skip

_PORTS: dict[str, int] = {}
_VALID = dict(VALID)
_ANSWERS: dict[str, bytes] = {}


def setup(tasks: tuple[str, ...] = TASKS) -> None:
    """Train the models, start a server of each, and one that needs a token."""
    if _PORTS:
        return
    torch.set_num_threads(1)
    place = temporary_folder()
    for task, run, data in make_runs(place / "runs", tasks):
        if run.name.endswith(STOPPED):
            continue
        model = ServedModel(run, device="cpu")
        if task == "signal":
            from representer.data.signals import read_recordings

            _VALID[task] = read_recordings(data).signals[0].tolist()
        limits = Limits(max_seconds=patience(SECONDS), max_streams=20)
        _PORTS[task] = _served(create_app(model, limits))
        if task == "text":
            _PORTS["token"] = _served(create_app(model, limits, TOKEN))
            _PORTS["slow"] = _served(
                create_app(model, Limits(max_seconds=patience(2), max_bytes=10_000))
            )
        status, _ANSWERS[task] = request(task, "POST", "/predict", _body(_VALID[task]))
        assert status == 200, _ANSWERS[task]


def _served(app: Any) -> int:
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical", lifespan="on"))
    listening = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=server.run, args=([listening],), daemon=True).start()
    return listening.getsockname()[1]


def request(server: str, *asked: Any) -> tuple[int, bytes]:
    """Return status and body of the answer of a server to a method, path, body and headers."""
    return tiny_runs.request(_PORTS[server], *asked, seconds=2 * SECONDS)


def _body(one: Any) -> bytes:
    return json.dumps({"inputs": [one]}).encode()


def cases(seed: int, share: float) -> Iterator[Case]:
    """Yield wrong requests to the server of each task."""
    for task in TASKS:
        found: list[tuple[str, Callable[[], None]]] = []
        for path in PATHS:
            bodies = BODIES | {f"text {k}": _body(text) for k, text in enumerate(TEXTS)}
            found += [
                (f"{path} {name}", partial(_attempt, task, path, body, is_wrong=name in BODIES))
                for name, body in bodies.items()
            ]
        found += [
            (f"changed {k:03}", partial(_changed, task, random.Random(f"{seed} {task} {k}")))
            for k in range(MUTATED)
        ]
        found += [(f"stream {k}", partial(_stream, task, value)) for k, value in enumerate(WEIRD)]
        count = max(1, round(share * len(found)))
        for k in sorted(random.Random(f"{seed} {task}").sample(range(len(found)), count)):
            yield Case(task, f"{task}: {found[k][0]}", found[k][1])
    for name, headers in HEADERS.items():
        yield Case("headers", name, partial(_refused, "text", headers))
    for name, value in TOKENS.items():
        yield Case("tokens", name, partial(_refused, "token", JSON | {"authorization": value}))
    for name, raw in RAW.items():
        yield Case("clients", name, partial(_raw, raw))


HEADERS: dict[str, dict[str, str]] = {
    "a form": {"content-type": "application/x-www-form-urlencoded"},
    "plain text": {"content-type": "text/plain"},
    "no type": {},
    "an empty type": {"content-type": ""},
    "a long type": {"content-type": "x" * 5000},
    **{
        f"the host {host!r}": JSON | {"host": host}
        for host in (
            *("evil.example", "127.0.0.1.evil.example", "", "localhost/x", "localhost:1:2"),
        )
    },
}
TOKENS = {
    "none": "", "no scheme": TOKEN, "another scheme": f"Basic {TOKEN}",
    "a part": f"Bearer {TOKEN[:-1]}", "more": f"Bearer {TOKEN}x", "empty": "Bearer ",
    "other letters": "Bearer \xe9", "long": "Bearer " + "x" * 9000,
}  # fmt: skip
_GET = b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n"
_HEAD = b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
_CHUNKED = _HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
RAW = {
    "a slow body": _HEAD + b"Content-Length: 100\r\n\r\n{",
    "no body": _HEAD + b"Content-Length: 100\r\n\r\n",
    "a large length": _HEAD + b"Content-Length: 99999999999999\r\n\r\n" + b"x" * 20_000,
    "a negative length": _HEAD + b"Content-Length: -1\r\n\r\n",
    "two lengths": _HEAD + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n{}",
    "a broken chunk": _CHUNKED + b"ZZ\r\n",
    "endless chunks": _CHUNKED + b"3e8\r\n" + b"x" * 1000 + b"\r\n",
    "no request": b"\x16\x03\x01" * 100, "a long path": _GET % (b"/" + b"x" * 100_000),
    "a path with ..": _GET % b"/../../etc/passwd",
    "another method": b"BREW /predict HTTP/1.1\r\nHost: localhost\r\n\r\n", "nothing": b"",
}  # fmt: skip


def _attempt(task: str, path: str, body: bytes, *, is_wrong: bool = True) -> None:
    status, answer = request(task, "POST", path, body)
    _require(task, status, answer, is_wrong=is_wrong)


def _require(task: str, status: int, answer: bytes, *, is_wrong: bool) -> None:
    shown = f"status {status}: {answer[:200]!r}"
    assert 400 <= status < 500 or (not is_wrong and status == 200), shown
    found = json.loads(answer)
    if status != 200:
        assert set(found) == {"error"}, shown
        assert 0 < len(found["error"]) < 1000, f"{len(found['error'])} characters: {shown}"
        assert "Traceback" not in found["error"], shown
    assert request(task, "GET", "/health")[0] == 200
    again = request(task, "POST", "/predict", _body(_VALID[task]))
    assert again == (200, _ANSWERS[task]), f"another answer afterwards: {again[1][:200]!r}"


def _changed(task: str, draw: random.Random) -> None:
    """Send a right body of which one value is another, of any type."""
    value: Any = {"inputs": [_VALID[task]], "top": 3}
    value = json.loads(json.dumps(value))
    node, at = value, draw.choice(("inputs", "inputs", "inputs", "top"))
    while isinstance(node[at], dict | list) and node[at] and draw.random() < 0.8:
        node = node[at]
        at = draw.choice(list(node)) if isinstance(node, dict) else draw.randrange(len(node))
    node[at] = draw.choice(WEIRD)
    _attempt(task, draw.choice(PATHS), json.dumps(value).encode(), is_wrong=False)


def _stream(task: str, value: Any) -> None:
    """Read a wrong part; then the stream of a stranger, and one that was closed."""
    status, answer = request(task, "POST", "/streams", b"{}")
    if status == 201:
        name = json.loads(answer)["stream"]
        part = json.dumps({"input": value}).encode()
        _require(task, *request(task, "POST", f"/streams/{name}", part), is_wrong=False)
        assert request(task, "DELETE", f"/streams/{name}")[0] == 204
        _require(task, *request(task, "POST", f"/streams/{name}", part), is_wrong=True)
    else:
        _require(task, status, answer, is_wrong=True)
    for other in ("x", "..", "%00", "x" * 5000, "%2e%2e%2fmodel"):
        _require(task, *request(task, "DELETE", f"/streams/{other}"), is_wrong=True)


def _refused(server: str, headers: Mapping[str, str]) -> None:
    status, answer = request(server, "POST", "/predict", _body(_VALID["text"]), headers)
    assert 400 <= status < 500, f"status {status}: {answer[:200]!r}"
    if status != 400:  # of the HTTP parser
        assert set(json.loads(answer)) == {"error"}, answer[:200]
    assert len(answer) < 1000, f"{len(answer)} bytes"
    assert request(server, "GET", "/health")[0] == 200


def _raw(raw: bytes) -> None:
    """Send bytes and wait for the end; no answer at all is as good as a refusal."""
    with socket.create_connection(("127.0.0.1", _PORTS["slow"]), patience(SECONDS)) as connection:
        connection.sendall(raw)
        if not raw:
            connection.shutdown(socket.SHUT_WR)
        try:
            head = connection.recv(1000)
        except ConnectionError:
            head = b""
    assert not head or head.split()[1][:1] == b"4" or b" 504 " in head, head[:200]
    try:
        status, answer = request("slow", "POST", "/predict", _body(_VALID["text"]))
    except (HTTPException, OSError) as error:
        raise AssertionError(f"no answer afterwards: {error}") from error
    assert (status, answer) == (200, _ANSWERS["text"]), f"status {status} afterwards"


SUITE = Suite(
    "A server got a wrong or hostile request: a 4xx status with one JSON error, "
    "and the same answers as before afterwards",
    cases,
    setup,
)
