"""Kernels composed of stored Gram matrices equal kernels of the graphs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from papers.graph_files import write_graphs
from representer.kernels import (
    Gaussian,
    InversePolynomial,
    RandomWalkKernel,
    WeisfeilerLehmanKernel,
)
from representer_papers.string_graph2017.graph_kernels import Grams, candidates
from representer_papers.string_graph2017.graph_sets import locate_graphs, read_graph_set
from representer_papers.string_graph2017.published import FAMILIES


@pytest.fixture(scope="session")
def graphs(tmp_path_factory):
    root = write_graphs(tmp_path_factory.mktemp("graphs"), count=20)
    return read_graph_set(locate_graphs(root, ())[0]).graphs


@pytest.fixture(scope="session")
def grams(graphs, tmp_path_factory):
    return Grams(tmp_path_factory.mktemp("grams"), graphs)


def walks(n):
    return RandomWalkKernel(n, base="delta")


def levels(n, lam):
    kernel = walks(1)
    for k in range(2, n + 1):  # a decay of lam gives walks of k nodes lam^(k - 1)
        kernel = kernel + RandomWalkKernel(k, decay=lam, base="delta")
    return kernel.cosine()


EXPECTED = {
    "walk": ("n=2", walks(2).cosine()),
    "walk-inverse": ("n=3", walks(3).cosine().activated(InversePolynomial())),
    "walk-rbf": ("n=1, s=0.3", walks(1).cosine().activated(Gaussian(0.3))),
    "levels": ("n=3, λ=0.1", levels(3, 0.1)),
    "levels-inverse": ("n=3, λ=1", levels(3, 1.0).activated(InversePolynomial())),
    "levels-rbf": ("n=3, λ=0.3, s=1", levels(3, 0.3).activated(Gaussian(1.0))),
    "wl": ("L=2", WeisfeilerLehmanKernel(depth=2).cosine()),
    "wl-inverse": ("L=1", WeisfeilerLehmanKernel(depth=1).cosine().activated(InversePolynomial())),
    "wl-rbf": ("L=6, s=0.1", WeisfeilerLehmanKernel(depth=6).cosine().activated(Gaussian(0.1))),
}


@pytest.mark.parametrize("family", FAMILIES)
def test_kernels_of_stored_gram_matrices_match_kernels_of_graphs(family, graphs, grams):
    name, kernel = EXPECTED[family]
    composed = candidates(family, grams, 3)[name]()
    everything = range(len(graphs))
    expected = np.asarray(kernel(graphs))
    np.testing.assert_allclose(composed(everything), expected, rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(composed([4, 1], [0, 2, 7]), expected[[4, 1]][:, [0, 2, 7]])
    np.testing.assert_allclose(composed.diag([3, 5]), np.diag(expected)[[3, 5]])


def test_the_families_have_the_documented_numbers_of_kernels(grams):
    counts = {family: len(candidates(family, grams, 6)) for family in FAMILIES}
    assert counts == {
        "walk": 6, "walk-inverse": 6, "walk-rbf": 18, "levels": 9, "levels-inverse": 9,
        "levels-rbf": 27, "wl": 6, "wl-inverse": 6, "wl-rbf": 18,
    }  # fmt: skip
    assert [name[:3] for name in candidates("levels", grams, 5)][::3] == ["n=3", "n=5"]


def test_a_gram_matrix_is_computed_once(graphs, tmp_path: Path):
    first = Grams(tmp_path / "a", graphs).walks(2)
    again = Grams(tmp_path / "a", graphs=()).walks(2)  # without graphs it can only be read
    np.testing.assert_array_equal(first, again)
    assert [path.name for path in (tmp_path / "a").iterdir()] == ["walks-2.npy"]
