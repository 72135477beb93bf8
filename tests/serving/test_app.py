"""Tests of the HTTP interface against the estimators."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from representer.estimators import load
from served_toys import Toy

Serve = Any


def test_predictions_and_explanations_are_those_of_the_estimator(
    serve: Serve, text_run: Path
) -> None:
    client, texts = serve(text_run), ["good film", "a bad play", "neither"]
    status, answer = client.post("/predict", {"inputs": texts})
    assert status == 200
    estimator: Any = load(text_run)
    expected = estimator.predict_proba(texts)
    for row, entry in enumerate(answer["predictions"]):
        assert entry["prediction"] == estimator.predict(texts)[row]
        assert [*entry["probabilities"].values()] == pytest.approx(expected[row], abs=1e-12)
    _, answer = client.post("/explain", {"inputs": texts[:1], "top": 2})
    (entry,) = answer["explanations"]
    (own,) = estimator.explain(texts[:1], 2)
    assert entry["score"] == pytest.approx(own.score, abs=1e-12)


def test_model_health_and_metrics_describe_the_server(serve: Serve, text_run: Path) -> None:
    client = serve(text_run)
    assert client.request("GET", "/health") == (200, {"status": "ok"})
    _, about = client.request("GET", "/model")
    assert about["task"] == "text"
    assert about["classes"] == [["no", "yes"]]
    client.post("/predict", {"inputs": ["good", "bad"]})
    client.request("GET", "/nothing/of/this/name")
    _, figures = client.request("GET", "/metrics")
    assert 'representer_requests_total{path="/predict",status="200"} 1.0' in figures
    assert 'representer_requests_total{path="other",status="404"} 1.0' in figures
    assert "representer_batch_objects_sum 2.0" in figures


@pytest.mark.parametrize(("body", "message"), [
    ({"inputs": ["a", 3]}, "inputs[1] is of type int"),
    ({"inputs": ["a", None]}, "inputs[1] is of type NoneType"), ({"inputs": []}, "inputs: "),
    ({"inputs": "text"}, "inputs: "), ({"inputs": ["a"] * 9}, "at most 8"), ({}, "inputs: "),
    (b'{"inputs": NaN}', "inputs: "), (b"{", "JSON"),
])  # fmt: skip
def test_wrong_requests_are_refused_with_one_line(
    serve: Serve, text_run: Path, body: Any, message: str
) -> None:
    client = serve(text_run, max_objects=8)
    status, answer = client.post("/predict", body)
    assert status == 422
    assert message in answer["error"]
    assert client.post("/predict", {"inputs": ["good"]})[0] == 200


def test_health_and_others_are_answered_while_a_request_ends_the_model(serve: Serve) -> None:
    client = serve(Toy, max_call_seconds=0.3)
    answers: list[tuple[int, Any]] = []
    threads = [
        threading.Thread(
            target=lambda w=word: answers.append(client.post("/predict", {"inputs": w}))
        )
        for word in (["hang"], ["end"], [1], [2])
    ]
    for thread in threads:
        thread.start()
    while len(answers) < len(threads):
        assert client.request("GET", "/health") == (200, {"status": "ok"})
        assert client.request("GET", "/model")[0] == 200
    assert sorted(status for status, _ in answers) == [200, 200, 503, 504]
    assert {answer["error"] for status, answer in answers if status > 200} == {
        "the model took more than 0.3 s and was ended",
        "the process of the model ended with exit code 7",
    }
    _, figures = client.request("GET", "/metrics")
    assert "representer_model_ends_total 0.0" not in figures


def test_a_request_that_waits_too_long_is_answered(serve: Serve) -> None:
    client = serve(Toy, max_seconds=0.3, max_call_seconds=20)
    status, answer = client.post("/predict", {"inputs": ["hang"]})
    assert (status, "0.3 s" in answer["error"]) == (504, True)


def test_what_a_request_takes_is_in_the_interface(serve: Serve) -> None:
    _, about = serve(Toy).request("GET", "/openapi.json")
    content = about["paths"]["/predict"]["post"]["requestBody"]["content"]
    assert content["application/json"]["schema"]["required"] == ["inputs"]


def test_a_stream_of_words_equals_the_whole_text(serve: Serve, language_run: Path) -> None:
    client = serve(language_run, max_streams=1)
    _, opened = client.post("/streams", {})
    path = f"/streams/{opened['stream']}"
    assert client.post("/streams", {})[0] == 503
    for part in ("the", "dog"):
        status, answer = client.post(path, {"input": part})
        assert status == 200
    (best, *_), whole = answer["next"].items(), client.post("/predict", {"inputs": ["the dog"]})[1]
    assert best[0] == whole["predictions"][0]["prediction"]
    assert best[1] == pytest.approx(whole["predictions"][0]["probability"], abs=1e-6)
    assert client.post(path, {"input": ""})[0] == 422
    assert client.request("DELETE", path)[0] == 204
    assert client.post(path, {"input": "barks"})[0] == 404


def test_a_model_of_whole_objects_has_no_streams(serve: Serve, text_run: Path) -> None:
    status, answer = serve(text_run).post("/streams", {})
    assert status == 422
    assert "one of text" in answer["error"]


@pytest.mark.parametrize(("path", "body", "status"), [
    ("/predict", b'{"inputs": ' + b"[" * 100_000, 400),
    ("/predict", b'{"inputs": [' + b"9" * 5000 + b"]}", 400),
    ("/nothing", b"{}", 404),
])  # fmt: skip
def test_a_refusal_of_the_framework_is_an_error_of_the_same_form(
    serve: Serve, text_run: Path, path: str, body: bytes, status: int
) -> None:
    found, answer = serve(text_run).post(path, body)
    assert (found, list(answer)) == (status, ["error"])


def test_a_text_with_half_of_a_surrogate_pair_is_answered(serve: Serve, text_run: Path) -> None:
    status, answer = serve(text_run).post("/explain", b'{"inputs": ["good \\ud800"]}')
    assert status == 200
    assert len(answer["explanations"]) == 1


def test_the_first_page_is_a_form_and_another_lists_the_requests(
    serve: Serve, text_run: Path
) -> None:
    client = serve(text_run, "a-token-of-some-length")._replace(token=None)
    status, page = client.request("GET", "/")
    assert (status, '<form id="form">' in page) == (200, True)
    assert 'nonce="NONCE"' not in page
    status, page = client.request("GET", "/docs")
    assert status == 200
    for request in ("GET /model", "POST /predict", "POST /explain", "DELETE /streams/{name}"):
        assert f"<code>{request}</code>" in page
    assert "<form" not in page
