"""Servers of small models, on free ports of this machine."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from http.client import HTTPConnection
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import uvicorn

from representer.estimators import LanguageModel, TextClassifier
from representer.serving import Limits, ServedModel, create_app
from representer.serving.guard import limited_protocol
from representer.serving.live import LiveView, create_live_app
from undrawn import figures_are_not_drawn  # noqa: F401 (used by all tests of the folder)

TEXTS = ["good film", "bad film", "very good", "very bad", "good play", "bad play"] * 5
LABELS = ["yes", "no"] * 15


class Client(NamedTuple):
    """A client of one server."""

    port: int
    token: str | None = None

    def request(
        self,
        method: str,
        path: str,
        body: Any = None,
        headers: dict[str, str] | None = None,
    ) -> tuple[int, Any]:
        """Return the status and the parsed body of an answer."""
        connection = HTTPConnection("127.0.0.1", self.port, timeout=20)
        sent = {"content-type": "application/json"}
        if self.token:
            sent["authorization"] = f"Bearer {self.token}"
        raw = body if isinstance(body, bytes) or body is None else json.dumps(body).encode()
        try:
            connection.request(method, path, raw, sent | (headers or {}))
            answer = connection.getresponse()
            content = answer.read()
        finally:
            connection.close()
        is_json = content and answer.headers.get_content_type() == "application/json"
        return answer.status, json.loads(content) if is_json else content.decode()

    def post(self, path: str, body: Any, **headers: str) -> tuple[int, Any]:
        """Return the answer to a POST."""
        return self.request("POST", path, body, headers)


Serve = Callable[..., Client]


@pytest.fixture(scope="session")
def text_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A text classifier with a kernel alone; tests only read it."""
    folder = tmp_path_factory.mktemp("served") / "text"
    model = TextClassifier(answer="kernel", random_state=0, verbose=0)
    model.fit(TEXTS, LABELS).save(folder)
    return folder


@pytest.fixture(scope="session")
def language_run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A language model with both parts; tests only read it."""
    folder = tmp_path_factory.mktemp("served") / "language"
    model = LanguageModel(level="word", epochs=1, hidden_size=8, random_state=0, verbose=0)
    model.fit("\n".join(["the dog barks", "the cat sleeps", "a dog sleeps"] * 20)).save(folder)
    return folder


@contextmanager
def serving() -> Iterator[Serve]:
    """Yield a function from a model or a live view, limits and a token to a client."""
    running: list[tuple[uvicorn.Server, threading.Thread]] = []

    def start(model: Any, token: str | None = None, **options: Any) -> Client:
        limits = Limits(**options)
        if isinstance(model, LiveView):
            app = create_live_app(model, limits)
        else:
            model = partial(ServedModel, model, device="cpu") if isinstance(model, Path) else model
            app = create_app(model, limits, token)
        app.state.process.start()
        http = limited_protocol(limits)
        config = uvicorn.Config(app, log_level="critical", lifespan="on", http=http)
        server = uvicorn.Server(config)
        listening = socket.create_server(("127.0.0.1", 0))
        thread = threading.Thread(target=server.run, args=([listening],))
        thread.start()
        running.append((server, thread))
        return Client(listening.getsockname()[1], token)

    yield start
    for server, thread in running:
        server.should_exit = True
        thread.join(20)
        assert not thread.is_alive()


@pytest.fixture
def serve() -> Iterator[Serve]:
    with serving() as start:
        yield start


@pytest.fixture(scope="module")
def serve_all() -> Iterator[Serve]:
    """Serve for all tests of a file."""
    with serving() as start:
        yield start
