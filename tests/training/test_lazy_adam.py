"""Adam in the rows of a batch is Adam in all rows, up to rounding."""

from __future__ import annotations

import contextlib
import copy
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import safetensors.torch
import torch
from small_training import config, rows, task
from torch import Tensor, nn

from representer.errors import ArgumentError
from representer.ops import core
from representer.storage.run import RunFolder
from representer.training import lazy_adam
from representer.training.averages import NonMonotonicASGD
from representer.training.lazy_adam import LazyAdam, large_embeddings
from representer.training.trainer import Trainer

V, E = 60, 5
EXACT = {"rtol": 1e-14, "atol": 1e-14}


def dense(parameters: Any, **options: Any) -> torch.optim.Adam:
    return torch.optim.Adam(parameters, 1e-2, fused=True, **options)


def steps(
    optimizer: torch.optim.Optimizer,
    embedding: nn.Embedding,
    count: range,
    *,
    dense_at: int | None = None,
) -> list[Tensor]:
    """Take steps along random gradients and return the vectors that were read."""
    (group,), read = optimizer.param_groups, []
    is_lazy = isinstance(optimizer, LazyAdam)
    with optimizer.lookups([embedding]) if is_lazy else contextlib.nullcontext():
        for i in count:
            generator = torch.Generator().manual_seed(i)
            size = 0 if i % 50 == 3 else 6  # a batch without tokens
            tokens = torch.randint(V if i % 90 == 0 else 12, (size, 2), generator=generator)
            direction = torch.randn(size, 2, E, generator=generator, dtype=torch.float64)
            scale = 10 ** (10 * torch.rand((), generator=generator).item() - 9)
            group["lr"] = 1e-2 * 0.998**i
            optimizer.zero_grad()
            if i % 40 == 7:  # the embedding has no gradient
                optimizer.step()
                continue
            vectors = embedding(tokens)
            read.append(vectors.detach().clone())
            loss = scale * (vectors * direction).sum()
            if i == dense_at:
                loss = loss + embedding.weight.sum()  # its value is not that of all steps
            loss.backward()
            assert embedding.weight.grad is not None
            assert embedding.weight.grad.is_sparse == (
                is_lazy and i != dense_at and embedding.sparse
            )
            optimizer.step()
    return read


def embedding(size: int = V, padding: int | None = 0) -> nn.Embedding:
    torch.manual_seed(0)
    return nn.Embedding(size, E, padding).double()


@pytest.fixture(params=["core", "reference"])
def _each_backend(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    if request.param == "reference":
        monkeypatch.setattr(core, "MISSING", "not built")
    elif core.MISSING:
        pytest.skip(core.MISSING)


@pytest.mark.usefixtures("_each_backend")
@pytest.mark.parametrize("dense_at", [None, 100])
def test_the_weights_that_are_read_are_those_of_adam(dense_at: int | None) -> None:
    ours, theirs = embedding(), embedding()
    lazy, adam = LazyAdam(ours.parameters(), 1e-2), dense(theirs.parameters())
    read = [steps(lazy, ours, range(200), dense_at=dense_at)]
    read.append(steps(adam, theirs, range(200), dense_at=dense_at))
    torch.testing.assert_close(*read, **EXACT)
    torch.testing.assert_close(ours.weight, theirs.weight, **EXACT)
    for name, value in adam.state[theirs.weight].items():
        torch.testing.assert_close(lazy.state[ours.weight][name], value, **EXACT)
    assert not ours.sparse


@pytest.mark.parametrize(
    ("name", "value"),
    [("weight_decay", 0.1), ("amsgrad", True), ("betas", (0.8, 0.99)), ("eps", 1e-3)],
)
def test_options_that_move_rows_without_a_gradient_differently_update_all_rows(
    name: str, value: Any
) -> None:
    ours, theirs = embedding(), embedding()
    lazy, adam = LazyAdam(ours.parameters(), 1e-2), dense(theirs.parameters(), **{name: value})
    lazy.param_groups[0][name] = value
    torch.testing.assert_close(steps(lazy, ours, range(60)), steps(adam, theirs, range(60)))
    assert torch.equal(ours.weight, theirs.weight)
    ours.weight.grad = torch.ones(V, E).double().to_sparse(1)
    with pytest.raises(ArgumentError, match=f"{name} is .* with sparse gradients"):
        lazy.step()


@pytest.mark.parametrize("saved_as", ["lazy", "adam"])
def test_a_saved_state_continues(saved_as: str) -> None:
    whole, first, second = embedding(), embedding(), embedding()
    unbroken, kind = LazyAdam(whole.parameters(), 1e-2), LazyAdam if saved_as == "lazy" else dense
    before = kind(first.parameters(), lr=1e-2) if kind is LazyAdam else dense(first.parameters())
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(LazyAdam, "catch_up", lambda self: None)  # as in a checkpoint
        steps(unbroken, whole, range(80))
        steps(before, first, range(80))
    second.load_state_dict(first.state_dict())
    after = LazyAdam(second.parameters(), 1e-2)
    after.load_state_dict(before.state_dict())
    read = steps(unbroken, whole, range(80, 200)), steps(after, second, range(80, 200))
    torch.testing.assert_close(*read, **({"rtol": 0, "atol": 0} if saved_as == "lazy" else EXACT))
    if saved_as == "lazy":
        assert torch.equal(whole.weight, second.weight)


def test_a_copy_continues_with_its_copy_of_the_weights() -> None:
    ours = embedding()
    optimizer = LazyAdam(ours.parameters(), 1e-2)
    steps(optimizer, ours, range(50))
    theirs, copied = copy.deepcopy((ours, optimizer))
    torch.testing.assert_close(
        steps(copied, theirs, range(50, 90)), steps(optimizer, ours, range(50, 90)), **EXACT
    )


def test_one_row_is_enough() -> None:
    ours, theirs = embedding(1, None), embedding(1, None)
    for module, optimizer in (
        (ours, LazyAdam(ours.parameters(), 1e-2)), (theirs, dense(theirs.parameters())),
    ):  # fmt: skip
        with optimizer.lookups([module]) if module is ours else contextlib.nullcontext():
            for i in range(5):
                optimizer.zero_grad()
                module(torch.zeros(i, dtype=torch.int64)).sin().sum().backward()
                optimizer.step()
    torch.testing.assert_close(ours.weight, theirs.weight, **EXACT)


def test_a_token_outside_the_vocabulary_is_an_index_error() -> None:
    ours = embedding()
    lazy = LazyAdam(ours.parameters(), 1e-2)
    with lazy.lookups([ours]):
        ours(torch.tensor([1])).sum().backward()
        lazy.step()
        for token in (-1, V, 2**40):
            with pytest.raises(IndexError):
                ours(torch.tensor([token]))


def test_only_embeddings_that_gain_from_it_are_large() -> None:
    large, size = nn.Embedding(2**17, 8), {"num_embeddings": 2**17, "embedding_dim": 8}
    tied, again = nn.Embedding(**size), nn.Linear(8, 2**17, bias=False)
    again.weight = tied.weight
    model = nn.ModuleList([
        large, nn.Embedding(2**17 - 1, 8), nn.Embedding(**size, max_norm=1.0),
        nn.Embedding(**size, scale_grad_by_freq=True), nn.Embedding(**size, sparse=True),
        nn.Embedding(**size).requires_grad_(False),
        tied, again,
    ])  # fmt: skip
    assert large_embeddings(model) == [large]


class Words(nn.Module):
    """A classifier of bags of words."""

    def __init__(self) -> None:
        super().__init__()
        self.embedding, self.head = embedding(), nn.Linear(E, 2).double()

    def forward(self, tokens: Tensor) -> Tensor:
        """Return the logits."""
        return self.head(self.embedding(tokens).sum(1))


TOKENS = torch.randint(1, V, (50, 4), generator=torch.Generator().manual_seed(3))


def train(out: Path, *, lazily: bool = True, **options: Any) -> dict[str, Tensor]:
    resume, optimizer = options.pop("resume", False), options.pop("optimizer", None)
    network = Words()
    given = None if lazily else dense(network.parameters())
    if optimizer is not None:
        given = optimizer(network.parameters())
    labels, killed_after = (TOKENS[:, 0] > V // 2).long(), options.pop("killed_after", None)
    loaded: list[int] = []

    def load(batch: list[int]) -> tuple[Tensor, Tensor]:
        if len(loaded) == killed_after:
            raise RuntimeError("killed")
        loaded.append(len(batch))
        return TOKENS[batch], labels[batch]

    def evaluate(module: nn.Module, check: Any) -> dict[str, float]:
        check()
        return {"accuracy": (module(TOKENS).argmax(1) == labels).double().mean().item()}

    job = task(load=load, evaluate=evaluate)
    with RunFolder(out, resume=resume) as run:
        Trainer(network, job, config(**{"lr": 1e-2, **options}), run, optimizer=given).fit()
    assert not network.embedding.sparse
    return {name: value.detach() for name, value in network.state_dict().items()}


@pytest.fixture
def _everything_is_large(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(lazy_adam, "_LARGE", 1)
    performed = []
    step = LazyAdam._step_rows
    monkeypatch.setattr(
        LazyAdam, "_step_rows", lambda *given: (performed.append(1), step(*given))[1]
    )
    yield
    assert performed


@pytest.mark.usefixtures("_everything_is_large")
@pytest.mark.parametrize(
    "options",
    [{}, {"clip_norm": 0.05}, {"clip_value": 0.01}, {"lr_decay": 0.7, "evaluate_every": 3}],
)
def test_a_training_is_that_of_adam(tmp_path: Path, options: dict[str, Any]) -> None:
    ours = train(tmp_path / "lazy", **options)
    theirs = train(tmp_path / "dense", lazily=False, **options)
    saved = safetensors.torch.load_file(tmp_path / "lazy" / "final.safetensors")
    assert all(torch.equal(saved[name], ours[name]) for name in ours)
    # rounding errors grow from step to step through the gradients of the network
    torch.testing.assert_close(ours, theirs, rtol=1e-11, atol=1e-11)
    assert [row["accuracy"] for row in rows(tmp_path / "lazy")] == [
        row["accuracy"] for row in rows(tmp_path / "dense")
    ]


@pytest.mark.usefixtures("_everything_is_large")
def test_a_stopped_training_continues_to_the_bit(tmp_path: Path) -> None:
    whole = train(tmp_path / "whole", epochs=4)
    options = {"epochs": 4, "checkpoint_every_steps": 1}
    for count in (9, 3):  # in the middle of an epoch, with rows that have missed steps
        with pytest.raises(RuntimeError, match="killed"):
            train(tmp_path / "parts", killed_after=count, resume=count == 3, **options)
    parts = train(tmp_path / "parts", resume=True, **options)
    assert all(torch.equal(whole[name], parts[name]) for name in whole)
    for name in ("metrics.jsonl", "model.safetensors", "final.safetensors"):
        assert (tmp_path / "whole" / name).read_bytes() == (tmp_path / "parts" / name).read_bytes()


def test_other_optimizers_have_dense_gradients(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lazy_adam, "_LARGE", 1)
    train(tmp_path, optimizer=lambda weights: NonMonotonicASGD(weights, 0.1, patience=1))
    assert rows(tmp_path)[-1]["averaged_steps"] >= 0
