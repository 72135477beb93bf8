"""A part of the suite of hostile requests."""

from __future__ import annotations

import pytest


@pytest.mark.slow
def test_hostile_requests_are_refused_and_the_server_lives(bench, failures):
    suite = bench("faults.served_requests")
    suite.setup()
    assert failures(suite.cases(0, 0.5)) == []


def test_an_answer_of_another_form_or_status_is_seen(bench, monkeypatch):
    suite = bench("faults.served_requests")
    monkeypatch.setitem(suite._ANSWERS, "text", b"{}")
    monkeypatch.setitem(suite._VALID, "text", "good")
    monkeypatch.setattr(suite, "request", lambda *words: (200, b"{}"))
    suite._require("text", 200, b"{}", is_wrong=False)
    suite._require("text", 422, b'{"error": "x"}', is_wrong=True)
    for status, answer in ((500, b"{}"), (200, b"{}"), (404, b'{"detail": "x"}')):
        with pytest.raises(AssertionError):
            suite._require("text", status, answer, is_wrong=True)
