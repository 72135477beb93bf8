from __future__ import annotations

import numpy as np
import pytest
import torch
from sklearn.base import clone
from sklearn.decomposition import KernelPCA
from sklearn.exceptions import NotFittedError
from sklearn.kernel_ridge import KernelRidge
from sklearn.metrics.pairwise import pairwise_kernels
from sklearn.utils.validation import check_is_fitted
from torch_geometric.data import Data

from representer.data.molecules import read_smiles
from representer.errors import ArgumentError, KindError
from representer.functional import NONLINEARITIES
from representer.kernels import (
    Activated,
    Cosine,
    Gaussian,
    GramTransformer,
    InversePolynomial,
    Linear,
    Polynomial,
    Power,
    Product,
    RandomWalkKernel,
    RecurrentKernel,
    Scaled,
    StringKernel,
    Sum,
    TextKernel,
    two_sample_test,
)
from representer.kernels.composition import check_bounds, with_values
from representer.kernels.gram import as_array

X = [0.5 * np.random.default_rng(0).normal(size=(n, 2)) for n in (3, 0, 5, 1, 4)]
k1, k2 = StringKernel(1), StringKernel(2, 0.9)


def test_sums_and_products_apply_to_the_gram_matrices():
    assert isinstance(k1 + k2, Sum)
    assert isinstance(k1 * k2, Product)
    np.testing.assert_allclose((k1 + k2)(X), k1(X) + k2(X))
    np.testing.assert_allclose((k1 * k2)(X, X[:2]), k1(X, X[:2]) * k2(X, X[:2]))
    np.testing.assert_allclose((k1 + k2 * k2).diag(X), k1.diag(X) + k2.diag(X) ** 2)
    with pytest.raises(TypeError):
        k1 + 1
    with pytest.raises(TypeError):
        k1 * "2"


def test_sum_begins_with_zero_and_numbers_scale_a_kernel():
    np.testing.assert_allclose(sum([k1, k2, k1])(X), 2 * k1(X) + k2(X))
    for scaled in (1.5 * k2, k2 * 1.5, np.float64(1.5) * k2, k2 * torch.tensor(1.5)):
        assert isinstance(scaled, Scaled)
        assert float(scaled.get_params()["scale"]) == 1.5
        np.testing.assert_allclose(scaled(X), 1.5 * k2(X))
        np.testing.assert_allclose(scaled.diag(X), 1.5 * k2.diag(X))
    assert repr(1.5 * k1) == "Scaled(kernel=StringKernel(order=1), scale=1.5)"
    assert not (0 * k2)(X).any()
    cube = clone(k2**3).set_params(degree=2, kernel__order=1)
    assert isinstance(cube, Power)
    np.testing.assert_allclose(cube(X, X[:2]), StringKernel(1, 0.9)(X, X[:2]) ** 2)
    np.testing.assert_allclose((k2**3)(X), k2.activated(Polynomial(3, offset=0))(X))
    scale = torch.tensor(2.0, dtype=torch.float64, requires_grad=True)
    (scale * k2)(X).sum().backward()
    np.testing.assert_allclose(scale.grad, k2(X).sum())


@pytest.mark.parametrize("scale", [-1, -1e-9, float("nan"), float("inf"), True, torch.ones(2)])
def test_other_numbers_do_not_scale_a_kernel(scale):
    for scaled in (lambda: scale * k1, lambda: k1 * scale):
        with pytest.raises(ArgumentError, match="expected a finite, non-negative number"):
            scaled()
    with pytest.raises(ArgumentError, match="expected a finite, non-negative number"):
        (2 * k1).set_params(scale=scale)(X)


@pytest.mark.parametrize("degree", [0, -1, 0.5, 2.0, True, None])
def test_a_power_is_a_positive_integer(degree):
    with pytest.raises(ArgumentError, match=r"degree is .*; expected a positive integer"):
        k1**degree


def test_kernels_of_different_objects_are_not_combined():
    for make in (lambda: k1 + RandomWalkKernel(), lambda: Gaussian() * k1):
        with pytest.raises(KindError, match=r"k2 is .*, a kernel of .*; expected a kernel of "):
            make()


def test_unit_norms_and_activations_need_the_norm_of_a_reference():
    kernel = RecurrentKernel("polynomial", repeat=True)
    Y = [x[-1:] for x in X if len(x)]
    for composed in (kernel.cosine(), (2 * kernel + k1).activated(Gaussian())):
        assert composed(X).shape == composed(X).T.shape
        with pytest.raises(ArgumentError, match=r"repeat is True; .*norm of a repeated reference"):
            composed(X, Y)


def test_a_composition_fits_the_kernels_in_it():
    texts = ["a good film", "a bad film", "good play"]
    words = TextKernel(min_count=1, min_characters=1)
    known = words.fit(texts)(texts)
    composed = clone(words) + StringKernel(base="delta") * clone(words).cosine()
    with pytest.raises(NotFittedError):
        check_is_fitted(composed)
    with pytest.raises(NotFittedError):
        composed(texts)
    strings = StringKernel(base="delta")(texts)
    gram = composed.fit(iter(texts))(texts)
    np.testing.assert_allclose(gram, known + strings * known)
    check_is_fitted(composed)
    fitted = GramTransformer(clone(composed)).fit(texts)
    np.testing.assert_allclose(fitted.transform(texts), gram)
    pair = two_sample_test(composed, texts[:2], ["another play"] * 2, permutations=9)
    both = [*texts[:2], *["another play"] * 2]
    own = clone(words).fit(both)(both)
    gram = own + StringKernel(base="delta")(both) * own
    np.testing.assert_allclose(pair.witness, gram[:, 2:].mean(1) - gram[:, :2].mean(1))
    np.testing.assert_array_equal(composed.k1(texts), known)  # was not fitted again


def test_something_else_than_a_kernel_is_refused():
    for make in (lambda: Sum(k1, 3), lambda: Product(k1, None), lambda: Cosine("rbf")):
        with pytest.raises(KindError, match="expected a kernel of representer"):
            make()
    with pytest.raises(KindError, match="kernel is 3; expected a kernel"):
        two_sample_test(3, X, X)
    for other in (None, "ab", 3):
        with pytest.raises(KindError, match=r"Y is \w+; expected a list of objects"):
            two_sample_test(k1, X, other)


def test_a_gradient_of_one_kernel_passes_through_a_composition_with_another():
    decay = torch.tensor(0.9, dtype=torch.float64, requires_grad=True)
    learned = StringKernel(2, decay)
    for found, expected in (
        ((learned + k1)(X), (k2 + k1)(X)),
        ((k1 * learned)(X, X[:2]), (k1 * k2)(X, X[:2])),
        ((k1 + learned).diag(X), (k1 + k2).diag(X)),
    ):
        np.testing.assert_allclose(found.detach(), expected)
        assert torch.autograd.grad(found.sum(), decay)[0] != 0


def test_iterators_are_passed_to_both_kernels():
    np.testing.assert_allclose((k1 + k2)(iter(X)), k1(X) + k2(X))
    np.testing.assert_allclose((k1 * k2).diag(iter(X)), k1.diag(X) * k2.diag(X))
    np.testing.assert_allclose(k2.cosine()(iter(X), iter(X)), k2.cosine()(X))


def test_the_space_of_an_activated_kernel_contains_the_polynomial_activation():
    """Lemma 1 and Proposition 1: sigma(<w, phi>) is linear in the features of K_sigma."""
    polynomial = NONLINEARITIES["polynomial"].value  # (z + 1)^2 / 4
    many = [0.5 * np.random.default_rng(i).normal(size=(4, 2)) for i in range(40)]
    states = k2(many, [np.array([[1.0, -2.0], [0.5, 1.0]])])
    targets = polynomial(torch.from_numpy(states)).numpy()
    gram = k2.activated(Polynomial(2))(many)
    assert np.linalg.matrix_rank(gram) < 20  # fewer parameters than the 40 values of the fit
    np.testing.assert_allclose(gram @ np.linalg.pinv(gram, rcond=1e-10) @ targets, targets)


def test_the_cosine_has_a_unit_diagonal_or_0_for_zero_objects():
    cosine = k2.cosine()
    assert isinstance(cosine, Cosine)
    gram, own = cosine(X), k2(X)
    np.testing.assert_allclose(gram.diagonal(), [1, 0, 1, 0, 1])
    np.testing.assert_allclose(cosine.diag(X), [1, 0, 1, 0, 1])
    assert gram[0, 2] == pytest.approx(own[0, 2] / np.sqrt(own[0, 0] * own[2, 2]))
    np.testing.assert_allclose(cosine(X[:3], X[2:]), gram[:3, 2:], atol=1e-15)
    assert not gram[1].any()


def test_the_cosine_of_zero_objects_has_a_finite_gradient():
    tensors = [torch.from_numpy(x).requires_grad_() for x in X]
    k2.cosine()(tensors).sum().backward()
    assert all(x.grad.isfinite().all() for x in tensors if x.grad is not None)
    assert tensors[2].grad is not None


def test_set_params_reaches_the_arguments_of_composed_kernels():
    kernel = (StringKernel().cosine() + StringKernel(1)).activated(Gaussian())
    kernel.set_params(kernel__k1__kernel__order=3, point_kernel__bandwidth=2.0)
    assert kernel.get_params()["kernel__k1__kernel__order"] == 3
    assert repr(StringKernel(3).cosine()) == "Cosine(kernel=StringKernel(order=3))"
    assert "StringKernel(order=3)" in repr(kernel)
    with pytest.raises(ArgumentError, match="order is 0"):
        kernel.set_params(kernel__k1__kernel__order=0)(X)


def test_only_point_kernels_are_accepted_as_activation():
    with pytest.raises(KindError, match="point_kernel is StringKernel"):
        Activated(k1, k2)
    with pytest.raises(ArgumentError, match=r"below 2 for 1/.*cosine"):
        StringKernel(2, 1.0).activated(InversePolynomial())([10 * x for x in X])


ROWS = np.random.default_rng(0).normal(size=(8, 4)) / 3
KERNELS_OF_ROWS = [
    Gaussian(), Linear() + Polynomial(), StringKernel(), RecurrentKernel(),
    StringKernel().cosine().activated(Gaussian()), StringKernel() * RecurrentKernel(),
]  # fmt: skip


@pytest.mark.parametrize("kernel", KERNELS_OF_ROWS, ids=repr)
def test_a_kernel_is_a_callable_for_scikit_learn(kernel):
    """It is called with pairs of rows: vectors, or sequences of one feature."""
    gram = kernel(ROWS if kernel.objects == "vectors" else list(ROWS[:, :, None]))
    np.testing.assert_allclose(pairwise_kernels(ROWS, metric=kernel), gram)
    ridge = KernelRidge(kernel=kernel).fit(ROWS, ROWS[:, 0])
    expected = KernelRidge(kernel="precomputed").fit(gram, ROWS[:, 0])
    np.testing.assert_allclose(ridge.predict(ROWS), expected.predict(gram))
    assert KernelPCA(2, kernel=kernel).fit_transform(ROWS).shape == (8, 2)


def test_two_rows_of_tokens_are_two_sequences():
    x, y = np.array([1, 2, 1, 3]), np.array([1, 2, 2])
    kernel = StringKernel(base="delta")
    assert kernel(x, y) == kernel([x], [y])[0, 0] > 0
    assert kernel.cosine()(x, x) == pytest.approx(1)


# Numbers of kernels that are learned by gradients.


RNG = np.random.default_rng(0)
TEXTS = ["".join(RNG.choice(list("abcd"), 10)) for _ in range(40)]
EDGES = torch.tensor([[0, 1, 1, 2], [1, 0, 2, 1]])
GRAPHS = [Data(x=torch.tensor(RNG.normal(size=(3, 2))), edge_index=EDGES) for _ in range(4)]


def text_kernel(decay: float) -> Cosine:
    """Return the kernel of pairs of letters."""
    return StringKernel(2, decay, base="delta").cosine()


CASES = {
    "texts": (text_kernel(0.5), TEXTS[:5], "kernel__decay"),
    "tokens": (StringKernel(3, 0.6, base="delta"), [[*text] for text in TEXTS[:5]], "decay"),
    "vectors in time": (StringKernel(2, 0.4), [RNG.normal(size=(4, 2)) for _ in range(4)], "decay"),
    "graphs": (RandomWalkKernel(2, 0.5), GRAPHS, "decay"),
    "molecules": (RandomWalkKernel(2, 0.5), [*map(read_smiles, ("CCO", "CCC", "CO"))], "decay"),
}


@pytest.mark.parametrize("name", CASES)
def test_a_kernel_with_a_number_that_requires_a_gradient_returns_tensors(name):
    kernel, objects, learned = CASES[name]
    decay = torch.tensor(0.5, dtype=torch.float64, requires_grad=True)
    K = with_values(kernel, {learned: decay})(objects)
    expected = with_values(kernel, {learned: 0.5})(objects)
    assert (type(expected) is np.ndarray) == (name != "graphs")
    np.testing.assert_allclose(as_array(K), as_array(expected), rtol=1e-9)
    assert torch.autograd.grad(K.sum(), decay)[0] != 0


def test_only_numbers_inside_their_bounds_are_learned():
    check_bounds(text_kernel(0.5), {"kernel__decay": (0.1, 0.9)})
    with pytest.raises(KindError, match=r"the parameter kernel__base is 'delta'"):
        check_bounds(text_kernel(0.5), {"kernel__base": (0.1, 0.9)})
    with pytest.raises(KindError, match=r"expected a kernel of representer.kernels"):
        check_bounds("string", {})  # type: ignore[arg-type]
    with pytest.raises(ArgumentError, match=r"kernel__decay is 0\.5"):
        check_bounds(text_kernel(0.5), {"kernel__decay": (0.5, 0.9)})
