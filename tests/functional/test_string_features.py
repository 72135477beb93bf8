from __future__ import annotations

import pytest
import torch

from looped import looped
from representer.functional import string_kernel_definition
from representer.functional.strings import slot_features, string_features


def draw(length, d=2):
    return torch.randn(length, d, dtype=torch.float64)


@pytest.mark.parametrize("trailing", [True, False])
@looped("n", [1, 2, 3, 4])
@looped("lam", [0.0, 0.6, 1.0])
def test_inner_products_of_features_equal_the_kernel(n, lam, trailing):
    decay = torch.tensor(lam, dtype=torch.float64)
    for L in (0, 2, 5):
        x, y = draw(L), draw(4)
        for features, combine in ((string_features, "multiply"), (slot_features, "add")):
            a, b = (features(s, n, decay, trailing=trailing) for s in (x, y))
            exact = string_kernel_definition(x @ y.T, n, lam, combine=combine, trailing=trailing)
            torch.testing.assert_close(a @ b, exact, rtol=1e-11, atol=1e-11)


def test_a_slice_of_the_first_slot_gives_a_slice_of_the_features():
    x, decay = draw(6, 3), torch.tensor(0.7, dtype=torch.float64)
    whole = string_features(x, 3, decay)
    parts = [string_features(x, 3, decay, first=slice(i, i + 2)) for i in (0, 2)]
    assert [len(part) for part in parts] == [18, 9]
    torch.testing.assert_close(torch.cat(parts), whole)


def test_the_features_of_two_tokens_are_their_outer_product():
    x = torch.tensor([[1.0, 2.0], [3.0, 5.0]], dtype=torch.float64)
    decay = torch.tensor(0.5, dtype=torch.float64)
    assert string_features(x, 2, decay).tolist() == [3, 5, 6, 10]
    assert slot_features(x, 2, decay).tolist() == [1, 2, 3, 5]
