"""Attacks on ``representer serve``: others are answered meanwhile, in bounded time and memory."""

from __future__ import annotations

import atexit
import json
import os
import re
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

from faults import Case, Suite, patience, temporary_folder, tiny_runs
from faults.tiny_runs import STOPPED, VALID, make_runs

TASKS = ("text", "language", "molecule", "graph")
SECONDS, MEMORY = 5.0, 2**30  # of others' answers; bytes of a process
ENDED = 40.0  # seconds, of the attack itself: --max-seconds and some
# on an idle machine
OPTIONS = {"--max-read-seconds": 2.0, "--max-call-seconds": 3.0, "--max-seconds": 30.0}
HEAD = b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
CHUNKS = HEAD + b"Transfer-Encoding: chunked\r\n\r\n"

_SERVERS: dict[str, tuple[int, int]] = {}  # process and port of each task
_Attack = Callable[[str], None]


def setup(tasks: tuple[str, ...] = TASKS) -> None:
    """Train the models and start a server of each."""
    for task, run, _ in make_runs(temporary_folder() / "runs", tasks):
        if run.name.endswith(STOPPED):
            continue
        words = [sys.executable, "-m", "representer", "serve", str(run), "--port", "0"]
        words += [f"{name}={patience(seconds):.0f}" for name, seconds in OPTIONS.items()]
        words += ["--max-connections", "50"]
        process = subprocess.Popen(
            [*words, "--device", "cpu"], stderr=subprocess.PIPE, text=True, start_new_session=True
        )
        atexit.register(process.terminate)
        assert process.stderr is not None
        found = re.search(r"http://[0-9.]+:(\d+)", process.stderr.readline())
        assert found is not None, "the server has not started"
        threading.Thread(target=process.stderr.read, daemon=True).start()
        _SERVERS[task] = process.pid, int(found[1])
        request(task, "/explain", {"inputs": [VALID[task]]})  # what is imported when it is used


def request(task: str, path: str, body: Any = None) -> tuple[int, bytes]:
    """Return the status and the body of an answer."""
    raw = body if body is None or isinstance(body, bytes) else json.dumps(body).encode()
    return tiny_runs.request(_SERVERS[task][1], "GET" if raw is None else "POST", path, raw)


def cases(seed: int, share: float) -> Iterator[Case]:
    """Yield attacks on the server of each task."""
    for task in TASKS:
        found: dict[str, _Attack] = dict(CONNECTIONS)
        for name, inputs in OBJECTS[task].items():
            for path in ("/predict", "/explain"):
                found[f"{path} {name}"] = partial(_ask, path=path, inputs=inputs)
        names = list(found)[:: max(1, round(1 / share))]
        for name in names:
            yield Case(task, f"{task}: {name}", partial(_attacked, task, found[name]))


def _attacked(task: str, attack: _Attack) -> None:
    """Run an attack; meanwhile and afterwards, ask as another client does."""
    thread = threading.Thread(target=attack, args=(task,), daemon=True)
    start = time.monotonic()
    thread.start()
    while True:
        is_over = not thread.is_alive()
        for path, body in (("/health", None), ("/predict", {"inputs": [VALID[task]]})):
            asked = time.monotonic()
            status, answer = request(task, path, body)
            took = time.monotonic() - asked
            assert status == 200, f"another client got status {status}: {answer[:200]!r}"
            most = patience(SECONDS if body else SECONDS / 5)
            assert took < most, f"another client waited {took:.1f} s for {path}"
        if is_over:
            break
        assert time.monotonic() - start < patience(ENDED), f"the attack holds on for {ENDED:g} s"
    largest = max(_memory(pid) for pid in _tree(_SERVERS[task][0]))
    assert largest < MEMORY, f"a process takes {largest / 2**20:.0f} MiB"


def _ask(task: str, path: str, inputs: Any) -> None:
    status, answer = request(task, path, {"inputs": inputs})
    assert status in (200, 422, 503, 504), f"status {status}: {answer[:200]!r}"


def _connect(task: str, data: bytes, count: int) -> None:
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


CONNECTIONS: dict[str, _Attack] = {
    "nothing is sent": partial(_connect, data=b"", count=200),
    "a header does not end": partial(_connect, data=HEAD + b"X: ", count=200),
    "a body does not end": partial(_connect, data=HEAD + b"Content-Length: 100\r\n\r\n{", count=40),
    "large bodies do not end": partial(
        _connect, data=HEAD + b"Content-Length: 9999999\r\n\r\n" + b"[" * 5_000_000, count=30
    ),
    "the next request does not end": partial(
        _connect, data=b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n" + HEAD, count=100
    ),
    "chunks of one byte": partial(_connect, data=CHUNKS + b"1\r\n[\r\n" * 100_000, count=2),
    "a chunk does not end": partial(_connect, data=CHUNKS + b"7FFFFFFF\r\n{", count=40),
    "a chunk of -5 bytes": partial(_connect, data=CHUNKS + b"-5\r\n{", count=40),
    "a body of 20 digits does not end": partial(
        _connect, data=HEAD + b"Content-Length: " + b"9" * 20 + b"\r\n\r\n{", count=40
    ),
    "requests whose answers are not read": partial(
        _connect, data=b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n" * 500, count=4
    ),
    "millions of values": lambda task: _ask_raw(
        task, b'{"inputs": [' + b"{}," * 3_000_000 + b"1]}"
    ),
    "deep arrays": lambda task: _ask_raw(task, b'{"inputs": ' + b"[" * 9_000_000),
}


def _ask_raw(task: str, body: bytes) -> None:
    status, answer = request(task, "/predict", body)
    assert 400 <= status < 500, f"status {status}: {answer[:200]!r}"


def _graph(count: int, degree: int) -> Any:
    edges = [[u, v] for u in range(count) for v in range(u + 1, min(count, u + 1 + degree))]
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
        "a path of 5,000 nodes": [_graph(5000, 1)], "a path of 2,000 nodes": [_graph(2000, 1)],
        "a clique": [_graph(200, 200)], "many cliques": [_graph(60, 60)] * 100,
    },
}  # fmt: skip


def _tree(pid: int) -> list[int]:
    """Return a process and its descendants."""
    found = [pid]
    for thread in Path(f"/proc/{pid}/task").iterdir():
        for child in (thread / "children").read_text("utf-8").split():
            found += _tree(int(child))
    return found


def _memory(pid: int) -> int:
    pages = int(Path(f"/proc/{pid}/statm").read_text("utf-8").split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE")


SUITE = Suite(
    "A server was attacked: other clients got the right status within 5 s, /health within 1 s, and "
    "no process took 1 GiB",
    cases,
    setup,
)
