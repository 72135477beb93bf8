from __future__ import annotations

import pytest
import torch

from representer.functional import (
    NONLINEARITIES,
    gaussian_kernel_definition,
    recurrent_kernel_definition,
)


@pytest.mark.parametrize("name", NONLINEARITIES)
def test_the_definition_nests_q_as_printed(name):
    """The newest similarity is in the outermost q, the oldest in the innermost."""
    q, s = NONLINEARITIES[name].value, 0.3 * torch.randn(4, 2, dtype=torch.float64)
    torch.testing.assert_close(
        recurrent_kernel_definition(s, q), q(s[3] + q(s[2] + q(s[1] + q(s[0]))))
    )
    torch.testing.assert_close(recurrent_kernel_definition(s[:1], q), q(s[0]))


def test_the_kernel_of_an_empty_sequence_is_0_even_if_q_of_0_is_not():
    k = recurrent_kernel_definition(torch.empty(0, 2, 3), NONLINEARITIES["polynomial"].value)
    assert torch.equal(k, torch.zeros(2, 3))


def test_steps_counts_from_the_oldest():
    q, s = NONLINEARITIES["exponential"].value, torch.randn(4, dtype=torch.float64)
    torch.testing.assert_close(
        recurrent_kernel_definition(s, q, 2), recurrent_kernel_definition(s[:2], q)
    )


def test_the_gaussian_form_nests_distances_as_printed():
    """The squared distance of the hidden vectors is 2 - 2k, and 0 before the first step."""
    d = torch.rand(3, 2, dtype=torch.float64)
    k1 = torch.exp(-d[0] / 2)
    k2 = torch.exp(-(d[1] + 2 - 2 * k1) / 2)
    k3 = torch.exp(-(d[2] + 2 - 2 * k2) / 2)
    torch.testing.assert_close(gaussian_kernel_definition(d), k3)


@pytest.mark.parametrize("steps", [0, 1, 4])
def test_the_gaussian_form_of_equal_sequences_is_1(steps):
    assert torch.equal(gaussian_kernel_definition(torch.zeros(steps, 2)), torch.ones(2))
