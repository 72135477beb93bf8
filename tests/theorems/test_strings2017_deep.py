"""Lei et al. (2017), Lemma 1, Proposition 1, section 2.2, Theorem 2 and appendix C.

Feature maps are written out as vectors, with every weight of a reference a product of them.
"""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from small_oracles import outer
from strings2017_by_hand import (
    CLOSE,
    decays,
    features,
    kernel,
    ngrams,
    printed,
    random_sequence,
    theorem,
)
from strings2017_layers import draw, layer_of
from torch import Tensor

from representer.kernels import (
    DeepStringKernel,
    InversePolynomial,
    Linear,
    Polynomial,
    StringKernel,
)

SERIES = {  # a_k of sigma(z) = sum_k a_k z^k
    "polynomial": [0.5, -1.0, 0.25, 2.0],
    "sigmoid": [1 / 2, 1 / 4, 0.0, -1 / 48, 0.0, 1 / 480, 0.0, -17 / 80640, 0.0, 31 / 1451520],
}


def powers(x: Tensor, degree: int) -> list[Tensor]:
    """The flat tensor powers of x, of degrees 0 … degree."""
    return [outer([x] * k) if k else x.new_ones(1) for k in range(degree + 1)]


def phi_sigma(x: Tensor, degree: int) -> Tensor:
    """The map of 1/(2 − ⟨x, y⟩) = Σ_k 2^{−k−1} ⟨x, y⟩^k, up to a degree."""
    return torch.cat([2 ** (-(k + 1) / 2) * p for k, p in enumerate(powers(x, degree))])


def psi(w: Tensor, series: list[float]) -> Tensor:
    """The vector with σ(⟨w, x⟩) = ⟨φ_σ(x), ψ(w)⟩."""
    by_degree = zip(series, powers(w, len(series) - 1), strict=True)
    return torch.cat([a * 2 ** ((k + 1) / 2) * p for k, (a, p) in enumerate(by_degree)])


def smallest_norm(gram: Tensor, values: Tensor) -> float:
    """The least squared norm of a function of the kernel's space with these values."""
    return float(values @ torch.linalg.solve(gram, values))


def test_lemma_1_the_inverse_polynomial_kernel_is_a_sum_of_powers():
    """1/(2 − ⟨x, y⟩) is the product of the maps; it needs ⟨x, y⟩ < 2."""
    x, y = 0.3 * random_sequence(2, 2, torch.Generator().manual_seed(0))
    found = phi_sigma(x, 14) @ phi_sigma(y, 14)
    assert abs(float(x @ y)) < 0.5
    assert math.isclose(found, 1 / (2 - float(x @ y)), abs_tol=1e-9)  # (⟨x, y⟩/2)^15 is left out
    of_library = InversePolynomial()(torch.stack((x, y)))
    torch.testing.assert_close(of_library, 1 / (2 - torch.stack((x, y)) @ torch.stack((x, y)).T))


@pytest.mark.parametrize("name", SERIES)
@theorem
@given(seed=st.integers(0, 2**16), d=st.integers(1, 3))
def test_lemma_1_a_power_series_of_an_inner_product_is_an_inner_product_of_features(name, seed, d):
    """σ(⟨w, x⟩) = ⟨φ_σ(x), ψ(w)⟩, ψ's part of degree k being a_k 2^{(k+1)/2} w ⊗ … ⊗ w."""
    x, w = random_sequence(2, d, torch.Generator().manual_seed(seed))
    if name == "sigmoid":  # its series has radius π; the first term left out is below 1e-9
        x, w = 0.3 * x / x.norm(), 0.5 * w / w.norm()
    series = SERIES[name]
    z = w @ x
    expected = sum(a * z**k for k, a in enumerate(series)) if name == "polynomial" else z.sigmoid()
    found = phi_sigma(x, len(series) - 1) @ psi(w, series)
    torch.testing.assert_close(found, expected, rtol=0, atol=1e-10 * (1 + float(expected.abs())))


@theorem
@given(seed=st.integers(0, 2**16), lam=decays, n=st.integers(1, 2))
def test_proposition_1_the_output_is_an_inner_product_in_the_composed_kernel(seed, lam, n):
    """h[t][i] = σ(c_n[t][i]) = ⟨φ_σ(φ_n(x_{1:t})), ψ(φ_n(w_i))⟩."""
    x, references = draw(5, 2, n, 2, seed)
    for t in range(1, len(x) + 1):
        phi = features(x[:t], n, printed(lam))
        # scaled, so that the argument of the series is small: c is linear in the reference
        scale = 0.1 / (1 + float(phi.norm())) ** (1 / n)
        references = references / references.flatten(1).norm(dim=1)[:, None, None] * scale
        output = layer_of(references, decay=lam, activation="sigmoid")(x)[0]
        series = SERIES["sigmoid"][:6]
        for i, w in enumerate(references):
            found = phi_sigma(phi, 5) @ psi(outer(list(w)), series)
            assert math.isclose(found, output[t - 1, i], abs_tol=1e-9)


def test_proposition_1_the_output_is_a_function_of_the_composed_space():
    """No function with the values of h has a smaller norm than Σ_k a_k² 2^{k+1} ‖w‖^{2k} allows.

    That h belongs to the space of K_{σ,n} means just this, for every set of sequences.
    """
    generator = torch.Generator().manual_seed(3)
    sequences = [0.5 * random_sequence(length, 2, generator) for length in (2, 3, 3, 4, 5, 6)]
    references = 0.8 * random_sequence(4, 2, generator).reshape(2, 2, 2)
    layer = layer_of(references, decay=0.5, activation="sigmoid")
    gram = torch.tensor(
        [[1 / (2 - kernel(x, y, 2, printed(0.5))) for y in sequences] for x in sequences],
        dtype=torch.float64,
    )
    composed = StringKernel(2, 0.5).activated(InversePolynomial())
    torch.testing.assert_close(composed(sequences), gram, rtol=1e-10, atol=1e-12)
    values = torch.stack([layer(x)[0][-1] for x in sequences])
    assert gram.min() > 0  # every product is below 2
    assert torch.linalg.eigvalsh(gram).min() > 1e-9  # the composed kernel is one
    for i, w in enumerate(references):
        square = float(outer(list(w)).norm()) ** 2
        # |a_k| < 3 π^{−k}: the terms left out sum to less than 1e-6
        bound = sum(a**2 * 2 ** (k + 1) * square**k for k, a in enumerate(SERIES["sigmoid"]))
        norm = smallest_norm(gram, values[:, i])
        assert 0.3 < norm <= bound + 1e-6
        assert smallest_norm(gram, values[:, i] + 0.2 * (-1.0) ** torch.arange(6)) > bound


def test_proposition_1_a_sum_of_the_states_is_one_of_the_sum_of_kernels():
    """h[t] of a linear combination: feature maps are put side by side."""
    x, references = draw(5, 2, 3, 2, seed=9)
    layer = layer_of(references, readout="sum", activation="sigmoid")
    maps = [torch.cat([features(s, j, printed(0.5)) for j in (1, 2, 3)]) for s in (x, x[:4])]
    total = StringKernel(1) + StringKernel(2) + StringKernel(3)
    torch.testing.assert_close(total([x], [x[:4]])[0, 0], maps[0] @ maps[1], **CLOSE)
    for i, w in enumerate(references):
        phi = torch.cat([features(x, j, printed(0.5)) for j in (1, 2, 3)])
        of_w = torch.cat([outer(list(w[:j])) for j in (1, 2, 3)])
        torch.testing.assert_close(layer(x)[0][-1, i], (phi @ of_w).sigmoid(), **CLOSE)


def deep_features(x: Tensor, n: int, lam: float, layers: int, sigma_map) -> Tensor:
    """φ^(l)(x) of appendix C: tokens are replaced by the features of the prefixes."""
    if layers == 1:
        return features(x, n, printed(lam))
    below = torch.stack(
        [sigma_map(deep_features(x[: t + 1], n, lam, layers - 1, sigma_map)) for t in range(len(x))]
    )
    return features(below, n, printed(lam))


def deep_kernel(x: Tensor, y: Tensor, n: int, lam: float, layers: int, sigma_kernel) -> float:
    """K^(l)(x, y) of section 2.2: a double sum, with K_σ^(l−1) of prefixes in place of ⟨ , ⟩."""
    base = {}
    for a in range(1, len(x) + 1):
        for b in range(1, len(y) + 1):
            if layers == 1:
                base[a, b] = float(x[a - 1] @ y[b - 1])
            else:
                base[a, b] = sigma_kernel(
                    deep_kernel(x[:a], y[:b], n, lam, layers - 1, sigma_kernel)
                )
    weight = printed(lam)
    return sum(
        weight(i, len(x))
        * weight(k, len(y))
        * math.prod(base[a, b] for a, b in zip(i, k, strict=True))
        for i in ngrams(len(x), n)
        for k in ngrams(len(y), n)
    )


IDENTITY = (lambda u: u, lambda k: k, lambda h: h, lambda w: w, Linear())
SQUARE = (  # φ_σ(u) = u ⊗ u, K_σ = K², σ(z) = z², ψ(w) = w ⊗ w
    lambda u: outer([u, u]), lambda k: k * k, lambda h: h * h, lambda w: outer([w, w]),
    Polynomial(2, 0.0),
)  # fmt: skip


@pytest.mark.parametrize("activation", [IDENTITY, SQUARE], ids=["identity", "square"])
@theorem
@given(seed=st.integers(0, 2**16), lam=decays)
def test_section_2_2_the_deep_kernel_is_the_product_of_the_deep_maps(activation, seed, lam):
    """K^(2) by its double sum is ⟨φ^(2)(x), φ^(2)(y)⟩, with the weights λ on the right side too."""
    sigma_map, sigma_kernel, _, _, of_library = activation
    x, references = draw(4, 2, 3, 1, seed)
    y = references[0]
    expected = deep_kernel(x, y, 2, lam, 2, sigma_kernel)
    found = deep_features(x, 2, lam, 2, sigma_map) @ deep_features(y, 2, lam, 2, sigma_map)
    assert math.isclose(found, expected, rel_tol=1e-9, abs_tol=1e-9)
    deep = DeepStringKernel((2, 2), lam, of_library)([x], [y])
    assert math.isclose(float(deep), expected, rel_tol=1e-9, abs_tol=1e-9)


@pytest.mark.parametrize("activation", [IDENTITY, SQUARE], ids=["identity", "square"])
@theorem
@given(seed=st.integers(0, 2**16), lam=decays, n=st.integers(1, 2))
def test_theorem_2_the_states_of_a_deep_network_are_products_in_the_deep_space(
    activation, seed, lam, n
):
    """c_j^(2)[t][i] = ⟨φ_j^(2)(x_{1:t}), u_{i,1} ⊗ … ⊗ u_{i,j}⟩ with u_{i,k} = Mᵀ w_i^(k).

    M has ψ(w_i) of the first layer's references for rows. The order j belongs to φ^(2), which
    Theorem 5 leaves out.
    """
    sigma_map, _, sigma, psi_of, _ = activation
    generator = torch.Generator().manual_seed(seed)
    x = random_sequence(4, 2, generator)
    first = random_sequence(3 * n, 2, generator).reshape(3, n, 2)
    second = random_sequence(2 * n, 3, generator).reshape(2, n, 3)
    h = sigma(layer_of(first, decay=lam)(x)[0])
    states = layer_of(second, decay=lam).cell_states(h)
    M = torch.stack([psi_of(outer(list(w))) for w in first])
    for t in range(1, len(x) + 1):
        prefixes = [sigma_map(features(x[:s], n, printed(lam))) for s in range(1, t + 1)]
        for j in range(1, n + 1):
            phi = features(torch.stack(prefixes), j, printed(lam))
            for i, w in enumerate(second):
                u = outer([M.T @ token for token in w[:j]])
                torch.testing.assert_close(states[t - 1, j - 1, i], phi @ u, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("activation", ["tanh", "sigmoid", None])
def test_theorem_2_two_layers_of_the_library_are_one_on_the_output_of_the_other(activation):
    x, references = draw(5, 3, 2, 3, seed=2)
    both = layer_of(references, num_layers=2, activation=activation)
    first = layer_of(references, activation=activation)
    second = layer_of(both.references(1), activation=activation)
    torch.testing.assert_close(both(x)[0], second(first(x)[0])[0], **CLOSE)


def test_theorem_2_the_state_of_a_deep_network_is_a_function_of_the_deep_space():
    """Its values on any sequences need no larger norm than ‖u_{i,1} ⊗ u_{i,2}‖²."""
    generator = torch.Generator().manual_seed(4)
    sequences = [random_sequence(length, 2, generator) for length in (2, 3, 3, 4, 4)]
    first = random_sequence(6, 2, generator).reshape(3, 2, 2)
    second = random_sequence(2, 3, generator).reshape(1, 2, 3)
    layers = layer_of(first), layer_of(second)
    values = torch.stack([layers[1](layers[0](x)[0])[0][-1, 0] for x in sequences])
    gram = torch.tensor(
        [[deep_kernel(x, y, 2, 0.5, 2, lambda k: k) for y in sequences] for x in sequences],
        dtype=torch.float64,
    )
    deep = DeepStringKernel((2, 2), 0.5, Linear())
    torch.testing.assert_close(deep(sequences), gram, rtol=1e-10, atol=1e-12)
    # a sequence of 2 tokens has one bigram, of a first token whose own first layer is still 0
    used = [k for k in range(5) if gram[k, k] > 0]
    assert used == [1, 2, 3, 4]
    M = torch.stack([outer(list(w)) for w in first])
    bound = float(outer([M.T @ token for token in second[0]]).norm()) ** 2
    norm = smallest_norm(gram[used][:, used], values[used])
    assert 0 < norm <= bound * (1 + 1e-9)
    assert not values[0]
