"""Layers side by side on chunks of time: the schedule of streams, and equal results."""

from __future__ import annotations

from contextlib import contextmanager
from typing import Any

import pytest
import torch

from representer import nn
from representer.nn.recurrent import wavefront
from representer.ops import core


class Stream:
    """A queue of work; each piece knows all that has ended before it begins."""

    def __init__(self) -> None:
        self.ended: frozenset[Any] = frozenset()

    def record_event(self) -> frozenset[Any]:
        return self.ended

    def wait_event(self, event: frozenset[Any]) -> None:
        self.ended |= event

    def wait_stream(self, other: Stream) -> None:
        self.ended |= other.ended


def schedule(layers: int, chunks: int) -> tuple[dict[tuple[int, int], Any], Stream]:
    """Return what has ended when a layer begins a chunk, and the stream of the caller after all."""
    lanes = wavefront.Lanes(torch.zeros(1), layers)
    home = lanes.home = Stream()
    home.ended = frozenset(["before"])
    lanes.streams = tuple(Stream() for _ in range(layers))
    begun: dict[tuple[int, int], Any] = {}
    for piece in wavefront.order(layers, chunks):
        with lanes.lane(*piece, ()):
            stream = lanes.streams[piece[0]]
            begun[piece] = stream.ended
            stream.ended |= {piece}
    lanes.join(())
    return begun, home


@pytest.fixture(autouse=True)
def _streams(monkeypatch: pytest.MonkeyPatch):
    @contextmanager
    def entered(stream: Any):
        yield

    monkeypatch.setattr(wavefront, "on_stream", entered)


@pytest.mark.parametrize(("layers", "chunks"), [(2, 2), (3, 5), (4, 2)])
def test_a_chunk_waits_for_the_one_before_and_the_layer_below_and_for_no_other(
    layers: int, chunks: int
):
    begun, home = schedule(layers, chunks)
    assert len(begun) == layers * chunks
    for (layer, chunk), ended in begun.items():
        needed = {(k, c) for k in range(layer + 1) for c in range(chunk + 1)} - {(layer, chunk)}
        assert ended == needed | {"before"}
    assert home.ended == {*begun, "before"}


@pytest.mark.parametrize(("layers", "chunks"), [(2, 2), (3, 5), (4, 2)])
def test_a_stack_takes_as_long_as_the_longest_chain_of_chunks(layers: int, chunks: int):
    begun, _ = schedule(layers, chunks)
    time: dict[Any, int] = {"before": 0}
    for piece, ended in begun.items():
        time[piece] = 1 + max(time[before] for before in ended)
    assert max(time.values()) == layers + chunks - 1


class Marked(torch.Tensor):
    """A tensor that remembers which streams read it."""


def test_memory_is_marked_for_the_stream_that_reads_it():
    lanes, read = wavefront.Lanes(torch.zeros(1), 2), torch.zeros(1).as_subclass(Marked)
    lanes.home, lanes.streams, marks = Stream(), (Stream(), Stream()), []
    read.record_stream = marks.append  # type: ignore[method-assign]
    with lanes.lane(0, 0, (read, None)):
        pass
    lanes.join([read])
    assert marks == [lanes.streams[0], lanes.home]


@pytest.mark.skipif(bool(core.MISSING), reason=core.MISSING)
@pytest.mark.parametrize("is_training", [True, False])
@pytest.mark.parametrize("chunks", [2, 3, 7])
def test_chunks_have_the_results_gradients_and_masks_of_the_whole(
    chunks: int, is_training: bool, monkeypatch: pytest.MonkeyPatch
):
    torch.manual_seed(0)
    options: Any = {"dropout": 0.4, "variational_dropout": 0.2, "layer_norm": True}
    layer = nn.RKMCIFG(3, 5, num_layers=3, dtype=torch.float64, **options).train(is_training)
    x = torch.randn(7, 2, 3, dtype=torch.float64, requires_grad=True)
    state = [torch.randn(3, 2, 5, dtype=torch.float64, requires_grad=True) for _ in range(2)]
    wanted = [x, *state, *layer.parameters()]

    def evaluate() -> tuple[list[torch.Tensor], list[torch.Tensor]]:
        torch.manual_seed(1)
        output, (h, c) = layer(x, tuple(state))
        results = [output, h, c]
        total = sum((i + 1) * result.square().sum() for i, result in enumerate(results))
        return results, [*torch.autograd.grad(total, wanted)]

    expected, gradients = evaluate()
    calls = []

    def chunked(own: Any, x: torch.Tensor, fields: Any, lengths: None) -> Any:
        calls.append(chunks)
        return wavefront.run(own, own.core_steps(x), x, fields, lengths, chunks, "cpp")

    monkeypatch.setattr("representer.nn.recurrent.sequence_layer.wavefront", chunked)
    monkeypatch.setattr("representer.nn.recurrent.sequence_layer.plan", lambda *of: ())
    found, found_gradients = evaluate()
    assert calls
    pairs = zip([*found, *found_gradients], [*expected, *gradients], strict=True)
    for ours, exactly in pairs:  # the core adds products of one row in another order
        torch.testing.assert_close(ours, exactly, rtol=1e-12, atol=1e-12)


def test_a_stack_is_divided_only_if_requested_and_small_enough(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(wavefront, "is_plain", lambda x, backend: True)
    monkeypatch.setattr(wavefront, "short_backend", lambda x: "triton")
    monkeypatch.setattr(wavefront.Step, "runs_alone", lambda self, operands, x, h0: h0.shape[1] < 9)
    x = torch.zeros(6, 2, 3)

    def chunks(layer: Any, x: torch.Tensor = x) -> int:
        planned = wavefront.plan(layer, x)
        return 1 if planned is None else planned[1]

    stack = nn.RKMLSTM(3, 4, num_layers=2)
    assert chunks(stack) == 1
    monkeypatch.setenv(wavefront.CHUNKS, "8")
    assert chunks(stack) == 6
    monkeypatch.setenv(wavefront.CHUNKS, "4")
    assert chunks(stack) == 4
    assert chunks(stack, torch.zeros(6, 67, 3)) == 1  # more than half of the multiprocessors
    assert chunks(nn.RKMLSTM(3, 4)) == 1
    assert chunks(nn.RKMLSTM(3, 9, num_layers=2)) == 1  # programs wait for one another
    assert chunks(nn.RKMLSTM(3, 4, num_layers=2, bidirectional=True)) == 1
    assert chunks(nn.RKMLSTM(3, 4, num_layers=2, zoneout=0.1)) == 1
    assert chunks(nn.RKMLSTM(3, 4, num_layers=2, filter_length=2)) == 1
    assert chunks(nn.StringKernelRNN(3, 4, num_layers=2)) == 1
