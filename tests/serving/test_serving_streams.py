"""Tests of open streams."""

from __future__ import annotations

import pytest

from representer.serving.model_process import BusyError
from representer.serving.served_model import NoStreamError, Streams


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
