"""The kernel of cross-spectral matrices and its features."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.linalg import logm

from representer.errors import ArgumentError, ShapeError
from representer.kernels.cross_spectral_kernel import CrossSpectralKernel

RATE, BANDS = 100.0, ((4.0, 8.0), (8.0, 13.0))
RNG = np.random.default_rng(0)
WINDOWS = RNG.normal(size=(6, 3, 100))


def kernel(**options):
    return CrossSpectralKernel(RATE, BANDS, **options)


def test_inner_products_are_those_of_the_matrix_logarithms_of_the_definition():
    spectra = kernel(shrinkage=0.1).read(WINDOWS)
    features = spectra.views["matrix"].astype(np.float64)
    frequencies = np.fft.rfftfreq(100, 1 / RATE)
    expected = np.zeros((6, 6))
    for low, high in BANDS:
        logs = []
        for window in WINDOWS:
            tapered = (window - window.mean(1, keepdims=True)) * np.hanning(100)
            spectrum = np.fft.rfft(tapered)[:, (frequencies >= low) & (frequencies < high)]
            S = sum(np.outer(x, x.conj()) for x in spectrum.T) / spectrum.shape[1]
            logs.append(logm(0.9 * S + 0.1 * np.trace(S).real / 3 * np.eye(3)))
        expected += [[np.trace(a @ b.conj().T).real for b in logs] for a in logs]
    np.testing.assert_allclose(features @ features.T, expected, rtol=1e-6)  # stored in float32


def test_the_power_of_a_channel_is_that_of_its_own_spectrum():
    features = kernel().read(WINDOWS).views["power"]
    frequencies = np.fft.rfftfreq(100, 1 / RATE)
    expected = []
    for window in WINDOWS:
        tapered = (window - window.mean(1, keepdims=True)) * np.hanning(100)
        power = np.abs(np.fft.rfft(tapered)) ** 2
        inside = [(frequencies >= low) & (frequencies < high) for low, high in BANDS]
        expected.append([np.log(power[c, own].mean()) for own in inside for c in range(3)])
    np.testing.assert_allclose(features, expected, rtol=1e-5)  # stored in float32


def test_fitted_features_are_standardized_and_name_what_they_are():
    model = kernel().fit(WINDOWS)
    features = model.transform(WINDOWS)
    np.testing.assert_allclose(features.mean(0), 0, atol=1e-12)
    np.testing.assert_allclose((features**2).sum(), 6)  # N windows of unit mean square
    np.testing.assert_allclose(model(WINDOWS), features @ features.T)
    np.testing.assert_allclose(model.diag(WINDOWS), np.diag(model(WINDOWS)))
    assert len(model.features()) == features.shape[1] == model.width == 2 * (3 + 9)
    views = np.array([one.view for one in model.features()])
    for view in ("power", "matrix"):  # the same weight
        np.testing.assert_allclose((features[:, views == view] ** 2).sum(), 3)
        own = kernel(views=(view,)).fit(WINDOWS).transform(WINDOWS)
        np.testing.assert_allclose(own, features[:, views == view] * 2**0.5)


def test_windows_that_were_read_before_have_the_same_features():
    model = kernel().fit(WINDOWS)
    spectra = kernel().read(WINDOWS)
    assert len(spectra) == 6
    assert np.array_equal(kernel().fit(spectra).transform(spectra), model.transform(WINDOWS))
    assert np.array_equal(model.transform(spectra[2:4]), model.transform(WINDOWS[2:4]))
    many = np.concatenate([WINDOWS] * 100)  # more than are read at once
    assert np.array_equal(model.transform(many), np.tile(model.transform(WINDOWS), (100, 1)))


def test_power_and_lag_change_the_features_that_carry_their_names():
    time = np.arange(100) / RATE
    wave = np.sin(2 * np.pi * 10 * time)
    noise = 0.1 * RNG.normal(size=(200, 3, 100))
    strong, lagged = noise.copy(), noise.copy()
    strong[:100, 1] += wave
    lagged[:, 0] += wave
    lagged[:100, 2] += np.sin(2 * np.pi * 10 * time - np.pi / 2)
    lagged[100:, 2] += np.sin(2 * np.pi * 10 * time + np.pi / 2)
    for windows, channels, part in (
        (strong, (1,), "power"),
        (lagged, (0, 2), "quarter cycle apart"),
    ):
        model = kernel().fit(windows)
        features = model.transform(windows)
        gap = np.abs(features[:100].mean(0) - features[100:].mean(0))
        largest = model.features()[int(gap.argmax())]
        assert largest[:3] == ((8.0, 13.0), channels, part)


def test_silence_has_finite_features():
    windows = WINDOWS.copy()
    windows[0] = 0
    windows[1, 2] = 0
    assert all(np.isfinite(own).all() for own in kernel().read(windows).views.values())


def test_bands_without_a_frequency_are_left_out():
    some = CrossSpectralKernel(RATE, ((0.1, 0.2), (8.0, 13.0))).fit(WINDOWS)
    assert {one.band for one in some.features()} == {(8.0, 13.0)}
    with pytest.raises(ArgumentError, match="expected a band of the window's frequencies"):
        CrossSpectralKernel(RATE, ((0.1, 0.2),)).fit(WINDOWS)


def test_without_bands_they_are_those_of_an_eeg_or_of_the_windows():
    assert CrossSpectralKernel(RATE).fit(WINDOWS).features()[0].band == (1.0, 4.0)
    slow = CrossSpectralKernel(0.5).fit(WINDOWS)  # up to 0.25 Hz
    bands = list(dict.fromkeys(one.band for one in slow.features()))
    assert len(bands) == 5
    assert bands[0][0] == pytest.approx(0.005)  # the lowest frequency of 100 samples
    assert bands[-1][1] == 0.25
    ratios = [high / low for low, high in bands]
    np.testing.assert_allclose(ratios, ratios[0])


def test_what_was_fitted_is_restored_and_damage_is_refused():
    model = kernel().fit(WINDOWS)
    tokens, arrays = model.fitted()
    other = kernel(views=("power",)).restore(tokens, arrays)
    assert np.array_equal(other.transform(WINDOWS), model.transform(WINDOWS))
    for name, value in (
        ("shape", np.array([0, 5])),
        ("means", arrays["means"][1:]),
        ("scales", -arrays["scales"]),
    ):
        with pytest.raises(ValueError, match=r"shape|features|scale"):
            kernel().restore(tokens, arrays | {name: value})
    for views in ([], ["power", "power"], ["phase"], ["power"]):
        with pytest.raises(ValueError, match=r"views|features"):
            kernel().restore({"views": views}, arrays)


@pytest.mark.parametrize("options", [
    {"sampling_rate": 0.0}, {"sampling_rate": "100"}, {"shrinkage": 0.0}, {"shrinkage": None},
    {"bands": ((8.0, 4.0),)}, {"bands": (8.0, 12.0)}, {"views": ("phase",)},
])  # fmt: skip
def test_options_out_of_their_range_are_refused(options):
    with pytest.raises(ArgumentError, match=f"{next(iter(options))} is"):
        CrossSpectralKernel(**options)


def test_windows_of_another_shape_are_refused():
    model = kernel().fit(WINDOWS)
    with pytest.raises(ShapeError, match=r"expected \(N, 3, 100\)"):
        model.transform(WINDOWS[:, :2])
    with pytest.raises(ShapeError, match=r"expected \(windows, channels, samples\)"):
        model.transform(WINDOWS[0])


def test_a_waveform_is_the_means_of_equal_spans_of_each_channel():
    model = kernel(views=("waveform",)).fit(WINDOWS)
    features = model.read(WINDOWS[:, :, :64]).views["waveform"]
    short = WINDOWS[:, :, :64] - WINDOWS[:, :, :64].mean(2, keepdims=True)
    expected = short.reshape(6, 3, 32, 2).mean(3).reshape(6, -1)
    np.testing.assert_allclose(features, expected, atol=1e-6)
    assert model.width == 3 * 32
    one = model.features()[33]
    assert (one.channels, one.part, one.name) == ((1,), "mean", "waveform, 0.031 to 0.062 s")
    tokens, arrays = model.fitted()
    again = kernel().restore(tokens, arrays)
    assert np.array_equal(again.transform(WINDOWS), model.transform(WINDOWS))
    few = kernel(views=("waveform",)).read(WINDOWS[:, :, :30]).views["waveform"]
    assert few.shape == (6, 3 * 30)  # a span has a sample at least
