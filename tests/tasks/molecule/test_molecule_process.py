"""The Gaussian process on last layers: its formula, missing values, and the file."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from representer.errors import CheckpointError
from representer.tasks.molecule import molecule_process
from representer.tasks.molecule.molecule_process import FILE, LastLayerProcess, fit_process
from representer.tasks.storage.run_folder import RunFolder

RNG = np.random.default_rng(0)
LAYERS = RNG.normal(size=(60, 4)).astype(np.float32) * [1, 10, 0.1, 0]
LAYERS = LAYERS.astype(np.float32)
VALUES = np.stack([np.sin(LAYERS[:, 0]), 100 + LAYERS[:, 1]], axis=1)
MEANS = VALUES + RNG.normal(size=VALUES.shape) * 0.5  # what an ensemble may answer


def test_mean_and_variance_are_those_of_the_formula():
    kernels = ((2.0, 3.0, 0.5, 0.7), (1.0, 1.0, 0.1, 0.2))
    process = LastLayerProcess(LAYERS[:20], MEANS[:20], VALUES[:20], kernels)
    means, variances = process.predict(LAYERS[20:25], MEANS[20:25])
    own = LAYERS[:20].astype(np.float64)[:, :3]
    every = (LAYERS[:25].astype(np.float64)[:, :3] - own.mean(0)) / own.std(0)
    squares = ((every[:, None] - every[None]) ** 2).sum(-1)
    for k, (c, square, noise, b) in enumerate(process.kernels):
        m = (MEANS[:25, k] - MEANS[:20, k].mean()) / MEANS[:20, k].std()
        covariance = c * np.exp(-squares / (2 * square)) + b * (1 + np.outer(m, m))
        covariance += noise * np.eye(25)
        mean, scale = VALUES[:20, k].mean(), VALUES[:20, k].std()
        solved = np.linalg.solve(covariance[:20, :20], covariance[:20, 20:])
        wanted = mean + solved.T @ (VALUES[:20, k] - mean)
        # scikit-learn adds 1e-10 to the diagonal
        np.testing.assert_allclose(means[:, k], wanted, rtol=1e-6, atol=1e-7)
        spread = np.diag(covariance[20:, 20:] - covariance[20:, :20] @ solved) * scale**2
        np.testing.assert_allclose(variances[:, k], spread, rtol=1e-6)


def test_what_it_was_fitted_to_it_answers_and_it_is_unsure_far_away():
    process = fit_process(LAYERS[:50], MEANS[:50], VALUES[:50])
    means, variances = process.predict(LAYERS[50:], MEANS[50:])
    assert (np.abs(means - VALUES[50:]).max(0) < 0.2 * VALUES.std(0)).all()
    far = process.predict(100 * np.abs(LAYERS[50:]), MEANS[50:])[1]
    assert (far[:, 0] > variances[:, 0]).all()


def test_far_from_all_that_it_knows_it_answers_as_the_networks_do():
    process = fit_process(LAYERS[:50], MEANS[:50], VALUES[:50])
    asked = np.linspace(90, 110, 10)[:, None].repeat(2, 1)
    far = process.predict(1e4 * np.abs(LAYERS[50:]), asked)[0][:, 1]
    slopes = np.diff(far) / np.diff(asked[:, 1])
    np.testing.assert_allclose(slopes, slopes[0], rtol=1e-6)  # a line
    assert slopes[0] == pytest.approx(1, abs=0.1)


def test_it_has_the_parameters_of_the_greatest_likelihood():
    """Of a search that another kernel of the same meaning, without a trend, makes too."""
    constant = np.full_like(MEANS[:50], 3.0)  # of which no deviation is left
    process = fit_process(LAYERS[:50], constant, VALUES[:50])
    kernel = ConstantKernel() * RBF(10.0, (0.1, 1e4)) + WhiteKernel(0.1, (1e-4, 10.0))
    own = LAYERS[:50].astype(np.float64)[:, :3]
    scaled = (LAYERS.astype(np.float64)[:, :3] - own.mean(0)) / own.std(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the noise of a sine ends at its bound
        model = GaussianProcessRegressor(
            kernel + ConstantKernel(1.0, (1e-4, 1e3)), normalize_y=True
        ).fit(scaled[:50], VALUES[:50, 0])
    means, deviations = model.predict(scaled[50:], return_std=True)
    found = process.predict(LAYERS[50:], np.full_like(MEANS[50:], 3.0))
    np.testing.assert_allclose(found[0][:, 0], means, atol=1e-3)
    np.testing.assert_allclose(found[1][:, 0] ** 0.5, deviations, rtol=1e-2)


def test_a_missing_value_is_no_value():
    values = VALUES.copy()
    values[30:, 0] = np.nan
    found = fit_process(LAYERS, MEANS, values)
    alone = LastLayerProcess(LAYERS[:30], MEANS[:30], VALUES[:30], found.kernels)
    # the features are standardised over all molecules, so that the two differ a little
    np.testing.assert_allclose(
        found.predict(LAYERS[:5], MEANS[:5])[0][:, 0],
        alone.predict(LAYERS[:5], MEANS[:5])[0][:, 0],
        atol=0.1,
    )
    assert np.isfinite(found.predict(LAYERS, MEANS)[0]).all()


def test_of_many_molecules_some_are_kept_and_blocks_change_nothing(monkeypatch):
    monkeypatch.setattr(molecule_process, "MOST", 20)
    process = fit_process(LAYERS, MEANS, VALUES, seed=1)
    assert len(process.layers) == 20
    whole = process.predict(LAYERS, MEANS)
    monkeypatch.setattr(molecule_process, "BLOCK", 7)
    # a variance is a small difference of numbers near 1
    np.testing.assert_allclose(process.predict(LAYERS, MEANS), whole, rtol=1e-6, atol=1e-8)


def test_it_comes_back_from_its_file_and_damage_is_named(tmp_path):
    process = fit_process(LAYERS, MEANS, VALUES)
    with RunFolder(tmp_path / "run") as run:
        process.write(run)
    again = LastLayerProcess.read(tmp_path / "run")
    three = LAYERS[:3], MEANS[:3]
    np.testing.assert_array_equal(again.predict(*three), process.predict(*three))
    (tmp_path / "run" / FILE).write_bytes(b"{}")
    with pytest.raises(CheckpointError, match="is missing or damaged"):
        LastLayerProcess.read(tmp_path / "run")
