"""The tied adaptive softmax: a distribution over words, its loss, one embedding."""

from __future__ import annotations

import copy
from pathlib import Path

import pytest
import safetensors.torch
import torch
from torch import Tensor, nn

from representer.errors import ArgumentError
from representer.models import TiedAdaptiveSoftmax

V, E, CUTOFFS = 23, 5, (6, 11)


class Model(nn.Module):
    def __init__(self, cutoffs: tuple[int, ...] = CUTOFFS, bias: bool = True) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding = nn.Embedding(V, E, dtype=torch.float64)
        self.output = TiedAdaptiveSoftmax(self.embedding, cutoffs, bias)
        for parameter in self.output.parameters():
            nn.init.normal_(parameter)


def by_hand(model: Model, x: Tensor, word: int) -> Tensor:
    """Return log p of one word by the formula of the docstring."""
    output = model.output
    vectors, bounds = model.embedding.weight, (0, *output.cutoffs, V)
    bias = [0.0] * V if output.bias is None else list(output.bias)
    group_bias = [0.0] * len(bounds) if output.group_bias is None else list(output.group_bias)

    def score(w: int) -> Tensor:
        return (vectors[w] @ x + bias[w]).exp()

    def group_score(k: int) -> Tensor:
        return (output.group_weight[k - 1] @ x + group_bias[k - 1]).exp()

    rare = range(1, len(bounds) - 1)
    first = sum(score(w) for w in range(bounds[1])) + sum(group_score(k) for k in rare)
    if word < bounds[1]:
        return (score(word) / first).log()
    k = max(k for k in rare if bounds[k] <= word)
    within = sum(score(w) for w in range(bounds[k], bounds[k + 1]))
    return (group_score(k) / first).log() + (score(word) / within).log()


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("cutoffs", [(1,), (6, 11), (1, 2, 22)])
def test_loss_and_gradients_match_the_definition(cutoffs, bias) -> None:
    model = Model(cutoffs, bias)
    features = torch.randn(V, E, dtype=torch.float64, requires_grad=True)
    targets = torch.randperm(V)  # each word once, on both sides of every cutoff
    expected = -sum(by_hand(model, x, int(y)) for x, y in zip(features, targets, strict=True))
    assert isinstance(expected, Tensor)
    result = model.output.loss(features, targets)
    torch.testing.assert_close(result, expected, rtol=1e-12, atol=1e-12)
    leaves = [features, *model.parameters()]
    torch.testing.assert_close(
        torch.autograd.grad(result, leaves), torch.autograd.grad(expected, leaves)
    )


def test_a_group_without_targets_gets_no_gradient() -> None:
    model, features = Model(), torch.randn(4, E, dtype=torch.float64)
    model.output.loss(features, torch.tensor([0, 3, 5, 5])).backward()
    rare = model.embedding.weight.grad
    assert rare is not None
    assert rare[:6].abs().sum() > 0
    assert rare[6:].abs().sum() == 0


def test_one_feature_vector_has_a_loss() -> None:
    model, x = Model(), torch.randn(E, dtype=torch.float64)
    torch.testing.assert_close(model.output.loss(x, torch.tensor(12)), -by_hand(model, x, 12))


def test_the_embedding_is_stored_once(tmp_path: Path) -> None:
    model, other = Model(), Model()
    assert list(model.state_dict()) == [
        "embedding.weight", "output.group_weight", "output.bias", "output.group_bias",
    ]  # fmt: skip
    nn.init.normal_(model.embedding.weight)
    safetensors.torch.save_model(model, str(tmp_path / "model.safetensors"))
    safetensors.torch.load_model(other, str(tmp_path / "model.safetensors"))
    features, targets = torch.randn(4, E, dtype=torch.float64), torch.randint(V, (4,))
    assert torch.equal(model.output.loss(features, targets), other.output.loss(features, targets))
    twin = copy.deepcopy(model)
    assert twin.output.weight is twin.embedding.weight


def test_biases_are_initialized_to_zero() -> None:
    output = TiedAdaptiveSoftmax(nn.Embedding(V, E), CUTOFFS)
    assert output.bias is not None
    assert output.group_bias is not None
    assert output.bias.abs().sum() + output.group_bias.abs().sum() == 0
    assert 0 < output.group_weight.abs().max() <= 0.1


@pytest.mark.parametrize("cutoffs", [(), (0,), (23,), (6, 6), (11, 6), (6.0,)])
def test_invalid_cutoffs_are_rejected(cutoffs) -> None:
    with pytest.raises(ArgumentError, match="expected ascending integers from 1 to 22"):
        TiedAdaptiveSoftmax(nn.Embedding(V, E), cutoffs)
