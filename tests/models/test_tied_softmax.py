"""The tied softmax: its likelihood, and a single copy of the embedding."""

from __future__ import annotations

import copy
import math
from pathlib import Path

import pytest
import safetensors.torch
import torch
from torch import Tensor, nn

from representer.errors import ArgumentError, KindError, ShapeError
from representer.models import TiedAdaptiveSoftmax, TiedSoftmax, language_model

V, E = 23, 5


def embedding(dtype: torch.dtype = torch.float64) -> nn.Embedding:
    torch.manual_seed(0)
    return nn.Embedding(V, E, dtype=dtype)


def example(*shape: int) -> tuple[Tensor, Tensor]:
    torch.manual_seed(1)
    features = torch.randn(*shape, E, dtype=torch.float64, requires_grad=True)
    return features, torch.randint(V, shape)


def by_hand(weight: Tensor, bias: Tensor | None, features: Tensor, targets: Tensor) -> Tensor:
    """Evaluate the definition word by word."""
    total = features.new_zeros(())
    for x, y in zip(features.reshape(-1, E), targets.reshape(-1), strict=True):
        scores = [weight[w] @ x + (0 if bias is None else bias[w]) for w in range(V)]
        total = total - scores[int(y)] + torch.stack(scores).exp().sum().log()
    return total


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embedding = embedding()
        self.output = TiedSoftmax(self.embedding)


@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("shape", [(), (7,), (4, 3)])
def test_the_loss_and_its_gradients_match_the_definition(shape, bias) -> None:
    words = embedding()
    output = TiedSoftmax(words, bias=bias)
    if output.bias is not None:
        nn.init.normal_(output.bias)
    features, targets = example(*shape)
    expected = by_hand(words.weight, output.bias, features, targets)
    result = output.loss(features, targets)
    torch.testing.assert_close(result, expected, rtol=1e-12, atol=1e-12)
    leaves = [features, words.weight, *output.parameters()]
    torch.testing.assert_close(
        torch.autograd.grad(3 * result, leaves), torch.autograd.grad(3 * expected, leaves)
    )


def test_the_loss_over_several_chunks_matches_the_definition() -> None:
    """Chunks have 512 rows; 1100 rows are two chunks and a part of a third."""
    words, (features, targets) = embedding(), example(1100)
    output = TiedSoftmax(words)
    assert language_model._use_chunks(features, words.weight)
    result = output.loss(features, targets)
    plain = nn.functional.cross_entropy(features @ words.weight.T, targets, reduction="sum")
    torch.testing.assert_close(result, plain, rtol=1e-12, atol=1e-12)
    leaves = [features, words.weight]
    torch.testing.assert_close(
        torch.autograd.grad(result, leaves, retain_graph=True), torch.autograd.grad(plain, leaves)
    )
    torch.autograd.grad(result, leaves)  # a second time, with retain_graph


def test_few_rows_are_not_chunked() -> None:
    words, (features, _) = embedding(), example(E)
    assert language_model._use_chunks(features, words.weight)
    assert not language_model._use_chunks(features[1:], words.weight)


def test_without_gradients_the_loss_is_the_same() -> None:
    output, (features, targets) = TiedSoftmax(embedding()), example(6)
    with torch.no_grad():
        assert not language_model._use_chunks(features, output.weight)
        without = output.loss(features, targets)
    torch.testing.assert_close(without, output.loss(features, targets).detach())


def test_the_bias_is_initialized_to_zero_and_is_the_only_entry_of_the_state_dict() -> None:
    model = Model()
    assert list(model.output.state_dict()) == ["bias"]
    assert list(model.state_dict()) == ["embedding.weight", "output.bias"]
    assert [name for name, _ in model.named_parameters()] == list(model.state_dict())
    assert model.output.bias.abs().sum() == 0
    assert list(TiedSoftmax(embedding(), bias=False).state_dict()) == []


def test_safetensors_saves_the_model(tmp_path: Path) -> None:
    first, second = Model(), Model()
    nn.init.normal_(first.embedding.weight)
    nn.init.normal_(first.output.bias)
    safetensors.torch.save_model(first, str(tmp_path / "model.safetensors"))
    safetensors.torch.load_model(second, str(tmp_path / "model.safetensors"))
    features, targets = example(4)
    assert torch.equal(first.output.loss(features, targets), second.output.loss(features, targets))


def test_a_copy_is_tied_to_its_own_embedding() -> None:
    model = Model()
    twin = copy.deepcopy(model)
    assert twin.output.weight is twin.embedding.weight
    assert twin.output.weight is not model.output.weight


def test_the_embedding_stays_tied_after_conversion_to_another_dtype() -> None:
    model = Model().float()
    assert model.output.weight is model.embedding.weight
    assert model.output.log_probabilities(torch.zeros(2, E)).dtype == torch.float32


def test_it_compiles_to_one_graph() -> None:
    output, (features, targets) = TiedSoftmax(embedding()), example(6)
    compiled = torch.compile(output.loss, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(features, targets), output.loss(features, targets))


def test_the_loss_under_autocast_is_close_to_full_precision() -> None:
    output = TiedSoftmax(embedding(torch.float32))
    features = torch.randn(50, E, requires_grad=True)
    targets = torch.randint(V, (50,))
    with torch.autocast("cpu", torch.bfloat16):
        # which does not support autocast
        assert not language_model._use_chunks(features, output.weight)
        half = output.loss(features, targets)
    # bfloat16 has 8 bits: the relative error of a logit is up to 2^-8
    torch.testing.assert_close(half.float(), output.loss(features, targets), rtol=0.02, atol=0)


def test_a_uniform_model_has_chance_perplexity() -> None:
    words = embedding()
    nn.init.zeros_(words.weight)
    features, targets = example(10)
    loss = TiedSoftmax(words).loss(features, targets)
    assert loss.item() == pytest.approx(10 * math.log(V), rel=1e-12)


KINDS = pytest.mark.parametrize(
    "kind", [TiedSoftmax, lambda words: TiedAdaptiveSoftmax(words, (6, 11))]
)


@KINDS
def test_targets_of_minus_100_are_ignored(kind) -> None:
    """As in torch, to ignore padding."""
    output, (features, targets) = kind(embedding()), example(6)
    targets[4:] = -100
    expected = output.loss(features[:4], targets[:4])
    torch.testing.assert_close(output.loss(features, targets), expected)
    with torch.no_grad():
        torch.testing.assert_close(output.loss(features, targets), expected)


@KINDS
def test_probabilities_sum_to_1_and_match_the_loss(kind) -> None:
    output, (features, targets) = kind(embedding()), example(4, 3)
    for parameter in output.parameters():
        nn.init.normal_(parameter)
    logs = output.log_probabilities(features)
    assert logs.shape == (4, 3, V)
    torch.testing.assert_close(logs.exp().sum(-1), torch.ones(4, 3, dtype=torch.float64))
    picked = logs.gather(-1, targets[..., None]).sum()
    torch.testing.assert_close(-picked, output.loss(features, targets))


@KINDS
def test_mismatched_shapes_and_dtypes_are_rejected(kind) -> None:
    output = kind(embedding())
    with pytest.raises(ShapeError, match=r"features has shape \(2, 4\); expected \(…, 5\)"):
        output.log_probabilities(torch.zeros(2, 4))
    with pytest.raises(ShapeError, match=r"targets has shape \(3,\); expected \(2,\)"):
        output.loss(torch.zeros(2, E).double(), torch.zeros(3, dtype=torch.int64))
    with pytest.raises(KindError, match=r"targets is torch.int32; expected int64"):
        output.loss(torch.zeros(2, E).double(), torch.zeros(2, dtype=torch.int32))


def test_the_repr_contains_the_sizes() -> None:
    words = embedding()
    assert repr(TiedSoftmax(words)) == "TiedSoftmax(5, 23, bias=True)"
    adaptive = TiedAdaptiveSoftmax(words, (6, 11))
    assert repr(adaptive) == "TiedAdaptiveSoftmax(5, 23, cutoffs=(6, 11), bias=True)"


# The tied adaptive softmax: a distribution over words, its loss, one embedding.


CUTOFFS = (6, 11)


class AdaptiveModel(nn.Module):
    def __init__(self, cutoffs: tuple[int, ...] = CUTOFFS, bias: bool = True) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.embedding = nn.Embedding(V, E, dtype=torch.float64)
        self.output = TiedAdaptiveSoftmax(self.embedding, cutoffs, bias)
        for parameter in self.output.parameters():
            nn.init.normal_(parameter)


def adaptive_by_hand(model: AdaptiveModel, x: Tensor, word: int) -> Tensor:
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
    model = AdaptiveModel(cutoffs, bias)
    features = torch.randn(V, E, dtype=torch.float64, requires_grad=True)
    targets = torch.randperm(V)  # each word once, on both sides of every cutoff
    expected = -sum(
        adaptive_by_hand(model, x, int(y)) for x, y in zip(features, targets, strict=True)
    )
    assert isinstance(expected, Tensor)
    result = model.output.loss(features, targets)
    torch.testing.assert_close(result, expected, rtol=1e-12, atol=1e-12)
    leaves = [features, *model.parameters()]
    torch.testing.assert_close(
        torch.autograd.grad(result, leaves), torch.autograd.grad(expected, leaves)
    )


def test_a_group_without_targets_gets_no_gradient() -> None:
    model, features = AdaptiveModel(), torch.randn(4, E, dtype=torch.float64)
    model.output.loss(features, torch.tensor([0, 3, 5, 5])).backward()
    rare = model.embedding.weight.grad
    assert rare is not None
    assert rare[:6].abs().sum() > 0
    assert rare[6:].abs().sum() == 0


def test_one_feature_vector_has_a_loss() -> None:
    model, x = AdaptiveModel(), torch.randn(E, dtype=torch.float64)
    torch.testing.assert_close(
        model.output.loss(x, torch.tensor(12)), -adaptive_by_hand(model, x, 12)
    )


def test_the_embedding_is_stored_once(tmp_path: Path) -> None:
    model, other = AdaptiveModel(), AdaptiveModel()
    assert list(model.state_dict()) == [
        "embedding.weight", "output.group_weight", "output.bias", "output.group_bias",
    ]  # fmt: skip
    nn.init.normal_(model.embedding.weight)
    safetensors.torch.save_model(model, str(tmp_path / "model.safetensors"))
    safetensors.torch.load_model(other, str(tmp_path / "model.safetensors"))
    features, targets = (
        torch.randn(4, E, dtype=torch.float64),
        torch.randint(V, (4,)),
    )
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
