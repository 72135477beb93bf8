"""Word vectors of the models of token sequences; test_sequence_classifier.py checks inputs."""

from __future__ import annotations

import pytest
import torch

from representer.errors import ShapeError
from representer.models.config import copy_vectors


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
