"""The Gaussian process on last layers: its formula, missing values, and the file."""

from __future__ import annotations

import warnings

import numpy as np
import pytest
from sklearn.gaussian_process import GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

from representer.errors import CheckpointError
from representer.estimators import last_layer_gp
from representer.estimators.last_layer_gp import FILE, LastLayerGP, fit_gp
from representer.storage.run_files import RunFiles
from representer.storage.run_folder import RunFolder

RNG = np.random.default_rng(0)
LAYERS = RNG.normal(size=(60, 4)).astype(np.float32) * [1, 10, 0.1, 0]
LAYERS = LAYERS.astype(np.float32)
VALUES = np.stack([np.sin(LAYERS[:, 0]), 100 + LAYERS[:, 1]], axis=1)


def test_mean_and_variance_are_those_of_the_formula():
    gp = LastLayerGP(LAYERS[:20], VALUES[:20], ((2.0, 3.0, 0.5), (1.0, 1.0, 0.1)))
    answers, variances = gp.predict(LAYERS[20:25])
    own = LAYERS[:20].astype(np.float64)[:, :3]
    every = (LAYERS[:25].astype(np.float64)[:, :3] - own.mean(0)) / own.std(0)
    squares = ((every[:, None] - every[None]) ** 2).sum(-1)
    for k, (c, square, noise) in enumerate(gp.kernels):
        covariance = c * np.exp(-squares / (2 * square)) + noise * np.eye(25)
        mean, scale = VALUES[:20, k].mean(), VALUES[:20, k].std()
        solved = np.linalg.solve(covariance[:20, :20], covariance[:20, 20:])
        v = np.diag(covariance[20:, 20:] - covariance[20:, :20] @ solved)
        wanted = mean + solved.T @ (VALUES[:20, k] - mean)
        # scikit-learn adds 1e-10 to the diagonal
        np.testing.assert_allclose(answers[:, k], wanted, rtol=1e-6, atol=1e-7)
        np.testing.assert_allclose(variances[:, k], v * scale**2, rtol=1e-6)


def test_what_it_was_fitted_to_it_answers_and_it_is_unsure_far_away():
    gp = fit_gp(LAYERS[:50], VALUES[:50])
    answers, variances = gp.predict(LAYERS[50:])
    assert (np.abs(answers - VALUES[50:]).max(0) < 0.2 * VALUES.std(0)).all()
    far = gp.predict(100 * np.abs(LAYERS[50:]))[1]
    assert (far > variances).all()


def test_molecules_that_all_look_alike_get_the_mean():
    alike = np.ones((60, 4), dtype=np.float32)
    gp = fit_gp(alike[:50], VALUES[:50])
    answers, variances = gp.predict(alike[50:])
    # the likelihood is flat: noise explains all, but for what the search leaves of it
    np.testing.assert_allclose(answers, np.tile(VALUES[:50].mean(0), (10, 1)), rtol=1e-2, atol=1e-2)
    assert (variances > 0).all()


def test_values_that_are_all_the_same_are_answered():
    gp = fit_gp(LAYERS[:50], np.full((50, 1), 7.0))
    answers, variances = gp.predict(LAYERS[50:])
    np.testing.assert_allclose(answers, 7.0, rtol=1e-6)
    assert np.isfinite(variances).all()


def test_it_has_the_parameters_of_the_greatest_likelihood():
    """Of a search that another kernel of the same meaning makes too."""
    gp = fit_gp(LAYERS[:50], VALUES[:50])
    kernel = ConstantKernel() * RBF(10.0, (0.1, 1e4)) + WhiteKernel(0.1, (1e-4, 10.0))
    own = LAYERS[:50].astype(np.float64)[:, :3]
    scaled = (own - own.mean(0)) / own.std(0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # the noise of a sine ends at its bound
        found = GaussianProcessRegressor(kernel, normalize_y=True).fit(scaled, VALUES[:50, 0])
    c, length, noise = np.exp(found.kernel_.theta)
    np.testing.assert_allclose(gp.kernels[0], (c, length**2, noise), rtol=1e-2)


def test_a_missing_value_is_no_value():
    values = VALUES.copy()
    values[30:, 0] = np.nan
    found = fit_gp(LAYERS, values)
    alone = LastLayerGP(LAYERS[:30], VALUES[:30], found.kernels)
    # the features are standardized over all molecules, so that the two differ a little
    np.testing.assert_allclose(
        found.predict(LAYERS[:5])[0][:, 0],
        alone.predict(LAYERS[:5])[0][:, 0],
        atol=0.1,
    )
    assert np.isfinite(found.predict(LAYERS)[0]).all()


def test_of_many_molecules_some_are_kept_and_blocks_change_nothing(monkeypatch):
    monkeypatch.setattr(last_layer_gp, "MOST", 20)
    gp = fit_gp(LAYERS, VALUES, seed=1)
    assert len(gp.layers) == 20
    whole = gp.predict(LAYERS)
    monkeypatch.setattr(last_layer_gp, "BLOCK", 7)
    # a variance is a small difference of numbers near 1
    np.testing.assert_allclose(gp.predict(LAYERS), whole, rtol=1e-6, atol=1e-8)


def test_it_survives_its_file_and_damage_is_named(tmp_path):
    gp = fit_gp(LAYERS, VALUES.astype(np.float64))
    with RunFolder(tmp_path / "run") as run:
        gp.write(run)
    files, width, targets = RunFiles(tmp_path / "run"), LAYERS.shape[1], VALUES.shape[1]
    again = LastLayerGP.read(files, width, targets)
    three = LAYERS[:3]
    np.testing.assert_array_equal(again.predict(three), gp.predict(three))
    for sizes in ((width + 1, targets), (width, targets + 1)):
        with pytest.raises(CheckpointError, match=r"in the file and .* in the model"):
            LastLayerGP.read(files, *sizes)
    (tmp_path / "run" / FILE).write_bytes(b"{}")
    with pytest.raises(CheckpointError, match="is not a safetensors file"):
        LastLayerGP.read(files, width, targets)
