"""The language model: segments and steps match the whole sequence; dropout; errors."""

from __future__ import annotations

import pytest
import torch

from looped import looped
from representer.errors import ArgumentError, KindError, ShapeError
from representer.models import CELLS, LanguageModelConfig, LanguageNetwork

WORDS = 11
TOKENS = torch.randint(WORDS, (9, 3), generator=torch.Generator().manual_seed(1))


def model(**changes) -> LanguageNetwork:
    torch.manual_seed(0)
    quiet = {"input_dropout": 0.0, "output_dropout": 0.0}
    sizes = {"embedding_size": 6, "hidden_size": 6, "num_layers": 2}
    return LanguageNetwork(LanguageModelConfig(WORDS, **{**sizes, **quiet, **changes})).double()


def close(result, expected):
    torch.testing.assert_close(result, expected, rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("cell", CELLS)
@looped("size", [6, 8])
def test_segments_and_steps_match_the_whole_sequence(cell, size):
    network = model(cell=cell, hidden_size=size, highway=size == 6)
    whole = network(TOKENS)
    first = network(TOKENS[:4])
    second = network(TOKENS[4:], first.state)
    close(torch.cat((first.features, second.features)), whole.features)
    state, logs = None, []
    for tokens in TOKENS:
        result, state = network.step(tokens, state)
        logs.append(result)
    close(torch.stack(logs), network.output.log_probabilities(whole.features))


@pytest.mark.parametrize("cutoffs", [(), (4, 8)])
def test_the_loss_is_the_negative_log_probability(cutoffs):
    network = model(cutoffs=cutoffs)
    features = network(TOKENS[:-1]).features
    logs = network.output.log_probabilities(features)
    close(logs.exp().sum(-1), torch.ones(8, 3, dtype=torch.float64))
    expected = -logs.gather(2, TOKENS[1:, :, None]).sum()
    close(network.output.loss(features, TOKENS[1:]), expected)


def test_input_and_output_share_the_embedding():
    network = model()
    names = set(network.state_dict())
    assert {"embedding.weight", "output.bias"} <= names
    assert not [name for name in names if name.startswith("output.") and name != "output.bias"]
    before = network.output.log_probabilities(network(TOKENS).features)
    with torch.no_grad():
        network.embedding.weight[5] += 1
    after = network.output.log_probabilities(network(TOKENS).features)
    assert (before[..., 5] != after[..., 5]).all()


def test_options_are_passed_to_the_string_kernel_layers():
    layers = model(activation="relu", order=2, decay="input").layers
    assert [(layer.normalized, layer.activation) for layer in layers] == [(True, "relu")] * 2
    assert [(layer.order, layer.decay) for layer in layers] == [(2, "input")] * 2
    for options, hidden in (
        ({"decay": "state", "highway": False}, 0.3), ({"decay": "input", "highway": False}, 0.0),
        ({"decay": "input", "highway": True}, 0.3),
    ):  # fmt: skip
        for layer in model(rnn_dropout=0.3, **options).layers:  # on the state where a gate reads it
            assert (layer.variational_dropout, layer.hidden_dropout) == (0.3, hidden)


def test_embeddings_are_initialized_uniformly_within_their_bounds():
    for initial, bound in (("string", (3 / 64) ** 0.5), ("uniform", 0.1)):
        weight = model(embedding_size=64, initial=initial).embedding.weight
        assert 0.97 * bound < weight.abs().max() <= bound


def test_the_last_layer_has_the_embedding_size():
    config = LanguageModelConfig(WORDS, embedding_size=4, hidden_size=7, num_layers=3)
    assert config.layer_sizes == [(4, 7), (7, 7), (7, 4)]
    assert LanguageModelConfig(WORDS, 4, 7, 1).layer_sizes == [(4, 4)]


def test_initial_selects_the_bound_of_the_embeddings():
    strings = model(embedding_size=3, hidden_size=3).embedding.weight
    others = model(embedding_size=3, hidden_size=3, initial="uniform").embedding.weight
    assert 0.5 < strings.abs().max() <= 1  # the square root of 3 / 3
    assert 0.05 < others.abs().max() <= 0.1


def kept_masks(network, **seen):
    """Return the masks of the entries of features and embeddings that dropout kept."""
    torch.manual_seed(2)
    network.train()
    return network(TOKENS).features != 0


def test_output_dropout_is_drawn_for_every_step():
    mask = kept_masks(model(output_dropout=0.5))
    assert not (mask == mask[0]).all()


def test_a_locked_mask_is_shared_by_all_steps_and_drawn_for_each_stream():
    mask = kept_masks(model(output_dropout=0.5, is_locked=True))
    assert (mask == mask[0]).all()
    assert not (mask[0] == mask[0, 0]).all()


def test_raw_has_no_output_dropout():
    network = model(output_dropout=0.5).train()
    result = network(TOKENS)
    left = result.features != 0
    close(result.features[left], 2 * result.raw[left])
    assert (result.raw != 0).all()


def embed(network, tokens):
    return network.drop_words(network.embedding.weight, tokens)


def test_embedding_dropout_drops_all_occurrences_of_a_word():
    network = model(embedding_dropout=0.5).train()
    embedded = embed(network, TOKENS)
    weight = network.embedding.weight
    for word in TOKENS.unique():
        rows = embedded[word == TOKENS]
        expected = 2 * weight[word] if rows[0].any() else torch.zeros_like(weight[word])
        close(rows, expected.expand_as(rows))
    dropped = [not embed(network, TOKENS[:1, :1]).any() for _ in range(400)]
    assert 0.4 < sum(dropped) / 400 < 0.6  # 4 standard deviations


@pytest.mark.parametrize("place", ["input_dropout", "layer_dropout", "output_dropout"])
def test_dropout_acts_only_in_training(place):
    network = model(**{place: 0.5})
    quiet = network.eval()(TOKENS).features
    close(quiet, model()(TOKENS).features)
    torch.manual_seed(0)
    assert not torch.allclose(network.train()(TOKENS).features, quiet)


def test_layer_dropout_is_not_applied_before_the_first_layer():
    network = model(num_layers=1, layer_dropout=0.5)
    quiet = network.eval()(TOKENS).features
    close(network.train()(TOKENS).features, quiet)


def test_layers_of_another_width_have_no_highway():
    network = model(hidden_size=8, num_layers=3, highway=True)
    assert [layer.chain.highway for layer in network.layers] == [False, True, False]


@pytest.mark.parametrize(("changes", "message"), [
    ({"vocabulary_size": 0}, "vocabulary_size is 0; expected a positive integer"),
    ({"hidden_size": 2.0}, "hidden_size is 2.0"),
    ({"output_dropout": 1.0}, "output_dropout is 1.0; expected a number in"),
    ({"cutoffs": (5, 5)}, r"cutoffs is \(5, 5\); expected ascending, above 0 and below 11"),
    ({"cutoffs": (11,)}, "cutoffs is"),
    ({"initial": "ones"}, "initial is 'ones'"),
])  # fmt: skip
def test_values_out_of_range_are_rejected(changes, message):
    with pytest.raises(ArgumentError, match=message):
        LanguageModelConfig(**{"vocabulary_size": WORDS, **changes})


def test_an_option_that_a_cell_lacks_is_rejected():
    with pytest.raises(ArgumentError, match="layer_norm is True"):
        model(cell="torch-lstm", layer_norm=True)


@pytest.mark.parametrize("call", ["forward", "step"])
def test_tokens_must_be_int64_of_the_right_shape(call):
    network = model()
    with pytest.raises(KindError, match=r"tokens is torch\.float32; expected an int64 tensor"):
        getattr(network, call)(torch.zeros(3, 2))
    with pytest.raises(ShapeError, match=r"tokens has shape \(1, 3, 2\)"):
        getattr(network, call)(torch.zeros(1, 3, 2, dtype=torch.int64))
