"""Word vectors and input checks of the models of token sequences."""

from __future__ import annotations

import pytest
import torch

from representer.errors import ArgumentError, KindError, ShapeError
from representer.models.tokens import check_tokens, copy_vectors


@pytest.mark.parametrize("freeze", [False, True])
def test_all_rows_are_copied_except_padding(freeze: bool) -> None:
    embedding, vectors = torch.nn.Embedding(4, 3, padding_idx=1), torch.ones(4, 3)
    copy_vectors(embedding, vectors, freeze=freeze)
    assert embedding.weight.sum(1).tolist() == [3, 0, 3, 3]
    assert embedding.weight.requires_grad is not freeze


def test_without_padding_every_row_is_copied() -> None:
    embedding = torch.nn.Embedding(4, 3)
    copy_vectors(embedding, torch.ones(4, 3), freeze=False)
    assert embedding.weight.sum().item() == 12


def test_vectors_of_another_shape_are_rejected() -> None:
    with pytest.raises(ShapeError, match=r"vectors has shape \(4, 2\); expected \(4, 3\)"):
        copy_vectors(torch.nn.Embedding(4, 3), torch.ones(4, 2), freeze=False)


@pytest.mark.parametrize(
    ("tokens", "lengths", "error"),
    [
        (torch.zeros(2, 0, dtype=torch.int64), torch.tensor([0, 0]), ShapeError),
        (torch.zeros(2, 3, dtype=torch.int64), torch.tensor([1]), ShapeError),
        (torch.zeros(2, 3), torch.tensor([1, 2]), KindError),
        (torch.zeros(2, 3, dtype=torch.int64), torch.tensor([1.0, 2.0]), KindError),
        (torch.zeros(2, 3, dtype=torch.int64), torch.tensor([1, 4]), ArgumentError),
        (torch.zeros(2, 3, dtype=torch.int64), torch.tensor([-1, 2]), ArgumentError),
    ],
)
def test_invalid_padded_batches_are_rejected(tokens, lengths, error) -> None:
    with pytest.raises(error):
        check_tokens(tokens, lengths)
