"""Servers of small models: wrong and hostile requests, and attacks while others are answered."""

from __future__ import annotations

import atexit
import json
import os
import random
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from http.client import HTTPException
from typing import Any

import torch
import uvicorn

from faults import Case, Suite, patience, runs, some, temporary_folder
from faults.run_folders import WEIRD
from faults.runs import JSON, STOPPED, VALID, make_runs
from representer.serving import Limits, ServedModel, create_app
from serving import processes

PATHS = ("/predict", "/explain")
_HEAD = b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
_CHUNKS = _HEAD + b"Transfer-Encoding: chunked\r\n\r\n"
_GET = b"GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n"

# Wrong requests, to servers in threads of this process.

ASKED = ("text", "language", "molecule", "graph", "signal")
MUTATED = 60  # bodies for each task
SECONDS = 60
TOKEN = "a-token-of-some-length"
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
HEADERS: dict[str, dict[str, str]] = {
    "a form": {"content-type": "application/x-www-form-urlencoded"},
    "plain text": {"content-type": "text/plain"}, "no type": {},
    "an empty type": {"content-type": ""}, "a long type": {"content-type": "x" * 5000},
} | {
    f"the host {host!r}": JSON | {"host": host}
    for host in ("evil.example", "127.0.0.1.evil.example", "", "localhost/x", "localhost:1:2")
}  # fmt: skip
TOKENS = {
    "none": "", "no scheme": TOKEN, "another scheme": f"Basic {TOKEN}",
    "a part": f"Bearer {TOKEN[:-1]}", "more": f"Bearer {TOKEN}x", "empty": "Bearer ",
    "other letters": "Bearer \xe9", "long": "Bearer " + "x" * 9000,
}  # fmt: skip
RAW = {
    "a slow body": _HEAD + b"Content-Length: 100\r\n\r\n{",
    "no body": _HEAD + b"Content-Length: 100\r\n\r\n",
    "a large length": _HEAD + b"Content-Length: 99999999999999\r\n\r\n" + b"x" * 20_000,
    "a negative length": _HEAD + b"Content-Length: -1\r\n\r\n",
    "two lengths": _HEAD + b"Content-Length: 1\r\nContent-Length: 2\r\n\r\n{}",
    "a broken chunk": _CHUNKS + b"ZZ\r\n",
    "endless chunks": _CHUNKS + b"3e8\r\n" + b"x" * 1000 + b"\r\n",
    "no request": b"\x16\x03\x01" * 100, "a long path": _GET % (b"/" + b"x" * 100_000),
    "a path with ..": _GET % b"/../../etc/passwd",
    "another method": b"BREW /predict HTTP/1.1\r\nHost: localhost\r\n\r\n", "nothing": b"",
}  # fmt: skip

_PORTS: dict[str, int] = {}
_VALID = dict(VALID)
_ANSWERS: dict[str, bytes] = {}


def serve_here() -> None:
    """Train the models, start a server of each, and one that needs a token."""
    if _PORTS:
        return
    from representer.data.signals import read_recordings

    torch.set_num_threads(1)
    for task, run, data in make_runs(temporary_folder() / "runs", ASKED):
        if run.name.endswith(STOPPED):
            continue
        model = ServedModel(run, device="cpu")
        if task == "signal":
            _VALID[task] = read_recordings(data).signals[0].tolist()
        limits = Limits(max_seconds=patience(SECONDS), max_streams=20)
        _PORTS[task] = served(create_app(model, limits))
        if task == "text":
            _PORTS["token"] = served(create_app(model, limits, TOKEN))
            slow = Limits(max_seconds=patience(2), max_bytes=10_000)
            _PORTS["slow"] = served(create_app(model, slow))
        status, _ANSWERS[task] = request(task, "POST", "/predict", body_of(_VALID[task]))
        assert status == 200, _ANSWERS[task]


def served(app: Any) -> int:
    """Serve an app in a thread; return the port."""
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical", lifespan="on"))
    listening = socket.create_server(("127.0.0.1", 0))
    threading.Thread(target=server.run, args=([listening],), daemon=True).start()
    return listening.getsockname()[1]


def request(server: str, *asked: Any) -> tuple[int, bytes]:
    """Return status and body of the answer of a server to a method, path, body and headers."""
    return runs.request(_PORTS[server], *asked, seconds=2 * SECONDS)


def body_of(one: Any) -> bytes:
    return json.dumps({"inputs": [one]}).encode()


def requests(seed: int, share: float) -> Iterator[Case]:
    """Yield wrong requests to the server of each task."""
    bodies = BODIES | {f"text {k}": body_of(text) for k, text in enumerate(TEXTS)}
    for task in ASKED:
        every: dict[str, Callable[[], None]] = {
            f"{path} {name}": partial(attempt, task, path, body, is_wrong=name in BODIES)
            for path in PATHS for name, body in bodies.items()
        } | {
            f"changed {k:03}": partial(change, task, random.Random(f"{seed} {task} {k}"))
            for k in range(MUTATED)
        } | {
            f"stream {k}": partial(stream, task, value) for k, value in enumerate(WEIRD)
        }  # fmt: skip
        for name in some(list(every), share, f"{seed} {task}"):
            yield Case(task, f"{task}: {name}", every[name])
    for name, headers in HEADERS.items():
        yield Case("headers", name, partial(refuse, "text", headers))
    for name, value in TOKENS.items():
        yield Case("tokens", name, partial(refuse, "token", JSON | {"authorization": value}))
    for name, raw in RAW.items():
        yield Case("clients", name, partial(send, raw))


def attempt(task: str, path: str, body: bytes, *, is_wrong: bool = True) -> None:
    status, answer = request(task, "POST", path, body)
    require(task, status, answer, is_wrong=is_wrong)


def require(task: str, status: int, answer: bytes, *, is_wrong: bool) -> None:
    shown = f"status {status}: {answer[:200]!r}"
    assert 400 <= status < 500 or (not is_wrong and status == 200), shown
    found = json.loads(answer)
    if status != 200:
        assert set(found) == {"error"}, shown
        assert 0 < len(found["error"]) < 1000, f"{len(found['error'])} characters: {shown}"
        assert "Traceback" not in found["error"], shown
    assert request(task, "GET", "/health")[0] == 200
    again = request(task, "POST", "/predict", body_of(_VALID[task]))
    assert again == (200, _ANSWERS[task]), f"another answer afterwards: {again[1][:200]!r}"


def change(task: str, draw: random.Random) -> None:
    """Send a right body of which one value is another, of any type."""
    value: Any = json.loads(json.dumps({"inputs": [_VALID[task]], "top": 3}))
    node, key = value, draw.choice(("inputs", "inputs", "inputs", "top"))
    while isinstance(node[key], dict | list) and node[key] and draw.random() < 0.8:
        node = node[key]
        key = draw.choice(list(node)) if isinstance(node, dict) else draw.randrange(len(node))
    node[key] = draw.choice(WEIRD)
    attempt(task, draw.choice(PATHS), json.dumps(value).encode(), is_wrong=False)


def stream(task: str, value: Any) -> None:
    """Read a wrong part; then the stream of a stranger, and one that was closed."""
    status, answer = request(task, "POST", "/streams", b"{}")
    if status == 201:
        name = json.loads(answer)["stream"]
        part = json.dumps({"input": value}).encode()
        require(task, *request(task, "POST", f"/streams/{name}", part), is_wrong=False)
        assert request(task, "DELETE", f"/streams/{name}")[0] == 204
        require(task, *request(task, "POST", f"/streams/{name}", part), is_wrong=True)
    else:
        require(task, status, answer, is_wrong=True)
    for other in ("x", "..", "%00", "x" * 5000, "%2e%2e%2fmodel"):
        require(task, *request(task, "DELETE", f"/streams/{other}"), is_wrong=True)


def refuse(server: str, headers: Mapping[str, str]) -> None:
    status, answer = request(server, "POST", "/predict", body_of(_VALID["text"]), headers)
    assert 400 <= status < 500, f"status {status}: {answer[:200]!r}"
    if status != 400:  # of the HTTP parser
        assert set(json.loads(answer)) == {"error"}, answer[:200]
    assert len(answer) < 1000, f"{len(answer)} bytes"
    assert request(server, "GET", "/health")[0] == 200


def send(raw: bytes) -> None:
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
        status, answer = request("slow", "POST", "/predict", body_of(_VALID["text"]))
    except (HTTPException, OSError) as error:
        raise AssertionError(f"no answer afterwards: {error}") from error
    assert (status, answer) == (200, _ANSWERS["text"]), f"status {status} afterwards"


# Attacks on `representer serve`: others are answered meanwhile, in bounded time and memory.

ATTACKED = ("text", "language", "molecule", "graph")
WAIT, MEMORY = 5.0, 2**30  # seconds of others' answers; bytes of a process
ENDED = 40.0  # seconds, of the attack itself: --max-seconds and some
# on an idle machine
OPTIONS = {"--max-read-seconds": 2.0, "--max-call-seconds": 3.0, "--max-seconds": 30.0}

_SERVERS: dict[str, tuple[int, int]] = {}  # process and port of each task
Attack = Callable[[str], None]


def serve_apart() -> None:
    """Train the models and start a server of each."""
    for task, run, _ in make_runs(temporary_folder() / "runs", ATTACKED):
        if run.name.endswith(STOPPED):
            continue
        words = [sys.executable, "-m", "representer", "serve", str(run), "--port", "0"]
        words += [f"{name}={patience(seconds):.0f}" for name, seconds in OPTIONS.items()]
        process = subprocess.Popen(
            [*words, "--max-connections", "50", "--device", "cpu"], stderr=subprocess.PIPE,
            text=True, start_new_session=True,
        )  # fmt: skip
        atexit.register(process.terminate)
        assert process.stderr is not None
        found = re.search(r"http://[0-9.]+:(\d+)", process.stderr.readline())
        assert found is not None, "the server has not started"
        threading.Thread(target=process.stderr.read, daemon=True).start()
        _SERVERS[task] = process.pid, int(found[1])
        asked(task, "/explain", {"inputs": [VALID[task]]})  # what is imported when it is used


def asked(task: str, path: str, body: Any = None) -> tuple[int, bytes]:
    """Return the status and the body of an answer."""
    raw = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    return runs.request(_SERVERS[task][1], "GET" if raw is None else "POST", path, raw)


def attacks(seed: int, share: float) -> Iterator[Case]:
    """Yield attacks on the server of each task."""
    for task in ATTACKED:
        every: dict[str, Attack] = dict(CONNECTIONS) | {
            f"{path} {name}": partial(ask, path, inputs)
            for name, inputs in OBJECTS[task].items() for path in PATHS
        }  # fmt: skip
        for name in list(every)[:: max(1, round(1 / share))]:
            yield Case(task, f"{task}: {name}", partial(attacked, task, every[name]))


def attacked(task: str, attack: Attack) -> None:
    """Run an attack; meanwhile and afterwards, ask as another client does."""
    thread = threading.Thread(target=attack, args=(task,), daemon=True)
    start = time.monotonic()
    thread.start()
    while True:
        is_over = not thread.is_alive()
        for path, body in (("/health", None), ("/predict", {"inputs": [VALID[task]]})):
            begin = time.monotonic()
            status, answer = asked(task, path, body)
            took = time.monotonic() - begin
            assert status == 200, f"another client got status {status}: {answer[:200]!r}"
            most = patience(WAIT if body else WAIT / 5)
            assert took < most, f"another client waited {took:.1f} s for {path}"
        if is_over:
            break
        assert time.monotonic() - start < patience(ENDED), f"the attack holds on for {ENDED:g} s"
    sizes = [(folder / "statm").read_text("ascii") for folder in processes(_SERVERS[task][0])]
    largest = max(int(size.split()[1]) for size in sizes) * os.sysconf("SC_PAGE_SIZE")
    assert largest < MEMORY, f"a process takes {largest / 2**20:.0f} MiB"


def ask(path: str, inputs: Any, task: str) -> None:
    status, answer = asked(task, path, {"inputs": inputs})
    assert status in (200, 422, 503, 504), f"status {status}: {answer[:200]!r}"


def ask_raw(body: bytes, task: str) -> None:
    status, answer = asked(task, "/predict", body)
    assert 400 <= status < 500, f"status {status}: {answer[:200]!r}"


def connect(count: int, data: bytes, task: str) -> None:
    """Send something over many connections, and nothing more until the server closes them."""
    opened = []
    for _ in range(count):
        opened.append(socket.create_connection(("127.0.0.1", _SERVERS[task][1]), patience(20)))
        opened[-1].sendall(data)
    for connection in opened:
        try:
            while connection.recv(1 << 16):
                pass
        except ConnectionError:
            pass
        connection.close()


CONNECTIONS: dict[str, Attack] = {
    "nothing is sent": partial(connect, 200, b""),
    "a header does not end": partial(connect, 200, _HEAD + b"X: "),
    "a body does not end": partial(connect, 40, _HEAD + b"Content-Length: 100\r\n\r\n{"),
    "large bodies do not end": partial(
        connect, 30, _HEAD + b"Content-Length: 9999999\r\n\r\n" + b"[" * 5_000_000
    ),
    "the next request does not end": partial(connect, 100, _GET % b"/health" + _HEAD),
    "chunks of one byte": partial(connect, 2, _CHUNKS + b"1\r\n[\r\n" * 100_000),
    "a chunk does not end": partial(connect, 40, _CHUNKS + b"7FFFFFFF\r\n{"),
    "a chunk of -5 bytes": partial(connect, 40, _CHUNKS + b"-5\r\n{"),
    "a body of 20 digits does not end": partial(
        connect, 40, _HEAD + b"Content-Length: " + b"9" * 20 + b"\r\n\r\n{"
    ),
    "requests whose answers are not read": partial(connect, 4, _GET % b"/health" * 500),
    "millions of values": lambda task: ask_raw(b'{"inputs": [' + b"{}," * 3_000_000 + b"1]}", task),
    "deep arrays": lambda task: ask_raw(b'{"inputs": ' + b"[" * 9_000_000, task),
}


def graph_of(count: int, degree: int) -> Any:
    edges = [[u, v, "s"] for u in range(count) for v in range(u + 1, min(count, u + 1 + degree))]
    return {"nodes": ["a"] * count, "edges": edges}


_LONG = "the sea is blue and "
OBJECTS: dict[str, dict[str, list[Any]]] = {
    "text": {
        "150 kB": [_LONG * 7500], "the longest": [_LONG * 500],
        "many of the longest": [_LONG * 500] * 50,
        "one word": ["a" * 10_000], "many": [_LONG] * 1000,
    },
    "language": {
        "150 kB": [_LONG * 7500], "the longest": [_LONG * 500], "many": [_LONG] * 500,
    },
    "molecule": {
        "an aromatic ring of 9,000 atoms": ["c1" + "c" * 9000 + "1"] * 3,
        "an aromatic ring of 998 atoms": ["c1" + "c" * 996 + "c1"],
        "a chain of 1,000 atoms": ["C" * 1000] * 10, "many": ["CC(=O)Nc1ccc(O)cc1"] * 1000,
        "open branches": ["C(" * 4000],
    },
    "graph": {
        "a path of 5,000 nodes": [graph_of(5000, 1)], "a path of 2,000 nodes": [graph_of(2000, 1)],
        "a clique": [graph_of(200, 200)], "many cliques": [graph_of(60, 60)] * 100,
    },
}  # fmt: skip


SUITES = {
    "served_requests": Suite(
        "A server got a wrong or hostile request: a 4xx status with one JSON error, and the same "
        "answers as before afterwards",
        requests,
        serve_here,
    ),
    "server_attacks": Suite(
        "A server was attacked: other clients got the right status within 5 s, /health within 1 s, "
        "and no process took 1 GiB",
        attacks,
        serve_apart,
    ),
}
