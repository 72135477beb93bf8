"""Tests of who may ask a server, and how much."""

from __future__ import annotations

import socket
from pathlib import Path
from typing import Any

import pytest

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
