"""estimators.division: how much is held out for validation."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from language_samples import small_model
from representer.data.splits import Splits
from representer.estimators import (
    GraphRegressor,
    MoleculeRegressor,
    SignalClassifier,
    TextClassifier,
)
from representer.estimators.fitting import validation_fraction
from representer.estimators.language_training import CarriedState, detached, example_state
from representer.estimators.targets import Classes, Numbers, splits_of
from representer.models import CELLS


@pytest.mark.parametrize(("given", "count", "test", "expected"), [
    (0.05, 100, 0.0, 0.05), (0.0, 100, 0.0, 0.0), (None, 20_000, 0.1, 0.1),
    (None, 1000, 0.0, 0.1), (None, 500, 0.0, 0.2), (None, 334, 0.0, 100 / 334),
    (None, 20, 0.0, 0.3), (None, 20, 0.8, 0.1),
])  # fmt: skip
def test_a_tenth_is_held_out_and_of_small_data_as_much_as_weighs_kernel_and_network(
    given: float | None, count: int, test: float, expected: float
) -> None:
    assert validation_fraction(given, count, test) == pytest.approx(expected)


TWICE = np.tile(np.arange(60), 2)


@pytest.mark.parametrize("target", [Classes((0, 1)), Numbers.find(np.arange(120.0))])
def test_validation_shares_no_object_with_training(target) -> None:
    values = np.arange(120) % 2 if isinstance(target, Classes) else np.arange(120.0)[:, None]
    train, valid = splits_of(target, values, None, TWICE).held_out(0.25, 0)
    assert len(valid) == 30
    assert not set(TWICE[train]) & set(TWICE[valid])
    assert sorted([*train, *valid]) == list(range(120))
    different = np.arange(120) * 3
    assert splits_of(target, values, None, different).held_out(0.25, 0) == splits_of(
        target, values, None
    ).held_out(0.25, 0)


def test_validation_on_groups_leaves_out_what_equals_an_object_to_train_on(capsys) -> None:
    values, groups = np.arange(60.0)[:, None], np.arange(60) // 6
    copies = np.where(np.arange(60) % 6 < 2, 100, np.arange(60))  # in each group
    target = Numbers.find(values[:, 0])
    train, valid = splits_of(target, values, groups, copies).held_out(0.2, 0)
    assert len(valid) == 8
    assert not {*copies[train]} & {*copies[valid]}
    assert "4 held out objects equal some of other groups" in capsys.readouterr().err
    everything = splits_of(target, values, groups, 0 * copies).held_out(0.2, 0)
    assert everything == splits_of(target, values, groups).held_out(0.2, 0)
    assert "figures are too good" in capsys.readouterr().err


def test_too_few_different_objects_are_divided_as_ever_and_stderr_says_so(capsys) -> None:
    labels = ["a", "b"] * 20
    parts = Splits(40, labels, digests=np.arange(40) % 2).parts((0.7, 0.3), 0)
    assert parts == Splits(40, labels).parts((0.7, 0.3), 0)
    assert "equal ones are in several parts" in capsys.readouterr().err


def test_equal_objects_have_one_digest_whatever_they_are() -> None:
    """Of a graph in any order of its nodes, and of a molecule in any spelling."""
    import networkx as nx

    path, moved = nx.path_graph(4), nx.relabel_nodes(nx.path_graph(4), {0: 1, 1: 0})
    for estimator, objects in (
        (TextClassifier(), ["Good film", "good  film", "bad film"]),
        (MoleculeRegressor(), ["CCO", "OCC", "CCN"]),
        (GraphRegressor(), [path, moved, nx.cycle_graph(4)]),
        (SignalClassifier(sampling_rate=1.0), np.stack([np.eye(3), np.eye(3), np.ones((3, 3))])),
    ):
        if isinstance(objects, list):
            objects = estimator._check_objects(objects)
        first, again, other = estimator.digests(objects)
        assert first == again != other


# The state between segments: kept, cut off from its past, saved and put back.


def flat(state):
    if isinstance(state, torch.Tensor):
        return [state]
    return [tensor for part in state for tensor in flat(part)]


@pytest.mark.parametrize("cell", CELLS)
def test_a_saved_state_continues_bit_for_bit(cell):
    model = small_model(cell=cell, filter_length=1).eval()
    tokens = torch.arange(20).reshape(10, 2) % 11
    first = model(tokens[:5]).state
    carried, again = (CarriedState(lambda rows: example_state(model, rows)) for _ in range(2))
    carried.value = detached(first)
    again.load_state_dict(carried.state_dict())
    assert type(again.value[0]) is type(first[0])
    assert torch.equal(model(tokens[5:], again.value).features, model(tokens[5:], first).features)


def test_a_detached_state_has_no_past_and_the_same_values():
    state = small_model()(torch.zeros(3, 2, dtype=torch.int64)).state
    cut = detached(state)
    assert any(tensor.requires_grad for tensor in flat(state))
    assert not any(tensor.requires_grad for tensor in flat(cut))
    assert all(torch.equal(a, b) for a, b in zip(flat(state), flat(cut), strict=True))


def test_no_state_is_saved_as_none():
    carried = CarriedState(lambda rows: pytest.fail("asked"))
    assert carried.state_dict() is None
    carried.value = "old"
    carried.load_state_dict(None)
    assert carried.value is None


def test_an_example_leaves_mode_and_random_states():
    model = small_model().train()
    before = torch.get_rng_state()
    example_state(model, 3)
    assert model.training
    assert torch.equal(before, torch.get_rng_state())
