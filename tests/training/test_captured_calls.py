"""Calls from CUDA graphs, with a graph that runs on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from graph_on_cpu import GraphOnCpu

from representer.estimators.halves import Pool
from representer.estimators.language_training import (
    JointPredictor,
    NetworkPredictor,
    log_likelihoods,
    negative_log_likelihood,
)
from representer.models import LanguageModelConfig, LanguageNetwork
from representer.training import cuda_graphs
from representer.training.cuda_graphs import MOST, WARM_UP, CapturedCalls


@pytest.fixture
def graphs(monkeypatch: pytest.MonkeyPatch) -> list[GraphOnCpu]:
    """Return the graphs that are made, on the CPU."""
    GraphOnCpu.made.clear()
    monkeypatch.setattr(cuda_graphs, "CudaGraph", GraphOnCpu)
    monkeypatch.setattr(cuda_graphs, "_is_on_gpu", lambda module: True)
    return GraphOnCpu.made


def replays(graphs: list[GraphOnCpu]) -> int:
    return sum(graph.replays for graph in graphs)


def test_calls_of_one_shape_are_replayed_on_their_own_arguments(graphs):
    call = CapturedCalls(lambda x, state, scale: (scale * x + state[0], (x.clone(),)))
    state: Any = (torch.zeros(3),)
    for k in range(6):
        x = torch.full((3,), float(k))
        result, state = call(x, state, 2.0)
        assert result.tolist() == [2 * k + max(k - 1, 0)] * 3
    assert replays(graphs) == 6 - WARM_UP
    assert call(torch.ones(3), state, 3.0)[0].tolist() == [8.0] * 3  # other constants
    assert call(torch.ones(2), (torch.ones(2),), 2.0)[0].tolist() == [3.0] * 2
    assert replays(graphs) == 6 - WARM_UP


def test_no_more_shapes_are_captured_than_have_memory(graphs):
    call = CapturedCalls(torch.square)
    for _ in range(WARM_UP + 1):
        for size in range(1, MOST + 4):
            assert torch.equal(call(torch.full((size,), 3.0)), torch.full((size,), 9.0))
    assert replays(graphs) == MOST


def test_a_call_that_cannot_be_captured_is_made_and_the_reason_given_once(graphs, monkeypatch):
    def fail(self: GraphOnCpu, body: Callable[[], Any]) -> Any:
        raise RuntimeError("operation not permitted\nmore")

    monkeypatch.setattr(GraphOnCpu, "capture", fail)
    said: list[str] = []
    call = CapturedCalls(torch.square, said.append)
    assert [float(call(torch.tensor(3.0))) for _ in range(6)] == [9.0] * 6
    assert said == ["no CUDA graph: operation not permitted"]


def test_a_capture_that_fails_once_is_tried_again(graphs, monkeypatch):
    capture, tried = GraphOnCpu.capture, []

    def fail_first(self: GraphOnCpu, body: Callable[[], Any]) -> Any:
        tried.append(self)
        if len(tried) == 1:
            raise RuntimeError("operation failed due to a call of another thread")
        return capture(self, body)

    monkeypatch.setattr(GraphOnCpu, "capture", fail_first)
    call = CapturedCalls(torch.square)
    found = [float(call(torch.tensor(float(k)))) for k in range(8)]
    assert found == [k**2 for k in range(8)]
    assert replays(graphs) == 8 - 2 * WARM_UP - 1


def test_a_module_in_another_mode_has_a_graph_of_its_own(graphs):
    call = CapturedCalls(module := torch.nn.Dropout(1.0))
    for is_training in (True, False, True):
        module.train(is_training)
        for _ in range(WARM_UP + 2):
            assert float(call(torch.ones(()))) == float(not is_training)
    with torch.no_grad():
        call(torch.ones(()))
    assert len(graphs) == 2


@torch.no_grad()
def test_a_text_has_the_same_likelihood_from_graphs(graphs, monkeypatch):
    network = LanguageNetwork(LanguageModelConfig(9, 8, 8, 2)).eval().double()
    tokens = torch.randint(0, 9, (1700,))
    predictors = (
        NetworkPredictor(network),
        JointPredictor(None, NetworkPredictor(network), Pool(0.0, 0.7, 0.0, 1.0)),
    )
    found = [log_likelihoods(one, tokens) for one in predictors]
    nats = negative_log_likelihood(network, tokens, 5)
    assert replays(graphs) == 9
    monkeypatch.undo()
    for one, own in zip(predictors, found, strict=True):
        torch.testing.assert_close(own, log_likelihoods(one, tokens), rtol=1e-12, atol=0)
    assert nats == pytest.approx(negative_log_likelihood(network, tokens, 5), rel=1e-12)
