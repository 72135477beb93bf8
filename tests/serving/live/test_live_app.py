"""Tests of the page of the live view, and of who may ask it."""

from __future__ import annotations

import re
from http.client import HTTPConnection
from pathlib import Path
from typing import Any

import pytest

from representer.serving import ServedModel
from representer.serving.live import Example, LiveView

Serve = Any
PLANTED = "<img src=x onerror=alert(1)></script><script>alert(2)</script>"


@pytest.fixture(scope="module")
def view(text_run: Path) -> LiveView:
    """A view with one example, whose name is hostile."""
    model = ServedModel(text_run, device="cpu")
    return LiveView(model, [Example(PLANTED, "", "good film")])


@pytest.fixture(scope="module")
def client(serve_all: Serve, view: LiveView) -> Any:
    """A client of one server for many requests."""
    return serve_all(view)


def page_of(port: int) -> tuple[Any, str]:
    """Return the headers and the text of the page."""
    connection = HTTPConnection("127.0.0.1", port, timeout=20)
    connection.request("GET", "/")
    answer = connection.getresponse()
    text = answer.read().decode()
    connection.close()
    assert answer.status == 200
    return answer.headers, text


def test_the_page_is_complete_and_runs_its_own_script_alone(serve: Serve, view: LiveView) -> None:
    port = serve(view).port
    headers, text = page_of(port)
    policy = dict(
        part.strip().split(" ", 1) for part in headers["content-security-policy"].split(";")
    )
    (nonce,) = re.findall(r"'nonce-([\w-]+)'", policy["script-src"])
    assert policy["default-src"] == "'none'"
    assert policy["script-src"] == policy["style-src"] == f"'nonce-{nonce}'"
    for name in ("base-uri", "form-action", "frame-ancestors"):
        assert policy[name] == "'none'"
    assert re.findall(r"<(?:script|style)(.*?)>", text) == [f' nonce="{nonce}"'] * 2
    outside = re.findall(r"(?:src|href|action)\s*=\s*[\"']?([^\"'\s>]+)", text)
    assert [one for one in outside if not one.startswith("data:")] == []
    assert re.search(r"\son\w+=|\sstyle=", text) is None
    assert re.findall(r"https?://[^\"' ]+", text) == ["http://www.w3.org/2000/svg"]  # a name
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cross-origin-resource-policy"] == "same-origin"
    assert page_of(port)[0]["content-security-policy"] != headers["content-security-policy"]


def test_the_page_makes_text_of_what_it_shows() -> None:
    script = Path("src/representer/serving/live/page.js")
    text = (Path(__file__).parents[3] / script).read_text("utf-8")
    for unsafe in ("innerHTML", "outerHTML", "insertAdjacentHTML", "document.write", "eval("):
        assert unsafe not in text
    assert text.count("parseFromString") == 1  # the drawing of a molecule, by RDKit


def test_typed_and_chosen_objects_are_explained(serve: Serve, view: LiveView) -> None:
    client = serve(view)
    status, about = client.request("GET", "/live")
    assert status == 200
    assert about["examples"] == [{"name": PLANTED, "group": "", "input": "good film"}]
    typed = client.post("/live", {"input": "good film"})
    assert typed == client.post("/live", {"example": 0})
    assert typed[0] == 200
    assert typed[1]["prediction"] == client.post("/predict", {"inputs": ["good film"]})[1][
        "predictions"
    ][0]  # fmt: skip
    status, changed = client.post("/live/changes", {"input": "good film", "place": 0})
    assert (status, changed["name"]) == (200, "good")
    assert changed["lowers"][0]["label"] == "no"


@pytest.mark.parametrize(("path", "body", "status", "message"), [
    ("/live", {"input": 7}, 422, "input"), ("/live", {}, 422, "input"),
    ("/live", {"example": 1}, 422, "below 1"), ("/live", {"example": -1}, 422, "below 1"),
    ("/live", {"input": "g" * 100_001}, 422, "100000"), ("/live", b"{", 422, "JSON"),
    ("/live/changes", {"input": "good"}, 422, "place"),
    ("/live/changes", {"input": "good", "place": 1}, 422, "below 1"),
    ("/live/changes", {"input": "good", "place": -1}, 422, "below 1"),
    ("/live/changes", {"input": "good", "place": 10**400}, 422, ""), ("/page.js", {}, 404, ""),
])  # fmt: skip
def test_a_wrong_request_is_one_line(
    client: Any, path: str, body: Any, status: int, message: str
) -> None:
    found, answer = client.post(path, body)
    assert found == status, answer
    assert message in answer["error"]
    assert client.post("/live", {"input": "good"})[0] == 200


@pytest.mark.parametrize("path", ["/", "/live", "/live/changes", "/model"])
@pytest.mark.parametrize("host", ["evil.example", "127.0.0.1.evil.example", "192.0.2.1:8000", ""])
def test_another_host_is_refused(client: Any, path: str, host: str) -> None:
    for method, body in (("GET", None), ("POST", {"input": "good", "place": 0})):
        status, _ = client.request(method, path, body, {"host": host})
        assert status in (400, 403)


def test_a_page_of_another_site_cannot_send_a_form(serve: Serve, view: LiveView) -> None:
    client = serve(view)
    for kind in ("text/plain", "application/x-www-form-urlencoded", "multipart/form-data"):
        headers = {"content-type": kind, "origin": "https://evil.example"}
        assert client.request("POST", "/live", {"input": "good"}, headers)[0] == 415
    status, _ = client.request("OPTIONS", "/live", None, {"origin": "https://evil.example"})
    assert status == 405  # a preflight gets no permission


def test_hostile_text_comes_back_as_data(serve: Serve, view: LiveView) -> None:
    status, found = serve(view).post("/live", {"input": PLANTED})
    assert status == 200
    assert "".join(one["name"] for one in found["places"]).startswith("<imgsrc=x")
