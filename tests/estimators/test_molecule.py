"""`MoleculeClassifier` and `MoleculeRegressor`: fitting, uncertainties, several targets, saving."""

from __future__ import annotations

import importlib

import numpy as np
import pytest

pytest.importorskip("rdkit")
pytest.importorskip("torch_geometric")

from fitted_examples import GROUPS as KINDS
from fitted_examples import LENGTHS as NUMBERS
from fitted_examples import MOLECULE as SMALL
from fitted_examples import MOLECULES, SIZES, TABLE, fitted
from sklearn.model_selection import cross_val_score

from both_halves import assert_sums
from representer.data.molecules import labeled_graphs
from representer.errors import ArgumentError, DataError
from representer.estimators import MoleculeClassifier, MoleculeRegressor, halves
from representer.estimators.fitting import Examples
from representer.estimators.kernel_machine import KernelMachine, fitted_rows
from representer.estimators.targets import Classes, ClassTable, Numbers, splits_of
from representer.kernels import SubtreeKernel

NETWORK = {**SMALL, "answer": "network"}


def test_it_learns_numbers_with_a_gaussian_process():
    regressor = fitted("MoleculeRegressor")
    assert regressor.machine_.precision is not None
    assert regressor.share_["kernel"] > 0.5  # which counts atoms


@pytest.mark.slow
def test_it_learns_several_classes_with_missing_labels():
    classifier = fitted("MoleculeClassifier")
    assert classifier.score(MOLECULES, TABLE) > 0.9
    assert [names.tolist() for names in classifier.classes_] == [
        ["alcohol", "amine"], [False, True]
    ]  # fmt: skip
    predicted = classifier.predict(MOLECULES)
    assert predicted.shape == (20, 2)
    assert [p.shape for p in classifier.predict_proba(MOLECULES)] == [(20, 2), (20, 2)]
    known = [i for i in range(20) if SIZES[i] is not None]
    right = [[row[0] == kind, row[1] == size] for row, kind, size in
             zip(predicted, KINDS, SIZES, strict=True)]  # fmt: skip
    hits = sum(right[i][0] for i in range(20) if i != 3) + sum(right[i][1] for i in known)
    assert classifier.score(MOLECULES, TABLE) == pytest.approx(hits / (19 + len(known)))


@pytest.mark.parametrize("name", ["MoleculeClassifier", "MoleculeRegressor"])
def test_contributions_are_those_of_walks_and_subtrees(name):
    walks, subtrees = (
        {c.what: c.where for c in fitted(name).part(part).explain(["CCO"])[0].contributions}
        for part in ("network", "kernel")
    )
    assert walks["C1–O2"] == (1, 2)
    assert subtrees["C"] == (0, 1)
    assert subtrees["C(C,O)"] == subtrees["CH2(CH3,OH)"] == (1,)


def test_an_atom_with_one_name_in_both_labelings_has_one_contribution():
    ethers = [f"{'C' * i}O{'C' * k}" for i in range(1, 6) for k in range(1, 5)]
    model = MoleculeRegressor(**SMALL, answer="kernel").fit(ethers, [*map(len, ethers)])
    (one,) = model.explain(["COC"])
    assert [c.where for c in one.contributions if c.what == "O"] == [(1,)]
    assert_sums(one, abs=1e-9)


def test_the_gaussian_process_has_the_mean_and_variance_of_its_formula():
    numbers = NUMBERS + np.random.default_rng(0).normal(size=20)
    model = MoleculeRegressor(**SMALL, answer="kernel").fit(MOLECULES, numbers)
    machine = model.machine_
    kernel, target = machine.kernel, model.target_
    assert kernel.width == len(MOLECULES)
    gram = kernel(MOLECULES)
    new = ["CCOC", "CCCCCCCCCCCCO", "c1ccccc1"]
    across, own = kernel(new, MOLECULES), kernel.weights_.sum()
    noisy = gram + kernel.noise_ * np.eye(len(gram))
    values = (numbers - target.means[0]) / target.scales[0]
    square = values.var()
    scores, variances = machine.moments(new)
    # the intercept of the ridge regression is that of generalized least squares
    ones = np.linalg.solve(noisy, np.ones(len(gram)))
    mean = ones @ values / ones.sum()
    expected = mean + across @ np.linalg.solve(noisy, values - mean)
    np.testing.assert_allclose(scores[:, 0], expected, rtol=1e-3, atol=1e-3)
    taken = np.einsum("ij,ji->i", across, np.linalg.solve(noisy, across.T))
    np.testing.assert_allclose(variances[:, 0], square * (own + kernel.noise_ - taken), rtol=1e-3)
    assert variances[2] > variances[0]


def test_a_process_alone_is_calibrated_on_every_row_left_out_once():
    numbers = NUMBERS + np.random.default_rng(0).normal(size=20)
    model = MoleculeRegressor(**SMALL, answer="kernel").fit(MOLECULES, numbers)
    target = model.target_
    kernel = model._new_kernel()
    rows = fitted_rows(kernel, target, MOLECULES, numbers[:, None])
    _, (scores, _) = KernelMachine.process(kernel, target, rows, numbers[:, None])
    errors = scores[:, 0] - (numbers - target.means[0]) / target.scales[0]
    assert model.pool_.loss == pytest.approx(np.mean(errors**2), rel=1e-2)
    assert model.examples_["valid"] > 0


def test_copies_do_not_make_the_process_be_fitted_again(monkeypatch):
    counted, process = [], KernelMachine.process
    spy = lambda *parts: (counted.append(1), process(*parts))[1]  # noqa: E731
    monkeypatch.setattr(KernelMachine, "process", spy)
    copied = [*MOLECULES, *MOLECULES[:3]]
    numbers = np.random.default_rng(0).normal(size=len(copied))
    MoleculeRegressor(**SMALL, answer="kernel").fit(copied, numbers)
    assert len(counted) == 1


@pytest.mark.parametrize("most", [1000, 12])
@pytest.mark.parametrize("is_weighted", [False, True])
def test_leaving_out_a_row_and_its_copies_is_fitting_without_them(most, is_weighted):
    rng = np.random.default_rng(0)
    numbers = NUMBERS + rng.normal(size=len(NUMBERS))
    weights = rng.uniform(0.5, 2, size=(len(numbers), 1)) if is_weighted else None
    target = Numbers.find(numbers)
    kernel = SubtreeKernel((2, 2), labeled_graphs, most=most)
    rows = fitted_rows(kernel, target, MOLECULES, numbers[:, None])
    noise, spread = kernel.noise_, target.encode(numbers).var() / target.scales[0] ** 2
    digests = np.arange(len(numbers))
    digests[[3, 7]] = 99  # copies, as if
    parts = target, rows, numbers[:, None], weights, digests
    _, (scores, variances) = KernelMachine.process(kernel, *parts)
    features, basis = rows
    gram = features if basis is None else features @ features.T
    y, w = (numbers - target.means[0]) / target.scales[0], np.ones(len(numbers))
    w = w if weights is None else weights[:, 0]
    for i in (0, 7):
        own = digests != digests[i]
        inverse = np.linalg.inv(gram[np.ix_(own, own)] + np.diag(noise / w[own]))
        mean = inverse.sum(1) @ y[own] / inverse.sum()
        expected = mean + gram[i, own] @ inverse @ (y[own] - mean)
        assert scores[i, 0] == pytest.approx(expected, abs=1e-6)
        rest = 1 - gram[i, own] @ inverse.sum(1)
        exact = gram[i, i] + noise / w[i] - gram[i, own] @ inverse @ gram[own, i]
        exact += rest**2 / inverse.sum() + kernel.weights_.sum() - gram[i, i]
        assert variances[i, 0] == pytest.approx(spread * exact, rel=1e-5)


def test_landmarks_approximate_the_gaussian_process():
    molecules = [
        f"{'C' * i}{end}{'C' * k}" for i in range(1, 8) for end in ("O", "N", "S") for k in range(4)
    ]
    numbers = np.array([float(len(one)) + 3 * ("S" in one) for one in molecules])
    target = Numbers.find(numbers)
    means = []
    for most in (1000, 40):
        kernel = SubtreeKernel((3, 2), labeled_graphs, most=most)
        machine = KernelMachine.fit(kernel, target, molecules, numbers[:, None], 1.0)
        assert machine.coefficients.shape == (1, min(most, len(molecules)))
        means.append(machine.moments(["CCOCC", "CSCC"]))
    np.testing.assert_allclose(means[1][0], means[0][0], atol=0.1)
    assert (means[1][1] > 0).all()


def test_one_target_of_classes_has_one_column():
    model = MoleculeClassifier(**SMALL, epochs=1).fit(MOLECULES, KINDS)
    assert model.predict_proba(MOLECULES[:3]).shape == (3, 2)
    assert cross_val_score(model, MOLECULES, KINDS, cv=2).shape == (2,)


def test_whole_groups_are_held_out_for_validation():
    groups = [i // 4 for i in range(20)]
    rows, held_out = splits_of(Numbers.find(NUMBERS), NUMBERS[:, None], groups).held_out(0.1, 0)
    assert not {groups[row] for row in rows} & {groups[row] for row in held_out}
    assert len(rows) == 16
    model = MoleculeRegressor(**SMALL, epochs=1).fit(MOLECULES, NUMBERS, groups=groups)
    assert model.kernel_.width == 20


@pytest.mark.parametrize(("smiles", "message"), [
    ("C(C", r"X\[2\]: invalid SMILES 'C\(C': It has an open bracket or ring"),
    ("C(C)(C)(C)(C)C", r"X\[2\]: .*Explicit valence for atom # 0 C"),
    (" ", r"X\[2\]: empty SMILES"),
    (7, r"X\[2\] is 7 of type int; expected a SMILES"),
])  # fmt: skip
def test_errors_name_the_row(smiles, message):
    with pytest.raises(DataError, match=message):
        MoleculeRegressor(**SMALL).fit([*MOLECULES[:2], smiles, *MOLECULES[3:]], NUMBERS)
    with pytest.raises(DataError, match="X is one string"):
        MoleculeRegressor(**SMALL).fit("CCO", NUMBERS)


@pytest.mark.parametrize(("y", "message"), [
    ([["a", "x"], ["b"]], r"y\[1\] has 1 labels; expected 2"),
    ([["a", "x"], ["a", None]], "y has one class, 'a' in column 0"),
    ([["a", None], ["a", None], ["b", None], ["b", None]], "y has no label in column 1"),
    ([["a", []], ["a", 1], ["b", 1], ["b", 1]], r"y\[0, 1\] is a list; expected a label"),
])  # fmt: skip
def test_errors_of_several_targets_name_the_cell(y, message):
    with pytest.raises(DataError, match=message):
        ClassTable.find(y)


def test_labels_become_numbers_and_unknown_ones_are_nan():
    table = ClassTable((Classes(("a", "b")), Classes((1, 2, 3))))
    encoded = table.encode([["b", 3], [None, 1], ["a", np.float64("nan")]])
    np.testing.assert_array_equal(encoded, [[1, 2], [np.nan, 0], [0, np.nan]])
    with pytest.raises(DataError, match=r"y\[0, 1\] is 4; the classes are 1, 2, 3"):
        table.encode([["a", 4]])
    with pytest.raises(DataError, match=r"y has shape \(1, 1\); expected \(N, 2\)"):
        table.encode([["a"]])


def test_each_target_has_the_probabilities_of_its_own_classes():
    table = ClassTable((Classes(("a", "b")), Classes((1, 2, 3))))
    outputs = np.log([[0.25, 0.75, 0.5, 0.25, 0.25]])
    first, second = table.probabilities(outputs)
    np.testing.assert_allclose(first, [[0.25, 0.75]])
    np.testing.assert_allclose(second, [[0.5, 0.25, 0.25]])


def test_rows_without_any_target_are_neither_trained_on_nor_held_out():
    values = np.full((40, 2), np.nan)
    values[::4, 0] = np.arange(10)
    train, valid = splits_of(Numbers.find(values[:, 0]), values, None).held_out(0.3, 0)
    assert sorted(train + valid) == list(range(0, 40, 4))
    assert len(valid) == 3


def test_deviations_are_calibrated_on_the_validation_molecules():
    model = MoleculeRegressor(**NETWORK, epochs=1)
    model.fit(MOLECULES, NUMBERS, validation=(MOLECULES, NUMBERS))
    mean, std = model.predict(MOLECULES, return_std=True)
    error = np.sqrt(np.mean((mean - NUMBERS) ** 2))
    assert 0.5 * error < np.sqrt(np.mean(std**2)) < 2 * error


def test_the_learning_rate_decays_after_every_epoch():
    def losses(decay: float) -> list[float]:
        model = MoleculeRegressor(**NETWORK, epochs=3, lr_decay=decay, initial="fan-in")
        model.fit(MOLECULES, NUMBERS, validation=(MOLECULES, NUMBERS))
        return [row["valid_loss"] for row in model.history_]

    stopped = losses(1e-9)
    assert stopped[2] == pytest.approx(stopped[0], rel=1e-5)
    assert losses(1.0)[2] != pytest.approx(stopped[2], rel=1e-5)


def test_the_rate_falls_by_molecules_seen_and_draws_are_balanced():
    model = MoleculeRegressor(
        **NETWORK, batch_size=8, lr_decay=0.5, lr_decay_every=16, balance=2.0, epochs=1
    )
    values = np.array([0.0] * 18 + [5.0, 9.0])
    model.fit(MOLECULES, values, validation=(MOLECULES, values))
    examples = Examples(model.inputs_.encode(MOLECULES), values[:, None])
    task, config, _ = model.training_plan(examples, examples, model.network_, 0)
    assert config.lr_decay is None
    assert task.lr_scale is not None
    batches = [batch for epoch in range(40) for batch in task.batches(epoch)]
    seen = 0
    for batch in batches:
        assert task.lr_scale(batch) == 0.5 ** (seen // 16)
        seen += len(batch)
    drawn = [row for batch in batches for row, _ in batch]
    assert seen == len(drawn) == 40 * 20
    assert 0.25 < drawn.count(18) / len(drawn) < 0.42  # one of three bins
    _, (loaded,) = task.load(batches[0])
    assert loaded[:, 0].tolist() == [values[row] for row, _ in batches[0]]
    values[3] = np.nan  # unknown
    model.fit(MOLECULES, values, validation=(MOLECULES, values))
    task, *_ = model.training_plan(
        examples._replace(values=values[:, None]), examples, model.network_, 0
    )
    drawn = [row for epoch in range(40) for batch in task.batches(epoch) for row, _ in batch]
    assert {*drawn} == {*range(20)} - {3}
    with pytest.raises(ArgumentError, match="0 where there are several targets"):
        model.fit(MOLECULES, np.stack([NUMBERS, NUMBERS], axis=1))


def test_targets_that_are_not_standardized_stay_in_their_unit():
    model = MoleculeRegressor(**SMALL, epochs=1, standardize=False).fit(MOLECULES, NUMBERS)
    assert (model.target_.means, model.target_.scales) == ((0.0,), (1.0,))


def test_whole_scaffolds_are_held_out_for_validation(monkeypatch):
    rings = ["C1CCCCC1", "c1ccccc1", "C1CC1", "c1ccncc1", "c1ccsc1"]
    molecules = [f"{'C' * count}{ring}" for ring in rings for count in range(1, 5)]
    y = np.arange(20.0)
    seen = []

    def watched(estimator, train, valid, groups, weights):
        seen.append(set(valid[1][:, 0].tolist()))
        return fit_targets(estimator, train, valid, groups, weights)

    fit_targets = halves.fit_targets
    monkeypatch.setattr(halves, "fit_targets", watched)
    model = MoleculeRegressor(**NETWORK, epochs=1).fit(molecules, y, groups="scaffold")
    assert [{*range(4 * k, 4 * k + 4)} == seen[0] for k in range(5)].count(True) == 1
    with pytest.raises(ArgumentError, match="groups is 'rings'; expected a group of each molecule"):
        model.fit(molecules, y, groups="rings")


def test_targets_with_gaps_are_fitted_for_one_reading_of_each_molecule(monkeypatch):
    """The predictions are those of a fit of each target alone, which reads every molecule."""
    molecule_descriptors = importlib.import_module("representer.data.molecules.smiles")
    read = list[str]()
    compute = molecule_descriptors._molecule

    def counted(smiles):
        read.append(smiles)
        return compute(smiles)

    monkeypatch.setattr(molecule_descriptors, "_molecule", counted)
    reads = 4  # of its views, pairs, torsions and descriptors
    how = {"answer": "kernel", "random_state": 0, "verbose": 0, "valid_fraction": 0.3}
    model = MoleculeClassifier(**how).fit(MOLECULES, TABLE)
    assert len(read) == reads * len(MOLECULES)
    read.clear()
    found = model.predict_proba(MOLECULES)
    assert len(read) == 2 * reads * len(MOLECULES)  # no memory outside of a fit
    monkeypatch.setattr(MoleculeClassifier, "remembered", lambda self, objects: objects)
    alone = MoleculeClassifier(**how).fit(MOLECULES, TABLE).predict_proba(MOLECULES)
    for one, other in zip(found, alone, strict=True):
        np.testing.assert_array_equal(one, other)
