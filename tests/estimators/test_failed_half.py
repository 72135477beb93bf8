"""A half that fails leaves the other half and a sentence, in every estimator."""

from __future__ import annotations

import networkx as nx
import numpy as np
import pytest

from representer.errors import TrainingError
from representer.estimators import (
    GraphClassifier,
    LanguageModel,
    MoleculeRegressor,
    SignalClassifier,
    TextClassifier,
    TextRegressor,
    halves,
    language,
    load,
)

COMMON = {"epochs": 1, "random_state": 0, "verbose": 0}
SIZES = {"hidden_size": 4, "embedding_size": 4}
TEXTS = [f"the {word} film {k % 7}" for k in range(15) for word in ("good", "bad")]
LABELS, NUMBERS = np.arange(30) % 2, np.linspace(-1, 1, 30)
GRAPHS = [nx.path_graph(3 + k % 2) for k in range(30)]
for graph in GRAPHS:
    nx.set_node_attributes(graph, "a", "x")
WAVES = np.random.default_rng(0).normal(size=(30, 2, 50))
SMILES = ["C" * (2 + k % 6) + "ON"[k % 2] for k in range(30)]
CASES = {
    "text": (TextClassifier, SIZES, TEXTS, LABELS),
    "numbers": (TextRegressor, SIZES, TEXTS, NUMBERS),
    "several numbers": (TextRegressor, SIZES, TEXTS, np.stack([NUMBERS, NUMBERS**2], 1)),
    "members": (GraphClassifier, {"hidden_size": 4, "members": 2}, GRAPHS, LABELS),
    "molecules": (MoleculeRegressor, {"hidden_size": 4, "members": 2}, SMILES, NUMBERS),
    "signals": (SignalClassifier, {"hidden_size": 4, "sampling_rate": 50}, WAVES, LABELS),
}
PROBLEMS = [ValueError("singular"), np.linalg.LinAlgError("singular")]


def fitted(case: str, **options):
    kind, sizes, X, y = CASES[case]
    return kind(**COMMON | sizes | options).fit(X, y), X


@pytest.mark.parametrize("case", CASES)
def test_a_network_that_diverges_leaves_the_kernel(case, tmp_path, capsys):
    model, X = fitted(case, lr=1e30)
    assert "the training of the network ended" in capsys.readouterr().err
    kernel = model.part("kernel").predict(X)
    if model.share_["network"] == 0:
        assert np.isfinite(model.predict_proba(X) if hasattr(model, "classes_") else kernel).all()
    for target in model.targets_:
        assert target.pool.loss <= target.pool.kernel_loss
    model.save(tmp_path / "run")
    assert np.array_equal(load(tmp_path / "run").predict(X), model.predict(X))


@pytest.mark.parametrize(("case", "problem"), [*zip(CASES, PROBLEMS * 3, strict=True)])
def test_a_kernel_that_fails_leaves_the_network(case, problem, tmp_path, capsys, monkeypatch):
    def fails(*arguments):
        raise problem

    monkeypatch.setattr(halves, "_fit_machine", fails)
    model, X = fitted(case)
    assert "kernel machine failed and predicts nothing; the other half is left: singular" in (
        capsys.readouterr().err
    )
    assert model.share_ == {"kernel": 0, "network": 1}
    assert len(model.predict(X)) == 30
    model.save(tmp_path / "run")
    assert np.array_equal(load(tmp_path / "run").predict(X), model.predict(X))
    with pytest.raises(TrainingError, match="The kernel machine failed: singular"):
        fitted(case, answer="kernel")
    with pytest.raises(TrainingError, match=r"is (nan|inf|-inf) at step"):
        fitted(case, answer="network", lr=1e30)


@pytest.mark.parametrize("half", ["kernel", "network"])
def test_scores_that_are_not_finite_fail_one_half_of_one_target_alone(half, capsys, monkeypatch):
    name = "_fit_machine" if half == "kernel" else "network_moments"
    before, calls = getattr(halves, name), []

    def spoiled(*arguments):
        calls.append(1)
        result = before(*arguments)
        if half == "kernel":
            return result if len(calls) > 1 else (result[0], tuple(x * np.nan for x in result[1]))
        return [tuple(x + np.inf for x in result[0]), *result[1:]]

    monkeypatch.setattr(halves, name, spoiled)
    model, X = fitted("several numbers")
    assert "failed and predicts nothing; the other half is left: its scores are" in (
        capsys.readouterr().err
    )
    assert model.targets_[0].answers == ["network" if half == "kernel" else "kernel"]
    assert model.targets_[1].answers == ["kernel", "network", "both"]
    monkeypatch.undo()
    assert all(np.isfinite(part).all() for part in model.predict(X, return_std=True))


def test_a_machine_that_failed_for_one_target_is_saved_as_none(tmp_path, monkeypatch):
    before, calls = halves._fit_machine, []

    def spoiled(*arguments):
        calls.append(1)
        if len(calls) == 1:
            raise ValueError("singular")
        return before(*arguments)

    monkeypatch.setattr(halves, "_fit_machine", spoiled)
    model, X = fitted("several numbers")
    model.save(tmp_path / "run")
    loaded = load(tmp_path / "run")
    assert [one.machine is None for one in loaded.targets_] == [True, False]
    assert np.array_equal(loaded.predict(X), model.predict(X))


@pytest.mark.parametrize("half", ["kernel", "network"])
def test_half_of_a_language_model_is_left(half, capsys, monkeypatch):
    text = "\n".join(TEXTS * 4)
    options = COMMON | {"hidden_size": 4, "embedding_size": 4}
    if half == "kernel":

        def fails(*arguments):
            raise ValueError("singular")

        monkeypatch.setattr(language.LanguageKernel, "select", fails)
    else:
        before = language._at_some_places

        def spoiled(half, *arguments):
            logs, tokens = before(half, *arguments)
            is_network = isinstance(half, language.NetworkPredictor)
            return (logs * np.nan if is_network else logs), tokens

        monkeypatch.setattr(language, "_at_some_places", spoiled)
    model = LanguageModel(**options).fit(text)
    assert f"the {half} failed and predicts nothing" in capsys.readouterr().err
    assert model.share_[half] == 0
    assert np.isfinite(model.score("the good film 3"))


def test_a_language_model_whose_network_diverges_keeps_its_kernel(capsys):
    model = LanguageModel(**COMMON | SIZES, lr=1e30).fit("\n".join(TEXTS * 4))
    assert "the training of the network ended" in capsys.readouterr().err
    assert model.pool_.loss <= model.pool_.kernel_loss
    assert np.isfinite(model.score("the good film 3"))
