"""Calls from CUDA graphs, with a graph that runs on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from copy import deepcopy
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
import torch
from graph_on_cpu import Calls, GraphOnCpu, RecordedGraph
from small_training import INPUTS, LABELS, config, fit, loss, model, rows, task
from torch import Tensor, nn

from representer.errors import TrainingError
from representer.estimators import LanguageModel, TextClassifier
from representer.estimators.halves import Pool
from representer.estimators.language_training import (
    JointPredictor,
    NetworkPredictor,
    log_likelihoods,
    negative_log_likelihood,
)
from representer.models import LanguageModelConfig, LanguageNetwork
from representer.storage.run import RunFolder
from representer.training import cuda_graphs, trainer
from representer.training.config import Loss
from representer.training.cuda_graphs import MOST, WARM_UP, CapturedCalls, CapturedSteps


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


# Training steps from CUDA graphs, with a graph that runs on the CPU.


class OfLosses(GraphOnCpu):
    """Takes back what a graph does not repeat: assignments in Python."""

    of: cuda_graphs.CapturedSteps

    def replay(self) -> None:
        """Run the body again."""
        carried, weights = self.of._carried, self.of._parameters
        state, gradients = getattr(carried, "value", None), [p.grad for p in weights]
        super().replay()
        for parameter, gradient in zip(weights, gradients, strict=True):
            parameter.grad = gradient
        if carried is not None:
            carried.value = state


@pytest.fixture
def graphs_of_losses(monkeypatch: pytest.MonkeyPatch) -> list[GraphOnCpu]:
    """Return the graphs that a training makes, on the CPU."""
    GraphOnCpu.made.clear()

    class Recorded(cuda_graphs.CapturedSteps):
        def __init__(self, *arguments: Any) -> None:
            super().__init__(*arguments)
            OfLosses.of = self

    monkeypatch.setattr(cuda_graphs, "CudaGraph", OfLosses)
    monkeypatch.setattr(trainer, "CapturedSteps", Recorded)
    monkeypatch.setattr(trainer, "can_capture", lambda *what: True)
    return GraphOnCpu.made


def test_a_run_with_graphs_writes_the_same_metrics(tmp_path: Path, graphs_of_losses) -> None:
    fit(tmp_path / "without")
    assert not graphs_of_losses
    fit(tmp_path / "with", cuda_graph=True)
    assert rows(tmp_path / "with") == rows(tmp_path / "without")
    # 3 epochs of 6 batches of 8 and one of 2, of which WARM_UP each run without a graph
    assert sorted(graph.replays for graph in graphs_of_losses) == [1, 16]


def test_parameters_without_a_gradient_keep_none(tmp_path: Path, graphs_of_losses) -> None:
    network = nn.ModuleDict({"used": model(), "unused": nn.Linear(3, 3)})

    def loss(module: nn.Module, batch: Any) -> tuple[Tensor, int]:
        used = module["used"]  # type: ignore[index]
        return nn.functional.cross_entropy(used(batch[0]), batch[1]), len(batch[1])

    fit(tmp_path, task=task(loss=loss, evaluate=lambda *x: {"accuracy": 0.0}), network=network,
        cuda_graph=True)  # fmt: skip
    assert graphs_of_losses
    assert {name for name, p in network.named_parameters() if p.grad is None} == {
        "unused.weight", "unused.bias",
    }  # fmt: skip


def language_model(**options: Any) -> Any:
    network = LanguageModel(
        answer="network", cell="rkm-lstm", hidden_size=6, unroll=7, batch_size=2, epochs=2,
        random_state=0, verbose=0, min_count=1, lr=1e-3, **options,
    )  # fmt: skip
    return network.fit("the cat sat on the mat and the dog sat on it\n" * 12)


def test_the_state_of_a_language_model_is_carried_through_graphs(graphs_of_losses) -> None:
    with_graphs, without = language_model(), language_model(cuda_graph=False)
    assert sum(graph.replays for graph in graphs_of_losses) > 8
    assert with_graphs.history_ == without.history_


def test_texts_are_padded_to_few_shapes_that_do_not_change_the_loss(graphs_of_losses) -> None:
    texts = [" ".join(["sea", "wave", "sky", "moon"][k % 4] for k in range(i, i + 3 + i % 9))
             for i in range(60)]  # fmt: skip
    options: dict[str, Any] = {"answer": "network", "epochs": 3, "random_state": 0, "verbose": 0,
                               "dropout": 0.0, "batch_size": 8, "hidden_size": 6}  # fmt: skip
    labels = ["+" if i % 2 else "-" for i in range(60)]
    with_graphs = TextClassifier(cuda_graph=True, **options).fit(texts, labels)
    without = TextClassifier(**options).fit(texts, labels)
    assert len(graphs_of_losses) <= 2 < sum(graph.replays for graph in graphs_of_losses)
    losses = [[row["valid_loss"] for row in one.history_] for one in (with_graphs, without)]
    np.testing.assert_allclose(*losses, rtol=1e-4)


@pytest.mark.slow
def test_after_a_failed_capture_all_steps_run_without_a_graph(
    tmp_path: Path, graphs_of_losses, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(self: OfLosses, body: Callable[[], Any]) -> Any:
        OfLosses().capture(body)
        raise RuntimeError("operation not permitted when stream is capturing\nmore")

    monkeypatch.setattr(cuda_graphs, "CudaGraph", type("Fails", (OfLosses,), {"capture": fail}))
    said: list[str] = []
    fit(tmp_path / "with", cuda_graph=True, said=said)
    assert said == ["no CUDA graph: operation not permitted when stream is capturing"]
    fit(tmp_path / "without")
    assert rows(tmp_path / "with") == rows(tmp_path / "without")
    assert language_model().history_ == language_model(cuda_graph=False).history_
    assert not any(graph.replays for graph in graphs_of_losses)


# Whole steps, with the update of the weights, from graphs that repeat no Python code.


@pytest.fixture
def graphs_of_steps(monkeypatch: pytest.MonkeyPatch) -> list[GraphOnCpu]:
    """Return the graphs that a training makes, on the CPU, whose steps are read later."""
    GraphOnCpu.made.clear()
    monkeypatch.setattr(cuda_graphs, "CudaGraph", RecordedGraph)
    monkeypatch.setattr(trainer, "can_capture", lambda *what: True)
    monkeypatch.setattr(trainer, "can_read_later", lambda *what: True)
    return GraphOnCpu.made


# Rates that float32, in which graphs read them, holds exactly.
SCHEDULE: dict[str, Any] = {"lr": 2**-4, "lr_decay": 0.5, "lr_decay_from": 1}
SCALED = task(lr_scale=lambda batch: 2.0 ** -(len(batch) + batch[0] % 3))


@pytest.mark.parametrize(
    ("changes", "optimizer"),
    [
        ({}, None), ({"clip_norm": 0.1}, None), ({"clip_norm": 0.1, "clip_value": 0.01}, None),
        ({"average_weights": True, "evaluate_every": 5}, None),
        ({"weight_decay": 0.1, "clip_norm": 0.5}, None),
        ({"clip_norm": 0.1}, torch.optim.AdamW), ({"clip_norm": 0.1}, torch.optim.Adam),
    ],
    ids=str,
)  # fmt: skip
def test_whole_steps_from_graphs_change_no_bit(
    changes: dict[str, Any], optimizer: Any, tmp_path: Path, graphs_of_steps,
    monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    updates = []
    update = trainer.TrainingStep._update
    monkeypatch.setattr(
        trainer.TrainingStep, "_update", lambda *what: updates.append(1) or update(*what)
    )
    for name in ("without", "with"):
        updates.clear()
        network = model()
        first, *others = network.parameters()
        made = optimizer and optimizer(
            [{"params": [first], "lr": 2**-6}, {"params": others}], lr=2**-4, fused=True
        )  # fmt: skip
        options = config(cuda_graph=name == "with", epochs=6, **SCHEDULE, **changes)
        with RunFolder(tmp_path / name, report=pytest.fail) as run:
            trainer.Trainer(network, SCALED, options, run, optimizer=made).fit()
    # of 6 epochs of 6 batches of 8 and one of 2, WARM_UP each run without a graph, and one captures
    assert sorted(graph.replays for graph in graphs_of_steps) == [4, 34]
    assert len(updates) == 2 * (WARM_UP + 1)
    for file in ("final.safetensors", "model.safetensors", "metrics.jsonl"):
        without, with_graphs = ((tmp_path / run / file).read_bytes() for run in ("without", "with"))
        assert without == with_graphs


def test_any_rate_is_followed_up_to_rounding(tmp_path: Path, graphs_of_steps) -> None:
    networks = [model(), model()]
    for network, is_captured in zip(networks, (False, True), strict=True):
        fit(tmp_path / str(is_captured), network=network, cuda_graph=is_captured, lr=0.003,
            lr_decay=0.7, epochs=5)  # fmt: skip
    for without, with_graphs in zip(*(n.parameters() for n in networks), strict=True):
        torch.testing.assert_close(without, with_graphs, rtol=1e-5, atol=1e-6)


def test_no_step_from_a_graph_is_read_before_the_next_is_launched(
    tmp_path: Path, graphs_of_steps, monkeypatch: pytest.MonkeyPatch
) -> None:
    step, have_read = trainer.TrainingStep.__call__, []

    def noted(self: Any, description: Any) -> Any:
        with Calls() as calls:
            outcome = step(self, description)
        have_read.append(calls.has_read)
        return outcome

    monkeypatch.setattr(trainer.TrainingStep, "__call__", noted)
    fit(tmp_path, cuda_graph=True, clip_norm=0.1, **SCHEDULE)
    assert graphs_of_steps
    assert not any(have_read)


def test_what_is_read_while_a_step_is_recorded_runs_without_a_graph(
    tmp_path: Path, graphs_of_steps
) -> None:
    def read(module: nn.Module, batch: Any) -> tuple[Tensor, int]:
        value, size = loss(module, batch)
        return value * (1.0 if float(value.detach()) > 0 else 2.0), size

    said: list[str] = []
    fit(tmp_path / "with", task=task(loss=read), cuda_graph=True, said=said, **SCHEDULE)
    assert said == ["no CUDA graph: operation not permitted when stream is capturing"]
    fit(tmp_path / "without", task=task(loss=read), **SCHEDULE)
    assert rows(tmp_path / "with") == rows(tmp_path / "without")


def test_a_step_that_is_not_finite_is_left_out_by_the_graph(
    tmp_path: Path, graphs_of_steps
) -> None:
    def load(description: list[int]) -> Any:
        spoiled = INPUTS[description].clone()
        spoiled[0] *= float("nan") if len(loaded) == 18 else 1.0
        loaded.append(1)
        return spoiled, LABELS[description]

    networks = [model(), model()]
    for network, is_captured in zip(networks, (False, True), strict=True):
        loaded: list[int] = []
        with pytest.raises(TrainingError, match=r"the loss is nan at step 19 \(epoch 3, batch 5\)"):
            fit(tmp_path / str(is_captured), network=network, task=task(load=load),
                cuda_graph=is_captured, **SCHEDULE)  # fmt: skip
        assert len(loaded) == 20  # the step after it changes nothing
    for without, with_graphs in zip(*(n.parameters() for n in networks), strict=True):
        assert torch.equal(without, with_graphs)
        assert torch.isfinite(with_graphs).all()


def test_whole_steps_continue_from_a_checkpoint_with_the_same_bits(
    tmp_path: Path, graphs_of_steps
) -> None:
    options: dict[str, Any] = {"cuda_graph": True, "clip_norm": 0.1, **SCHEDULE}
    fit(tmp_path / "twice", epochs=3, **options)
    fit(tmp_path / "twice", epochs=6, resume=True, **options)
    fit(tmp_path / "without", epochs=6, **{**options, "cuda_graph": False})
    assert rows(tmp_path / "twice") == rows(tmp_path / "without")


def steps_of(weights: list[nn.Parameter], rate: float) -> tuple[Any, Any]:
    """Return whole steps and their optimizer; batches of one row do not reach the last weight."""
    optimizer = torch.optim.Adam(weights, lr=rate, fused=True)

    def compute(batch: Tensor) -> Loss:
        objective = (weights[0] * batch).square().sum()
        if len(batch) > 1:
            objective = objective + (weights[-1] * batch[1:]).sum()
        objective.backward()
        return Loss(objective, 1)

    def update(result: Loss) -> Tensor:
        optimizer.step()
        return result.objective

    return CapturedSteps(compute, update, optimizer, weights, None, pytest.fail), optimizer


def test_moments_that_are_loaded_are_those_of_the_next_step(graphs_of_steps) -> None:
    weight = nn.Parameter(torch.ones(3))
    steps, optimizer = steps_of([weight], 2**-4)
    before = weight.detach().clone(), deepcopy(optimizer.state_dict())  # without moments

    def four_steps() -> list[float]:
        for _ in range(WARM_UP + 2):
            steps(torch.arange(3.0)[None])
        return weight.tolist()

    def back(kept: Any) -> None:
        weight.data.copy_(kept[0])
        optimizer.load_state_dict(deepcopy(kept[1]))

    first = four_steps()
    kept = weight.detach().clone(), deepcopy(optimizer.state_dict())
    second = four_steps()
    back(kept)
    assert four_steps() == second
    back(before)
    assert four_steps() == first


@pytest.mark.parametrize("sizes", [(1, 1, 2, 1, 1, 2, 2, 2, 2, 1), (2, 2, 1, 2, 1, 1, 2, 1, 2)])
def test_weights_that_batches_of_a_shape_do_not_reach_stay(sizes: Any, graphs_of_steps) -> None:
    results = []
    for is_captured in (False, True):
        weights = [nn.Parameter(torch.ones(3)) for _ in range(2)]
        steps, _ = steps_of(weights, 2**-4)
        for size in sizes:
            batch = torch.arange(3.0).repeat(size, 1)
            steps(batch) if is_captured else steps._directly(None, batch, None)
        results.append([weight.tolist() for weight in weights])
    assert graphs_of_steps
    assert results[0] == results[1]


def test_weights_with_other_data_are_those_that_are_trained(graphs_of_steps) -> None:
    results = []
    for is_captured in (False, True):
        weight = nn.Parameter(torch.ones(3))
        steps, optimizer = steps_of([weight], 2**-4)
        for k in range(3 * (WARM_UP + 2)):
            if k == WARM_UP + 2:
                weight.data = weight.data.clone()
            elif k == 2 * (WARM_UP + 2):  # of another shape, as `KernelActivation.compact` does
                weight.data = weight.data[:1].clone()
                del optimizer.state[weight]
            batch = torch.arange(3.0)[None]
            steps(batch) if is_captured else steps._directly(None, batch, None)
        results.append(weight.tolist())
    assert len(graphs_of_steps) == 3
    assert results[0] == results[1]


def test_a_rate_that_was_a_whole_number_becomes_any_other(graphs_of_steps) -> None:
    results = []
    for is_captured in (False, True):
        weight = nn.Parameter(torch.ones(3))
        steps, optimizer = steps_of([weight], 1)
        for k in range(6):
            optimizer.param_groups[0]["lr"] = 1 if k < WARM_UP + 1 else 0.5
            batch = torch.arange(3.0)[None]
            steps(batch) if is_captured else steps._directly(None, batch, None)
        results.append(weight.tolist())
    assert results[0] == results[1]


def test_steps_with_sparse_gradients_run_without_a_graph(tmp_path: Path, graphs_of_steps) -> None:
    def network() -> nn.Module:
        torch.manual_seed(0)
        return nn.Sequential(nn.EmbeddingBag(50, 3, sparse=True), nn.Linear(3, 2))

    sparse = task(
        load=lambda rows: (torch.tensor(rows)[:, None], LABELS[rows]),
        evaluate=lambda module, check: {"accuracy": float(module[0].weight.sum())},  # type: ignore[index]
    )
    said: list[str] = []
    fit(tmp_path / "with", task=sparse, network=network(), cuda_graph=True, said=said, **SCHEDULE)
    assert said == ["no CUDA graph: a gradient is sparse, so its shape depends on the batch"]
    fit(tmp_path / "without", task=sparse, network=network(), **SCHEDULE)
    assert rows(tmp_path / "with") == rows(tmp_path / "without")


@pytest.mark.parametrize(("make", "expected"), [
    (lambda p: torch.optim.Adam(p, fused=True), True), (torch.optim.Adam, False),
    (lambda p: torch.optim.AdamW(p, fused=True), True),
    (lambda p: torch.optim.SGD(p, lr=1.0, fused=True), False),
    (lambda p: torch.optim.Adam(p, lr=torch.tensor(0.1), fused=True), False),
])  # fmt: skip
def test_steps_of_the_fused_adam_are_captured(make: Any, expected: bool) -> None:
    assert cuda_graphs.can_capture_update(make([nn.Parameter(torch.ones(2))])) == expected


@pytest.mark.parametrize(("device", "processes", "scaler", "carried", "expected"), [
    ("cuda", 1, None, None, True), ("cuda", 1, None, SimpleNamespace(value=None), True),
    ("cpu", 1, None, None, False), ("cuda", 2, None, None, False),
    ("cuda", 1, "of float16", None, False), ("cuda", 1, None, SimpleNamespace(other=None), False),
])  # fmt: skip
def test_steps_are_captured_in_one_process_on_a_cuda_device(
    device: str, processes: int, scaler: Any, carried: Any, expected: bool
) -> None:
    accelerator: Any = SimpleNamespace(
        device=torch.device(device), num_processes=processes, scaler=scaler
    )
    assert cuda_graphs.can_capture(accelerator, carried) == expected


def test_on_the_cpu_the_option_has_no_effect(tmp_path: Path) -> None:
    for name, is_wanted in (("with", True), ("without", False)):
        fit(tmp_path / name, cuda_graph=is_wanted)
    assert rows(tmp_path / "with") == rows(tmp_path / "without")
