"""Tests of ``representer serve``: addresses, tokens, and how it stops."""

from __future__ import annotations

import json
import os
import re
import signal
import socket
import subprocess
import sys
import urllib.request
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from representer.cli.share import listen
from representer.serving import Limits

Run = Any


def test_a_short_token_is_rejected(
    run: Run, trained: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("REPRESENTER_TOKEN", "short")
    outcome = run("serve", str(trained), "--host", "0.0.0.0")
    assert outcome.code == 2
    assert "16 or more" in outcome.err
    assert "short" not in outcome.err


def test_an_answer_does_not_wait_for_a_full_packet(monkeypatch: pytest.MonkeyPatch) -> None:
    delays: list[int] = []

    def run_server(server: Any, sockets: list[socket.socket]) -> None:
        with sockets[0] as listening:
            delays.append(listening.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY))

    monkeypatch.setattr("uvicorn.Server.run", run_server)
    app: Any = SimpleNamespace(state=SimpleNamespace(process=SimpleNamespace(start=lambda: None)))
    listen(app, Limits(), "127.0.0.1", 0, lambda address: address)
    assert delays == [1]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "code"), [(signal.SIGTERM, 143), (signal.SIGINT, 130)])
def test_a_server_answers_and_stops(trained: Path, kind: signal.Signals, code: int) -> None:
    command = [sys.executable, "-m", "representer", "serve", str(trained), "--port", "0"]
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True, env=os.environ) as process:
        assert process.stderr is not None
        line = process.stderr.readline()
        found = re.search(r"http://127\.0\.0\.1:\d+", line)
        assert found, line
        request = urllib.request.Request(
            f"{found[0]}/predict", json.dumps({"inputs": ["good film"]}).encode(),
            {"content-type": "application/json"},
        )  # fmt: skip
        with urllib.request.urlopen(request, timeout=20) as response:
            assert "prediction" in json.loads(response.read())["predictions"][0]
        process.send_signal(kind)
        assert process.wait(20) % 256 == code or process.returncode == -kind
        assert "Traceback" not in process.stderr.read()
