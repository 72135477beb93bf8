"""The kernel of series: features by their definition, whatever stands beside a series."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.base import clone
from torch_geometric.data import Data

from representer.errors import ArgumentError, KindError, ShapeError
from representer.kernels import (
    ConvolutionKernel,
    Embedded,
    Gaussian,
    RandomWalkKernel,
    StringKernel,
    convolution_kernel,
)
from representer.kernels import WeisfeilerLehmanKernel as WL
from representer.kernels.convolution_kernel import (
    LEVEL,
    SHARE,
    TRIPLES,
    VALUES,
    VIEWS,
    WEIGHT,
    of_steps,
    spans,
)
from representer.nn import RKM, Relabeling, StringKernelRNN

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


@pytest.mark.parametrize("block", [2**21, 2**11])
def test_thresholds_are_the_quantiles_of_the_outputs_whatever_is_read_together(monkeypatch, block):
    """Bit for bit those of `numpy.quantile` over the outputs of each series by itself."""
    monkeypatch.setattr(convolution_kernel, "_BLOCK", block)
    stride = 5 if block < 2**20 else 1
    monkeypatch.setattr(convolution_kernel, "_DRAWN", 426 // stride + 1)  # of 426 steps
    x, start = drawn((33, 41, 300, 12, 40)), 0
    quantiles = np.arange(1, 10_000) * ((5**0.5 - 1) / 2) % 1
    for bank in ConvolutionKernel(2000, views=(SHARE,)).fit(x).banks_:
        if bank.dilation > 1 or bank.source != "values":
            continue
        for row, (k, channel) in enumerate(zip(bank.filters, bank.channels, strict=True)):
            outputs = []
            for padded in (np.pad(item[channel], 4) for item in x):
                taps = [padded[i : len(padded) - 8 + i] for i in range(9)]
                total = sum(taps[1:], taps[0])
                a, b, c = (taps[i] for i in TRIPLES[k]) if k < len(TRIPLES) else taps[:3]
                triple = (a + b + c) * np.float32(3) - total
                outputs.append(triple if k < len(TRIPLES) else total / np.float32(9))
                outputs[-1] = outputs[-1][::stride]
            count = bank.thresholds.shape[1]
            shares = quantiles[start : start + count]
            expected = np.quantile(np.concatenate(outputs), shares).astype(np.float32)
            np.testing.assert_array_equal(bank.thresholds[row], expected)
            start += count
    assert start


@pytest.mark.parametrize(("steps", "times"), [(10, 5), (10, 4), (3, 7), (1, 2), (9, 9)])
def test_values_are_means_of_equal_spans_of_the_steps(steps, times):
    x = np.random.default_rng(0).normal(size=(2, steps))
    fine = np.repeat(x, times, axis=1).reshape(2, times, steps)  # steps in `times` parts each
    np.testing.assert_allclose(spans(x, times), fine.mean(2))
    weights = np.random.default_rng(1).normal(size=times)
    np.testing.assert_allclose(x @ of_steps(weights, steps), spans(x, times) @ weights)


def test_the_kernel_of_the_values_is_scaled_as_a_whole():
    X = drawn((20, 25, 30, 40))
    kernel = ConvolutionKernel(700, (SHARE, VALUES)).fit(X)
    values = kernel._by_view(kernel.transform(X).T)[VALUES].T
    table = np.array([spans(x, kernel.times_).ravel() for x in X])
    table -= table.mean(0)
    expected = WEIGHT * table @ table.T / table.var(0).sum()
    np.testing.assert_allclose(values @ values.T, expected)
    assert kernel.times_ == 27  # as many as the median length
    shares = kernel._by_view(kernel.transform(X).T)[SHARE].T
    assert (shares**2).sum(1).mean() == pytest.approx(1, abs=0.05)


def test_the_features_of_a_series_do_not_depend_on_the_others(fitted):
    together = fitted.transform(drawn())
    alone = np.concatenate([fitted.transform([one]) for one in drawn()])
    np.testing.assert_allclose(together, alone, rtol=0, atol=1e-12)


def test_contributions_of_steps_sum_to_a_linear_function(fitted):
    weights = np.random.default_rng(1).normal(size=fitted.width)
    for one, features in zip(drawn(), fitted.transform(drawn()), strict=True):
        parts = fitted.by_step(one, weights)
        assert {values.shape[1] for _, values in parts} == {one.shape[1]}
        assert sum(values.sum() for _, values in parts) == pytest.approx(features @ weights)


@pytest.mark.parametrize("views", [VIEWS, (SHARE, VALUES), (VALUES,)])
def test_contributions_of_values_sum_to_a_linear_function(views):
    kernel = ConvolutionKernel(700, views).fit(drawn())
    weights = np.random.default_rng(1).normal(size=kernel.width)
    for one, features in zip(drawn(), kernel.transform(drawn()), strict=True):
        for width in (1, 7):
            parts = kernel.by_step(one, weights, width)
            level, values = parts[-1]
            assert values.shape == (2, -(-one.shape[1] // width))
            assert {level.name(row) for row in level.channels} == {"value"}
            assert set(level.filters) == {LEVEL}
            assert sum(own.sum() for _, own in parts) == pytest.approx(features @ weights)
    tokens, arrays = kernel.fitted()
    again = ConvolutionKernel(700).restore(tokens, arrays)
    np.testing.assert_array_equal(again.transform(drawn()), kernel.transform(drawn()))
    for wrong in ("97", "0", "-1"):
        with pytest.raises(ValueError, match="channels at"):
            ConvolutionKernel().restore(tokens | {"times": [wrong]}, arrays)


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


# The kernel of embedded objects: sequences, vectors, graphs, references, and errors.


CLOSE = {"rtol": 1e-10, "atol": 1e-10}


def affine() -> torch.nn.Sequential:
    """Return tanh(A x) of compositions.md."""
    f = torch.nn.Sequential(torch.nn.Linear(2, 3, bias=False), torch.nn.Tanh()).double()
    with torch.no_grad():
        f[0].weight.copy_(torch.tensor([[0.5, -0.25], [1, 0.5], [0, 0.75]]))
    return f


def test_the_values_are_those_of_the_embedded_sequences():
    x, y = [[1.0, 2], [0, 1], [-1, 1]], [[2.0, 0], [1, 1]]
    kernel = Embedded(StringKernel(2), affine())
    np.testing.assert_allclose(kernel([x], [y]), 0.230618908461, atol=1e-12)
    np.testing.assert_allclose(kernel([x], [[[1.0, -1], [2, 1]]]), 0.141451172156, atol=1e-12)
    behind = Embedded(StringKernel(2), affine(), repeat=True)
    expected = [[-0.727183644278]]
    np.testing.assert_allclose(behind([x], [[[1.0, 0, -1], [0, 1, 1]]]), expected, atol=1e-12)
    np.testing.assert_allclose(behind([x, y]), kernel([x, y]))
    np.testing.assert_allclose(behind.diag([x, y, []]), np.diag(kernel([x, y, []])))
    tensors = kernel([torch.tensor(x).double(), torch.empty(0, 2).double()])
    assert isinstance(tensors, torch.Tensor)
    assert tensors.requires_grad
    np.testing.assert_allclose(tensors.detach(), kernel([x, []]))


def test_layers_embed_every_prefix_in_evaluation_mode():
    lower = StringKernelRNN(3, 4, decay=0.5, num_layers=2, dropout=0.5).double()
    X = [torch.randn(n, 3).double() for n in (4, 0, 2)]
    embedded = Embedded(StringKernel(2), lower)
    K = embedded(X)
    assert lower.training
    torch.testing.assert_close(K, embedded(X))
    outputs = [lower.eval()(x)[0] if len(x) else x.new_zeros(0, 4) for x in X]
    torch.testing.assert_close(K, StringKernel(2)(outputs), **CLOSE)


def test_vectors_and_graphs_are_embedded():
    V = torch.randn(4, 2).double()
    f = affine()
    torch.testing.assert_close(Embedded(Gaussian(), f)(V), Gaussian()(f(V)), **CLOSE)
    assert isinstance(Embedded(Gaussian(), f)(V.numpy()), np.ndarray)
    edges = torch.tensor([[0, 1, 2], [1, 2, 0]])
    graphs = [Data(x=torch.randn(3, 2).double(), edge_index=edges) for _ in range(3)]
    r, walks = Relabeling(2).double(), RandomWalkKernel(2)
    levels = walks(graphs) + Embedded(walks, r)(graphs)
    torch.testing.assert_close(levels, WL(walks, 1, r)(graphs), **CLOSE)

    class OfData(torch.nn.Module):
        def forward(self, data):
            return Data(x=r(data.x, data.edge_index), edge_index=data.edge_index)

    torch.testing.assert_close(Embedded(walks, OfData())(graphs), Embedded(walks, r)(graphs))


def test_it_is_cloned_with_its_module_and_checks_its_arguments():
    f = affine()
    kernel = Embedded(StringKernel(2), f)
    copy = clone(kernel).set_params(kernel__order=1)
    assert copy.kernel.order == 1
    torch.testing.assert_close(copy.embed[0].weight, f[0].weight)
    with pytest.raises(KindError, match="embed is 'tanh'; expected a module"):
        Embedded(StringKernel(), "tanh")
    with pytest.raises(ShapeError, match="the result of embed has shape"):
        Embedded(StringKernel(), torch.nn.Flatten(0))([torch.ones(2, 2)])
    assert Embedded(StringKernel(), RKM(3, 4)).repeats is False


def test_the_strongest_filters_are_those_of_the_largest_share_with_outputs_of_deviation_1():
    rng = np.random.default_rng(0)
    X = [rng.normal(size=(2, steps)).astype(np.float32) for steps in (60, 90, 80, 70)]
    kernel = ConvolutionKernel(10_000, ("share",)).fit(X)
    bank = kernel.banks_[1]
    coefficients = np.zeros((1, kernel.width))
    start = kernel.banks_[0].thresholds.size
    width, mean = bank.thresholds.shape[1], len(bank.filters) - 1  # the last ones are means
    for place, (row, value) in enumerate(((5, 1000.0), (mean, 1.0))):
        own = slice(start + row * width, start + (row + 1) * width)
        coefficients[0, own] = value * (1 + (np.arange(width) == place))
    dilation, taps, thresholds = kernel.strongest(X, coefficients, 2)
    assert (dilation, taps.shape) == (bank.dilation, (2, 2, 9))
    for k, row in enumerate((5, mean)):
        channel = bank.channels[row]
        assert not taps[k, 1 - channel].any()
        outputs = np.concatenate([
            np.correlate(np.pad(x[channel], 4 * dilation), np.kron(taps[k, channel],
                         np.eye(1, dilation)[0])[: 8 * dilation + 1], "valid") for x in X
        ])  # fmt: skip
        assert np.square(outputs).mean() == pytest.approx(1, rel=1e-4)
        ratio = bank.thresholds[row, k] / thresholds[k]
        raw = np.sort(taps[k, channel] * ratio)
        expected = [1 / 9] * 9 if row == mean else [-1] * 6 + [2] * 3
        np.testing.assert_allclose(raw, expected, rtol=1e-4)
    assert kernel.strongest(X, coefficients, 2, dilation=1)[0] == 1
