"""Tests of the HTTP interface against the estimators."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pytest

from representer.estimators import load
from representer.serving import ServedModel

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


@pytest.mark.parametrize(
    ("body", "message"),
    [
        ({"inputs": ["a", 3]}, "inputs[1] is of type int"),
        ({"inputs": ["a", None]}, "inputs[1] is of type NoneType"),
        ({"inputs": []}, "inputs: "),
        ({"inputs": "text"}, "inputs: "),
        ({"inputs": ["a"] * 9}, "at most 8"),
        ({}, "inputs: "),
        (b'{"inputs": NaN}', "inputs: "),
        (b"{", "JSON"),
    ],
)
def test_wrong_requests_are_refused_with_one_line(
    serve: Serve, text_run: Path, body: Any, message: str
) -> None:
    client = serve(text_run, max_objects=8)
    status, answer = client.post("/predict", body)
    assert status == 422
    assert message in answer["error"]
    assert client.post("/predict", {"inputs": ["good"]})[0] == 200


def test_requests_that_wait_together_are_one_batch(serve: Serve, text_run: Path) -> None:
    model = ServedModel(text_run)
    entered, release = threading.Event(), threading.Event()
    predict, sizes = model.predict, []

    def slow(objects: Any) -> Any:
        sizes.append(len(objects))
        entered.set()
        assert release.wait(20)
        return predict(objects)

    model.predict = slow  # type: ignore[method-assign]
    client, found = serve(model), {}

    def ask(text: str) -> None:
        found[text] = client.post("/predict", {"inputs": [text]})[1]["predictions"][0]["prediction"]

    threads = [threading.Thread(target=ask, args=(text,)) for text in ("good", "bad", "very good")]
    threads[0].start()
    assert entered.wait(20)
    for thread in threads[1:]:
        thread.start()
    while client.request("GET", "/health")[0] != 200:
        pass
    threading.Timer(0.3, release.set).start()  # the others have arrived by then
    for thread in threads:
        thread.join(20)
    assert found == {"good": "yes", "bad": "no", "very good": "yes"}
    assert sizes[0] == 1
    assert sum(sizes) == 3


def test_a_full_queue_and_a_slow_model_are_said(serve: Serve, text_run: Path) -> None:
    model, release = ServedModel(text_run), threading.Event()
    predict = model.predict
    model.predict = lambda objects: (release.wait(20), predict(objects))[1]  # type: ignore[method-assign]
    client = serve(model, max_seconds=0.5, max_waiting=1)
    answers: list[tuple[int, Any]] = []
    threads = [
        threading.Thread(
            target=lambda: answers.append(client.post("/predict", {"inputs": ["good"] * 40}))
        )
        for _ in range(6)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    release.set()
    statuses = {status for status, _ in answers}
    assert statuses == {503, 504}
    assert {answer["error"] for status, answer in answers if status == 504} == {
        "no answer within 0.5 s"
    }


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


@pytest.mark.parametrize(
    ("path", "body", "status"),
    [
        ("/predict", b'{"inputs": ' + b"[" * 100_000, 400),
        ("/predict", b'{"inputs": [' + b"9" * 5000 + b"]}", 400),
        ("/nothing", b"{}", 404),
    ],
)
def test_a_refusal_of_the_framework_is_an_error_of_the_same_form(
    serve: Serve, text_run: Path, path: str, body: bytes, status: int
) -> None:
    found, answer = serve(text_run).post(path, body)
    assert (found, list(answer)) == (status, ["error"])


def test_a_text_with_half_of_a_surrogate_pair_is_answered(serve: Serve, text_run: Path) -> None:
    status, answer = serve(text_run).post("/explain", b'{"inputs": ["good \\ud800"]}')
    assert status == 200
    assert len(answer["explanations"]) == 1
