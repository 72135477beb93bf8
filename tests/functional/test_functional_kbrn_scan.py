"""The recurrence of learned activations, against values computed by hand."""

from __future__ import annotations

import pytest
import torch

from representer.functional import kbrn_scan


def test_two_steps_by_hand():
    """f(a) = 2 |a - 1|, U = 3: h_1 = 2 |5 - 1| = 8, h_2 = 2 |1 + 24 - 1| = 48."""
    one = torch.ones(1, 1)
    output, h, used = kbrn_scan(
        torch.tensor([5.0, 1.0])[:, None, None], 0 * one, one, 2 * one, weight=3 * one
    )
    assert output.flatten().tolist() == [8.0, 48.0]
    assert h.item() == 48.0
    assert not used.any()


def test_a_batch_is_normalized_by_its_standard_deviation_at_every_step():
    """Inputs 1 and 5 have mean 3 and standard deviation 2; 0 and 20, mean 10 and deviation 10."""
    z = torch.tensor([[1.0, 5.0], [0.0, 20.0]])[:, :, None].double()
    one, norm = torch.ones(1, 1).double(), torch.tensor([[2.0], [0.5]]).double()
    given = torch.zeros(2, 2, 2, 1).double()
    output, _, used = kbrn_scan(
        z, torch.zeros(2, 1).double(), 0 * one, 0 * one, weight=0 * one,
        line=torch.tensor([[1.0, 0.0]]).double(), norm=norm, statistics=given,
        batch_statistics=True, epsilon=1e-12,
    )  # fmt: skip
    expected = torch.tensor([[-1.5, 2.5], [-1.5, 2.5]]).double()
    torch.testing.assert_close(output[:, :, 0], expected)
    assert used.flatten().tolist() == pytest.approx([3.0, 10.0, 4.0, 100.0])


def test_a_step_of_a_single_sequence_uses_the_given_statistics():
    z = torch.tensor([[1.0, 5.0], [0.0, 20.0]])[:, :, None].double()
    one = torch.ones(1, 1).double()
    given = torch.tensor([[[7.0, 7.0], [8.0, 8.0]], [[1.0, 1.0], [4.0, 4.0]]])[..., None].double()
    output, _, used = kbrn_scan(
        z, torch.zeros(2, 1).double(), 0 * one, 0 * one, weight=0 * one,
        line=torch.tensor([[1.0, 0.0]]).double(), norm=torch.tensor([[1.0], [0.0]]).double(),
        statistics=given, batch_statistics=True, lengths=torch.tensor([1, 2]), epsilon=1e-12,
    )  # fmt: skip
    torch.testing.assert_close(output[:, :, 0], torch.tensor([[-1.0, 1.0], [0.0, 6.0]]).double())
    assert used[:, 1].flatten().tolist() == [0.0, 0.0]
