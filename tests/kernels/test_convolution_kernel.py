"""The kernel of series: features by their definition, whatever stands beside a series."""

from __future__ import annotations

import numpy as np
import pytest

from representer.errors import ArgumentError, ShapeError
from representer.kernels import ConvolutionKernel
from representer.kernels.convolution_kernel import SHARE, TRIPLES

LENGTHS = (1, 3, 9, 40, 41, 300)


def drawn(lengths: tuple[int, ...] = LENGTHS, channels: int = 2) -> list[np.ndarray]:
    rng = np.random.default_rng(0)
    return [rng.normal(size=(channels, steps)).astype(np.float32) for steps in lengths]


@pytest.fixture(scope="module")
def fitted() -> ConvolutionKernel:
    return ConvolutionKernel(2000).fit(drawn())


def test_features_are_shares_and_mean_excesses_of_the_outputs_of_filters(fitted):
    x, responses = drawn()[3].astype(np.float64), fitted.read(drawn()[3:4])
    start = 0
    for bank in fitted.banks_:
        for row, (k, channel) in enumerate(zip(bank.filters, bank.channels, strict=True)):
            w = np.full(9, 1 / 9)
            if k < len(TRIPLES):
                w = np.where(np.isin(np.arange(9), TRIPLES[k]), 2.0, -1.0)
            y = (
                x[channel]
                if bank.source == "values"
                else np.diff(x[channel], prepend=x[channel, 0])
            )
            padded = np.pad(y, 4 * bank.dilation)
            z = sum(w[i] * padded[i * bank.dilation :][: len(y)] for i in range(9))
            for b in bank.thresholds[row]:
                excess = np.maximum(z - b, 0).mean()
                assert responses.views["excess"][0, start] == pytest.approx(excess, abs=1e-5)
                share = responses.views[SHARE][0, start]
                near = (np.abs(z - b) < 1e-5).mean()
                assert abs(share - (z > b).mean()) <= near + 1e-12
                start += 1
    assert start == responses.views[SHARE].shape[1]


def test_the_features_of_a_series_do_not_depend_on_the_others(fitted):
    together = fitted.transform(drawn())
    alone = np.concatenate([fitted.transform([one]) for one in drawn()])
    np.testing.assert_allclose(together, alone, rtol=0, atol=1e-12)


def test_steps_are_counted_beyond_what_a_byte_holds():
    one = np.zeros((1, 3000), np.float32)
    one[0, 1000:] = 5
    kernel = ConvolutionKernel(1000).fit([one, -one])
    for bank in kernel.banks_:
        shares = kernel.read([one]).views[SHARE]
        assert ((shares >= 0) & (shares <= 1)).all()
        assert bank.thresholds.shape[0] == len(TRIPLES) + 1
    assert kernel.read([one]).views[SHARE].max() > 0.5


def test_contributions_of_steps_sum_to_a_linear_function(fitted):
    weights = np.random.default_rng(1).normal(size=fitted.width)
    for one, features in zip(drawn(), fitted.transform(drawn()), strict=True):
        parts = fitted.by_step(one, weights)
        assert {values.shape[1] for _, values in parts} == {one.shape[1]}
        assert sum(values.sum() for _, values in parts) == pytest.approx(features @ weights)


def test_the_inner_product_of_features_is_the_kernel(fitted):
    gram = fitted(drawn())
    np.testing.assert_allclose(np.diag(gram), fitted.diag(drawn()))
    assert np.linalg.eigvalsh(gram).min() > -1e-9
    np.testing.assert_allclose(fitted(drawn()[:2], drawn()), gram[:2])


def test_a_restored_kernel_has_the_same_features(fitted):
    tokens, arrays = fitted.fitted()
    again = ConvolutionKernel(2000).restore(tokens, arrays)
    np.testing.assert_array_equal(again.transform(drawn()), fitted.transform(drawn()))
    with pytest.raises(ValueError, match="damaged"):
        ConvolutionKernel().restore(tokens, arrays | {"filters0": arrays["filters0"] + 99})


def test_filters_read_all_channels_that_thresholds_suffice_for():
    kernel = ConvolutionKernel(340).fit(drawn(channels=3))
    read = {int(c) for bank in kernel.banks_ for c in bank.channels}
    assert read == {0, 1, 2}


def test_names_show_the_signs_of_the_taps(fitted):
    assert fitted.banks_[0].name(0) == "+++------"
    differences = next(one for one in fitted.banks_ if one.source == "differences")
    assert differences.name(len(differences.filters) - 1) == "mean of nine of differences"


def test_wrong_series_and_parameters_are_refused(fitted):
    with pytest.raises(ShapeError, match=r"X\[0\]"):
        fitted.transform([np.zeros((1, 5))])
    with pytest.raises(ShapeError, match=r"X\[1\]"):
        ConvolutionKernel().fit([np.zeros((1, 5)), np.zeros(5)])
    with pytest.raises(ArgumentError, match="num_features"):
        ConvolutionKernel(0)
    with pytest.raises(ArgumentError, match="views"):
        ConvolutionKernel(views=("mean",))


def test_a_kernel_that_is_fitted_again_draws_its_thresholds_anew():
    rng = np.random.default_rng(3)
    first, second = (scale * rng.normal(size=(12, 1, 30)) for scale in (1, 50))
    again = ConvolutionKernel(500).fit(first).fit(second)
    np.testing.assert_array_equal(
        again.transform(second), ConvolutionKernel(500).fit(second).transform(second)
    )
