"""The kernel two-sample test."""

from __future__ import annotations

import numpy as np
import pytest

from representer.errors import ArgumentError
from representer.kernels import Gaussian, StringKernel, TextKernel, two_sample_test
from representer.kernels.two_sample import permutation_test

RNG = np.random.default_rng(0)


def test_the_statistic_is_the_unbiased_estimate_of_its_definition():
    X, Y, kernel = RNG.normal(size=(5, 2)), RNG.normal(size=(7, 2)) + 1, Gaussian()
    found = two_sample_test(kernel, X, Y, permutations=9)
    within = [kernel(Z)[~np.eye(len(Z), dtype=bool)].mean() for Z in (X, Y)]
    between = kernel(X, Y)
    assert found.statistic == pytest.approx(sum(within) - 2 * between.mean())
    np.testing.assert_allclose(found.witness[:5], kernel(X, Y).mean(1) - kernel(X).mean(1))
    assert found.witness[5:].mean() > found.witness[:5].mean()


def test_p_values_of_equal_sets_are_uniform_and_of_others_small():
    draws = RNG.normal(size=(200, 20, 1))
    p = [two_sample_test(Gaussian(), x[:10], x[10:], permutations=39).p_value for x in draws]
    rate = np.mean(np.array(p) <= 0.1)
    assert abs(rate - 0.1) <= 3 * np.sqrt(0.1 * 0.9 / 200)
    assert two_sample_test(Gaussian(), draws[0], draws[1] + 3, permutations=39).p_value == 1 / 40


def test_a_kernel_of_ngrams_sees_the_order_of_words_and_one_of_words_does_not():
    texts = [" ".join(["the", "cat", "sat", "a", "dog", "ran"])] * 20
    shuffled = [" ".join(RNG.permutation(text.split())) for text in texts]
    ordered = TextKernel(orders=(1, 2), min_count=1)
    assert two_sample_test(ordered, texts, shuffled, permutations=99).p_value == 0.01
    words = StringKernel(1, 1.0, base="delta")
    assert two_sample_test(words, [t.split() for t in texts], [s.split() for s in shuffled],
                           permutations=99).p_value == 1  # fmt: skip


def test_whole_groups_are_exchanged():
    subject = np.repeat(np.arange(8), 10)
    x = RNG.normal(size=(8, 1))[subject] * 5 + RNG.normal(size=(80, 1))
    groups = subject[:40], subject[40:]
    assert two_sample_test(Gaussian(), x[:40], x[40:], permutations=99).p_value < 0.05
    grouped = two_sample_test(Gaussian(), x[:40], x[40:], permutations=99, groups=groups)
    assert grouped.p_value > 0.1
    with pytest.raises(ArgumentError, match="groups is 'a group in both sets'"):
        two_sample_test(Gaussian(), x[:35], x[35:], groups=(subject[:35], subject[35:]))


def test_impossible_arguments_are_errors():
    with pytest.raises(ArgumentError, match="2 or more in each set"):
        permutation_test(np.eye(3), 1)
    with pytest.raises(ArgumentError, match="permutations is 0"):
        permutation_test(np.eye(4), 2, permutations=0)
