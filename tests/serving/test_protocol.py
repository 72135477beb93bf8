"""Connections, hosts, tokens and streams of the server."""

from __future__ import annotations

import socket
import time
from contextlib import ExitStack
from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from representer.serving import Limits
from representer.serving.answers import BusyError, NoStreamError, Streams
from representer.serving.guard import limited_protocol
from served_toys import Toy

# Tests of connections whose clients do not go on.


Serve = Any
POST = b"POST /predict HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
GET = b"GET /health HTTP/1.1\r\nHost: localhost\r\n\r\n"


def connected(client: Any, data: bytes) -> socket.socket:
    """Return a connection that has sent some bytes."""
    connection = socket.create_connection(("127.0.0.1", client.port), 20)
    connection.sendall(data)
    return connection


@pytest.mark.parametrize("data", [b"", POST, GET + POST])
def test_a_header_that_does_not_come_closes_the_connection(
    serve: Serve, monkeypatch: pytest.MonkeyPatch, data: bytes
) -> None:
    monkeypatch.setattr("representer.serving.guard._ANSWERED", 0.0)
    client = serve(Toy, max_read_seconds=0.2)
    with connected(client, data) as connection:
        received = b"".join(iter(lambda: connection.recv(1000), b""))
    assert received.count(b" 200 OK") == data.count(GET)
    assert client.request("GET", "/health")[0] == 200


def test_a_body_that_does_not_come_is_answered(serve: Serve) -> None:
    client = serve(Toy, max_read_seconds=0.2)
    with connected(client, POST + b"Content-Length: 9\r\n\r\n{") as connection:
        assert b" 408 " in connection.recv(1000)


def test_clients_that_send_nothing_take_no_place_from_others(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("representer.serving.guard._NEW", 0.0)
    client = serve(Toy, max_connections=4)
    with ExitStack() as stack:
        idle = [stack.enter_context(connected(client, b"")) for _ in range(12)]
        assert client.request("GET", "/health")[0] == 200
        assert client.post("/predict", {"inputs": [1]}) == (200, {"predictions": [2]})
        assert idle[0].recv(1) == b""  # the oldest


def test_a_client_that_does_not_read_is_closed(
    serve: Serve, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("representer.serving.guard._ANSWERED", 0.0)
    client = serve(Toy, max_seconds=0.5)
    body = b'{"inputs": ["%b"]}' % (b"x" * 4_000_000)  # twice as many come back
    with connected(client, b"") as connection:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 1 << 14)
        connection.sendall(POST + b"Content-Length: %d\r\n\r\n" % len(body) + body)
        while client.request("GET", "/metrics")[1].count('path="/predict",status=') == 0:
            pass
        time.sleep(1)  # twice as long as the server waits for a client that does not read
        received = 0
        try:
            while part := connection.recv(1 << 16):
                received += len(part)
        except ConnectionResetError:
            pass
    assert received < 8_000_000


def test_the_bodies_of_all_requests_have_a_limit(serve: Serve) -> None:
    client = serve(Toy, max_bytes=1000, max_read_seconds=20)
    with ExitStack() as stack:
        for _ in range(11):
            head = POST + b"Content-Length: 1000\r\n\r\n"
            stack.enter_context(connected(client, head + b"x" * 990))
        status, answer = client.post("/predict", {"inputs": ["x" * 900]})
    assert (status, answer) == (503, {"error": "the bodies of all requests are too large together"})
    assert client.post("/predict", {"inputs": [1]})[0] == 200


def test_what_comes_at_once_is_parsed_in_parts_between_which_others_are_served(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    received, later = list[bytes](), list[Any]()

    class Base:
        loop = SimpleNamespace(time=lambda: 0.0, call_soon=later.append, call_later=Mock())
        flow, cycle = SimpleNamespace(read_paused=False), None

        def connection_made(self, transport: Any) -> None:
            self.transport = transport

        def data_received(self, data: bytes) -> None:
            received.append(data)

    monkeypatch.setattr("representer.serving.guard.AutoHTTPProtocol", Base)
    protocol: Any = limited_protocol(Limits())()
    protocol.connection_made(Mock(is_closing=lambda: False))
    data = bytes(range(256)) * 40
    protocol.data_received(data[:9000])
    assert received == [data[:4096]]
    protocol.data_received(data[9000:])  # as after the reading was resumed: it waits its turn
    while later:
        later.pop(0)()
    assert b"".join(received) == data
    assert max(map(len, received)) == 4096
    protocol.transport.resume_reading.assert_called_once_with()


def test_a_body_in_chunks_of_one_byte_is_read(serve: Serve) -> None:
    client = serve(Toy)
    body = b'{"inputs": [%b1]}' % (b" " * 5000)
    chunks = b"".join(b"1\r\n%c\r\n" % byte for byte in body) + b"0\r\n\r\n"
    with connected(client, POST + b"Transfer-Encoding: chunked\r\n\r\n" + chunks) as connection:
        assert b" 200 OK" in connection.recv(1000)


# Tests of open streams.


def test_streams_are_limited_and_closed_when_idle() -> None:
    now = [0.0]
    streams = Streams(2, 10.0, lambda: now[0])
    first, second = (streams.open(lambda part: {"part": part}) for _ in range(2))
    assert first != second
    with pytest.raises(BusyError, match="2 streams"):
        streams.open(lambda part: {})
    now[0] = 8.0
    assert streams.get(first).step(1) == {"part": 1}
    now[0] = 12.0  # the second was last used at 0, the first at 8
    assert len(streams) == 1
    with pytest.raises(NoStreamError, match="no open stream"):
        streams.get(second)
    streams.close(first)
    with pytest.raises(NoStreamError):
        streams.close(first)
