"""Suggestions: expected improvement, batches that are diverse, costs, constraints, errors."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from fitted_examples import MOLECULES, RATE, fitted, windows
from scipy import sparse
from scipy.integrate import quad
from scipy.stats import norm

from representer.errors import ArgumentError
from representer.estimators import MoleculeRegressor, SignalClassifier, TextClassifier
from representer.estimators.improvement import choose, expected_improvement, suggestions
from representer.tasks import drift
from representer.tasks.drift import compare_sets

POOL = ["CCCCCCCCCCCCCCO", "OCCCCCCCCCCCCCC", "CCO", "CCCCCCCCCCCCCCN", "CCCCCCCCCC", "C"]


@pytest.mark.parametrize(("mean", "std", "best"), [(0.0, 1.0, 0.5), (2.0, 0.3, 1.0), (-1, 2, 1)])
def test_expected_improvement_is_its_integral(mean, std, best):
    exact, _ = quad(lambda f: (f - best) * norm.pdf(f, mean, std), best, mean + 12 * std)
    found = expected_improvement(np.array([mean]), np.array([std]), best)[0]
    assert found == pytest.approx(exact, rel=1e-8)


def test_what_resembles_a_chosen_object_is_not_chosen_next():
    mean, covariance = np.array([1.0, 0.99, 0.9]), np.eye(3)
    covariance[0, 1] = covariance[1, 0] = 0.999
    arguments = mean, covariance, 0.01, 0.5, np.ones(3), np.ones(3, bool)
    assert [one.position for one in choose(*arguments, 2)] == [0, 2]
    found = choose(mean, np.eye(3), 0.01, 0.5, np.array([9.0, 1, 1]), np.ones(3, bool), 3)
    assert [one.position for one in found] == [1, 2, 0]
    assert found[0].improvement > found[1].improvement


def test_the_second_choice_is_that_of_the_process_with_one_more_observation():
    rng = np.random.default_rng(0)
    root = rng.normal(size=(6, 6))
    covariance, mean, noise = root @ root.T, rng.normal(size=6), 0.2
    first, second = choose(mean, covariance, noise, 0.0, np.ones(6), np.ones(6, bool), 2)
    taken = np.outer(covariance[:, first.position], covariance[first.position])
    left = covariance - taken / (covariance[first.position, first.position] + noise)
    values = expected_improvement(mean, np.sqrt(np.diag(left)), max(0.0, mean[first.position]))
    values[first.position] = -1
    assert second.position == values.argmax()
    assert second.improvement == pytest.approx(values.max(), rel=1e-9)


def test_a_batch_is_that_of_acquisitions_of_botorch_over_a_small_pool():
    acquisition = pytest.importorskip("botorch.acquisition")
    models = pytest.importorskip("botorch.models")
    from representer.kernels import GPyTorchKernel, StringKernel

    words = ["ab" * n + "c" * (n % 3) for n in range(1, 13)]
    kernel, noise, numbers = (
        StringKernel(2, 0.5, base="delta").cosine(),
        0.1,
        torch.arange(12).double(),
    )
    gram = torch.as_tensor(kernel(words)).double()
    truth = (numbers % 5)[:6, None]
    model = models.SingleTaskGP(
        numbers[:6, None], truth, torch.full_like(truth, noise), outcome_transform=None,
        covar_module=GPyTorchKernel(kernel, words).double(),
    ).eval()  # fmt: skip
    across = gram[6:, :6] @ torch.linalg.inv(gram[:6, :6] + noise * torch.eye(6))
    mean, covariance = (
        (across @ truth)[:, 0].numpy(),
        (gram[6:, 6:] - across @ gram[:6, 6:]).numpy(),
    )
    pool, best, chosen = numbers[6:, None], float(mean.min()), list[int]()
    for one in choose(mean, covariance, noise, best, np.ones(6), np.ones(6, bool), 3):
        expected = acquisition.LogExpectedImprovement(model, best)(pool[:, None]).exp().detach()
        expected[chosen] = 0.0
        assert one.improvement == pytest.approx(expected.max().item(), rel=1e-6)
        assert one.position == expected.argmax()
        chosen.append(one.position)
        believed = torch.tensor([[one.mean]]).double()
        model = model.condition_on_observations(
            pool[[one.position]], believed, noise=torch.full_like(believed, noise)
        )
        best = max(best, one.mean)


def test_an_estimator_suggests_large_or_small_molecules_without_copies():
    model = fitted("MoleculeRegressor")
    large, small = model.suggest(POOL, 2), model.suggest(POOL, 1, maximize=False)
    assert large.dtype == np.int64
    assert set(large) <= {0, 3, 4}
    assert small[0] in (2, 5)
    assert 1 not in model.suggest(POOL, 5)  # the same molecule as the first
    allowed = np.array([False, False, True, False, True, True])
    assert set(model.suggest(POOL, 3, allowed=allowed)) == {2, 4, 5}
    with pytest.raises(ArgumentError, match="1 to 3, the number of distinct objects"):
        model.suggest(POOL, 4, allowed=allowed)
    with pytest.raises(ArgumentError, match="costs"):
        model.suggest(POOL, 2, costs=[1, 2, 0, 1, 1, 1])
    with pytest.raises(ArgumentError, match="allowed"):
        model.suggest(POOL, 2, allowed=[1, 0, 1, 1, 1, 1])


def test_the_posterior_is_that_of_the_exact_process():
    machine = fitted("MoleculeRegressor").machine_
    kernel = machine.kernel
    covariance, noise = machine.posterior(POOL)
    spread = noise / kernel.noise_
    inner = kernel.landmark_features() + kernel.noise_ * np.eye(kernel.width)
    across = kernel.transform(POOL)
    expected = spread * (kernel(POOL) - across @ np.linalg.solve(inner, across.T))
    np.testing.assert_allclose(covariance, expected, atol=1e-4 * spread)
    _, variances = machine.moments(POOL)
    np.testing.assert_allclose(np.diag(covariance) + noise, variances[:, 0], rtol=1e-2)


def test_an_answer_without_a_kernel_machine_suggests_nothing():
    network = fitted("MoleculeRegressor").part("network")
    with pytest.raises(ArgumentError, match="Gaussian process"):
        suggestions(network, MOLECULES[:3], 1)


def test_strings_and_graphs_are_suggested_by_their_kernels():
    import networkx as nx

    from representer.estimators import GraphRegressor, SequenceRegressor
    from representer.kernels import StringKernel

    how = {"answer": "kernel", "random_state": 0, "verbose": 0}
    words = ["ab" * n + "c" * (n % 3) for n in range(1, 16)]
    compared = StringKernel(2, decay=0.5).cosine()
    strings = SequenceRegressor(**how, kernel=compared).fit(
        words, [float(len(word)) for word in words]
    )
    assert strings.suggest(["ab", "ab" * 14], 1).tolist() == [1]
    paths = [nx.path_graph(n) for n in range(2, 16)]
    graphs = GraphRegressor(**how).fit(paths, [float(len(one)) for one in paths])
    pool = [nx.path_graph(3), nx.path_graph(15)]
    assert graphs.suggest(pool, 1, maximize=False, best=10.0).tolist() == [0]


def _lengths(words: list[str]) -> list[float]:
    return [float(len(word)) for word in words]


@pytest.mark.parametrize("name", ["SequenceRegressor", "TextRegressor"])
def test_a_posterior_of_counted_features_is_that_of_all_training_objects(name, tmp_path):
    from representer import estimators

    words = [" ".join(["ab"] * n + ["c"] * (n % 3)) for n in range(1, 16)]
    pool = ["ab", "c", "ab c ab", "ab ab ab c c"]
    model = getattr(estimators, name)(answer="kernel", random_state=0, verbose=0)
    model.fit(words, _lengths(words))
    machine, across = model.machine_, model.machine_.kernel.transform
    objects = model.kernel_objects(model.checked_objects([*words, *pool]))
    features = across(objects)
    features = features.toarray() if hasattr(features, "toarray") else features
    measured, others = features[: len(words)], features[len(words) :]
    inner = np.linalg.inv(measured @ measured.T + np.eye(len(words)) / (2 * machine.penalty))
    expected = others @ (np.eye(others.shape[1]) - measured.T @ inner @ measured) @ others.T
    covariance, noise = machine.posterior(objects[len(words) :])
    np.testing.assert_allclose(covariance, expected, atol=1e-5)
    assert noise == 1 / (2 * machine.penalty)
    model.save(tmp_path / "run")
    again = getattr(estimators, name).load(tmp_path / "run")
    np.testing.assert_array_equal(again.suggest(pool, 3), model.suggest(pool, 3))


def test_of_many_objects_some_are_kept_for_the_posterior(monkeypatch):
    from representer.estimators import linear_models

    monkeypatch.setattr(linear_models, "MEASURED", 5)
    assert linear_models.kept_rows(np.eye(9)).shape == (5, 9)
    monkeypatch.setattr(linear_models, "MOST_NUMBERS", 18)
    assert linear_models.kept_rows(np.eye(9)).shape == (2, 9)
    assert linear_models.kept_rows(sparse.csr_array(np.eye(9))).shape == (5, 9)
    with pytest.raises(ValueError, match="for 3 features"):
        linear_models.unpacked_rows({"measured": np.eye(2)}, 3)


# Two sets compared by the kernel of an estimator.


WORDS = ["red", "blue", "green", "cat", "dog", "runs", "sits"]
RNG = np.random.default_rng(0)
SETS = {
    "texts": (
        TextClassifier(),
        [[" ".join(RNG.choice(WORDS[:most], 6)) for _ in range(12)] for most in (5, 7)],
    ),
    "molecules": (MoleculeRegressor(), [["C" * n for n in (2, 3, 4)], ["CO", "CCO", "CCCO"]]),
    "signals": (SignalClassifier(sampling_rate=RATE), [windows(seed=k)[0][:10] for k in (0, 1)]),
}


@pytest.mark.parametrize("name", SETS)
def test_differences_sum_to_the_squared_distance_of_the_means(name):
    estimator, (first, second) = SETS[name]
    found = compare_sets(estimator, first, second, permutations=9, seed=0)
    n, m = len(first), len(second)
    # the witness is the inner product with the difference of the means
    distance = found.test.witness[n:].mean() - found.test.witness[:n].mean()
    assert sum(one.summand for one in found.differences) == pytest.approx(distance, rel=1e-6)
    assert found.test.witness.shape == (n + m,)
    sizes = [abs(one.summand) for one in found.differences]
    assert sizes == sorted(sizes, reverse=True)


def test_what_one_set_alone_has_comes_first():
    texts = ["a red cat"] * 5, ["a blue cat"] * 5
    found = compare_sets(TextClassifier(), *texts, permutations=99, seed=0)
    named = {one.what: one for one in found.differences}
    assert (named["blue"].first, named["blue"].second) == pytest.approx((0, 1))
    assert (named["red"].first, named["red"].second) == pytest.approx((1, 0))
    assert named["blue"].summand > 0 < named["red"].summand
    assert found.test.p_value < 0.05


def test_differences_at_the_end_of_a_file_are_found(monkeypatch):
    monkeypatch.setattr(drift, "EXPLAINED", 4)
    second = ["a red cat"] * 6 + ["a blue cat"] * 6
    found = compare_sets(TextClassifier(), ["a red cat"] * 12, second, permutations=9, seed=0)
    blue = next(one for one in found.differences if one.what == "blue")
    assert (blue.first, blue.second) == pytest.approx((0, 0.5))
