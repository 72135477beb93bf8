"""Kernel and network halves of a language model: probabilities, weights, contributions, files."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest
import torch
from safetensors.torch import load_file, save_file
from sklearn.model_selection import GridSearchCV

from language_samples import made_up_text, small_model
from representer.errors import ArgumentError, CheckpointError, DataError
from representer.estimators import LanguageModel, language, language_training
from representer.estimators.halves import Pool
from representer.estimators.language_training import (
    LAST,
    RECENT_TOKENS,
    JointPredictor,
    LanguageKernel,
    NetworkPredictor,
    figures,
    log_likelihoods,
    negative_log_likelihood,
)

TEXT = made_up_text(120)
SMALL = {
    "hidden_size": 8, "unroll": 7, "input_dropout": 0.0, "output_dropout": 0.0, "random_state": 0,
    "verbose": 0, "epochs": 4, "lr": 0.03,
}  # fmt: skip
SIZE = 11
RNG = np.random.default_rng(0)


def topical_text(count):
    """Random tokens, three of ten the topic of their passage, which recent tokens tell."""
    topics = np.repeat(RNG.integers(0, SIZE, count // 100 + 1), 100)[:count]
    return np.where(RNG.random(count) < 0.3, topics, RNG.integers(0, SIZE, count))


@pytest.fixture(scope="session")
def kernel():
    return LanguageKernel.select("word", SIZE, topical_text(2000), topical_text(600))


@pytest.fixture(scope="session", params=["both", "kernel", "network"])
def model(request):
    return LanguageModel(**SMALL, answer=request.param).fit(TEXT)


def test_the_cache_is_kept_where_recent_tokens_tell_the_next(kernel):
    assert kernel.cache > 0.1
    text = topical_text(500)
    plain = LanguageKernel(kernel.kernel, kernel.recent, 0.0)
    assert kernel.likelihoods(text).mean() > plain.likelihoods(text).mean() + 0.02
    known = np.tile(np.arange(SIZE), 50)
    assert LanguageKernel.select("word", SIZE, known, known).cache == 0
    levels = ("word", "char")
    orders = [LanguageKernel.select(level, SIZE, known, known).kernel.order for level in levels]
    assert orders == [5, 8]


def test_the_likelihood_of_a_text_is_that_of_its_distributions(kernel):
    text = topical_text(300)
    logs, _ = kernel.read(torch.from_numpy(text[:-1]))
    assert logs.dtype == torch.float64
    torch.testing.assert_close(logs.exp().sum(1), torch.ones(299).double(), rtol=0, atol=1e-9)
    own = logs[torch.arange(299), text[1:]].numpy()
    np.testing.assert_allclose(own, kernel.likelihoods(text), atol=1e-9)


@pytest.mark.parametrize("name", ["kernel", "network", "both"])
def test_a_text_can_be_read_in_parts_and_some_rows_of_it(kernel, name):
    network = NetworkPredictor(small_model().eval())
    joint = JointPredictor(kernel, network, Pool(0.8, 0.5, 0.5, 0.0))
    predictor = {"kernel": kernel, "network": network, "both": joint}[name]
    text = torch.from_numpy(topical_text(40))
    whole, _ = predictor.read(text)
    state, parts = None, []
    for start, stop in ((0, 1), (1, 2), (2, 17), (17, 40)):
        logs, state = predictor.read(text[start:stop], state)
        parts.append(logs)
    torch.testing.assert_close(torch.cat(parts), whole, rtol=0, atol=1e-9)
    some, after = predictor.read(text, rows=LAST)
    torch.testing.assert_close(some, whole[-1:], rtol=0, atol=1e-9)
    every, _ = predictor.read(text, rows=slice(None, None, 7))
    torch.testing.assert_close(every, whole[::7], rtol=0, atol=1e-9)
    following = torch.tensor([3])
    expected = predictor.read(following, state)[0]
    torch.testing.assert_close(predictor.read(following, after)[0], expected, rtol=0, atol=1e-9)


def test_the_pool_is_the_normalized_product_of_powers(kernel):
    network = NetworkPredictor(small_model().eval())
    text = torch.from_numpy(topical_text(40))
    p, q = (half.read(text)[0].exp() for half in (kernel, network))
    expected = p**0.8 * q**0.5
    found = JointPredictor(kernel, network, Pool(0.8, 0.5, 0.5, 0.0)).read(text)[0].exp()
    torch.testing.assert_close(found, expected / expected.sum(1, keepdim=True))
    alone = JointPredictor(None, network, Pool(0.0, 1.0, 0.0, 0.0))
    torch.testing.assert_close(alone.read(text)[0].exp(), q)
    expected = q.log()[torch.arange(39), text[1:]]
    torch.testing.assert_close(log_likelihoods(alone, text), expected)


def test_probabilities_sum_to_one_for_each_answer(model):
    chances = model.predict_proba(["", "a b", "a b\nd a"])
    assert chances.dtype == np.float64
    np.testing.assert_allclose(chances.sum(1), 1, rtol=0, atol=1e-9)


def test_a_score_is_that_of_each_next_token_for_each_answer(model):
    beginnings = ["", "a", "a b", "a b d", "a b d\n", "a b d\nc", "a b d\nc d"]
    following = ["a", "b", "d", "<eos>", "c", "d", "<eos>"]
    chances = model.predict_proba(beginnings)
    own = [chances[k, model.tokens_.index(token)] for k, token in enumerate(following)]
    assert model.score("\na b d\nc d") == pytest.approx(np.log(own).mean(), rel=1e-5)
    assert model.perplexity("a b d\nc d") == pytest.approx(np.exp(-model.score("a b d\nc d")))


def test_contributions_of_both_halves_sum_to_the_score(model):
    prompts = ["a b\nd a", "", "zz a", "c d a b c d"]
    chances = model.predict_proba(prompts)
    names = {"both": {"kernel", "network"}}.get(model.answer, {model.answer})
    for prompt, row, explanation in zip(prompts, chances, model.explain(prompts), strict=True):
        parts = explanation.contributions
        total = explanation.baseline + sum(part.contribution for part in parts)
        assert total == pytest.approx(explanation.score, abs=1e-9)
        logits = np.log(row)
        assert explanation.score == pytest.approx(logits.max() - logits.mean(), abs=1e-5)
        assert explanation.prediction == model.predict([prompt])[0]
        assert {part.part for part in parts} <= names
        counts = [
            (p.what, p.where) for p in parts if p.part == "kernel" and p.what != RECENT_TOKENS
        ]
        assert len(set(counts)) == len(counts)  # one line per n-gram
        tokens = prompt.replace("zz", "<unk>").replace("\n", " <eos> ").split()
        for what, where in counts:
            own = [tokens[k] for k in where]
            assert what.split() in (own, ["<eos>", *own])  # the text begins after an <eos>


def test_an_n_gram_contributes_the_change_that_its_first_token_makes(kernel):
    text = [2, 3, 4, 2, 3]
    score, constant, parts = kernel.explain(text, [str(k) for k in range(SIZE)], 4)
    one, two = (
        np.log(kernel.kernel.distributions(kernel.kernel.numbers(np.array(text))[:n, -1:])[0])
        for n in (1, 2)
    )
    assert constant == pytest.approx(one[4] - one.mean())
    found = {part.what: part for part in parts}
    assert found["3"].contribution == pytest.approx(two[4] - two.mean() - constant)
    assert found["3"].where == (3,)  # the first token is the <eos> before the text
    assert found["2 3"].where == (2, 3)
    assert found[RECENT_TOKENS].where == (1,)
    logs = kernel.read(torch.tensor(text), rows=LAST)[0][0]
    assert score == pytest.approx((logs[4] - logs.mean()).item())


def test_both_halves_are_fitted_and_weighted():
    both = LanguageModel(**SMALL).fit(TEXT)
    assert both.answer == "both"
    assert both.kernel_.order == 5
    assert both.network_ is not None
    assert both.share_["kernel"] + both.share_["network"] == pytest.approx(1)
    text = made_up_text(40, seed=1)
    tokens = both.inputs_.encode(text.splitlines())
    halves = [both.machine_, NetworkPredictor(both.network_)]
    assert both.score(text) > max(log_likelihoods(half, tokens).mean() for half in halves) - 0.01
    kernel = LanguageModel(**SMALL, answer="kernel").fit(TEXT)
    assert kernel.network_ is None
    assert kernel.history_ == []
    assert kernel.share_ == {"kernel": 1.0, "network": 0.0}
    network = LanguageModel(**SMALL, answer="network").fit(TEXT)
    assert network.kernel_ is None
    for name, weight in both.network_.state_dict().items():
        assert torch.equal(weight, network.network_.state_dict()[name])


def test_a_half_that_adds_nothing_is_dropped():
    """A network that was hardly trained, beside counts that leave nothing open."""
    text = "one two three four five six seven\n" * 400
    both = LanguageModel(**SMALL | {"lr": 1e-9, "epochs": 1}).fit(text)
    assert both.pool_.network == 0
    assert both.share_ == {"kernel": 1.0, "network": 0.0}
    assert {part.part for part in both.explain(["one two"])[0].contributions} == {"kernel"}
    kernel = LanguageModel(**SMALL, answer="kernel").fit(text)
    assert both.score(text) == pytest.approx(kernel.score(text), abs=0.02)  # a temperature


def test_the_weights_do_not_depend_on_what_they_are_reported_on():
    """Counts of the validation text are added after the weights were found."""
    texts = [TEXT, made_up_text(30, seed=2)]
    model = LanguageModel(**SMALL).fit(texts[0], validation=texts[1])
    tokens = [model.inputs_.encode(text.splitlines()).numpy() for text in texts]
    alone = LanguageKernel.select("word", len(model.tokens_), *tokens)
    assert alone.cache == model.machine_.cache
    whole = model.machine_.kernel.tables_[-1].counts.sum()
    assert whole == sum(map(len, tokens)) - 4
    assert alone.kernel.tables_[-1].counts.sum() == len(tokens[0]) - 4


def test_generating_follows_the_probabilities_of_each_answer(model):
    text = model.generate("a b", 8, temperature=0)
    prompt = "a b"
    for piece in model.stream("a b", 8, temperature=0):
        expected = model.predict([prompt])[0]
        assert piece.strip(" ") == ("\n" if expected == "<eos>" else expected)
        prompt += piece
    assert prompt == "a b" + text


def test_a_saved_model_comes_back_for_each_answer(model, tmp_path):
    model.save(tmp_path / "run")
    loaded = LanguageModel.load(tmp_path / "run")
    assert loaded.score(TEXT) == model.score(TEXT)
    assert loaded.share_ == model.share_
    assert str(loaded.explain(["a b"])[0]) == str(model.explain(["a b"])[0])
    assert not list((tmp_path / "run").glob("*.pkl"))
    names = {path.name for path in (tmp_path / "run").iterdir()}
    assert ("model.safetensors" in names) == (model.answer != "kernel")
    assert ("kernel.safetensors" in names) == (model.answer != "network")


@pytest.mark.parametrize(("change", "message"), [
    (lambda t: t | {"counts.1": -t["counts.1"]}, "do not fit their counts"),
    (lambda t: t | {"tokens.2": t["tokens.2"] + 100}, "unknown or not sorted"),
    (lambda t: t | {"starts.2": t["starts.2"] * 2**40}, "do not fit their contexts"),
    (lambda t: {n: own for n, own in t.items() if n != "tokens.3"}, "of each order"),
    (lambda t: t | {"tokens.6": t["tokens.5"].clone()}, "of each order"),
    (lambda t: t | {"counts.2": t["counts.2"].double()}, "no integers"),
])  # fmt: skip
def test_damaged_counts_are_refused(tmp_path, change, message):
    LanguageModel(**SMALL, answer="kernel").fit(TEXT).save(tmp_path / "run")
    path = tmp_path / "run" / "kernel.safetensors"
    save_file(change(load_file(path)), path)
    with pytest.raises((CheckpointError, DataError), match=f"SHA-256|{message}"):
        LanguageModel.load(tmp_path / "run")
    (tmp_path / "run" / "manifest.json").unlink()
    with pytest.raises((CheckpointError, DataError), match=message):
        LanguageModel.load(tmp_path / "run")


def test_what_needs_a_network_says_so(tmp_path):
    kernel = LanguageModel(**SMALL, answer="kernel").fit(TEXT)
    kernel.save(tmp_path / "run")
    warm = LanguageModel(**SMALL, warm_start=str(tmp_path / "run"))
    with pytest.raises(ArgumentError, match=r"warm_start is .*; expected a run with a network"):
        warm.fit(TEXT)
    assert LanguageModel(**SMALL, answer="kernel", warm_start=str(tmp_path / "run")).fit(TEXT)
    with pytest.raises(ArgumentError, match="answer is 'all'; expected one of both, kernel"):
        LanguageModel(answer="all").fit(TEXT)


def test_scikit_learn_searches_over_answers():
    grid = {"answer": ["kernel", "network"]}
    search = GridSearchCV(LanguageModel(**SMALL | {"epochs": 1}), grid, cv=2)
    assert search.fit(TEXT.splitlines()).best_params_ == {"answer": "kernel"}


# Perplexity: the mean over a text read as a whole, whatever the segments.


TOKENS = torch.randint(11, (50,), generator=torch.Generator().manual_seed(0))


def word_by_word(model, tokens):
    total, state = 0.0, None
    for now, later in pairwise(tokens):
        logs, state = model.step(now[None], state)
        total -= logs[0, later].item()
    return total / (len(tokens) - 1)


@pytest.mark.parametrize("segment", [1, 7, 256])
def test_the_state_is_carried_through_the_whole_text(monkeypatch, segment):
    monkeypatch.setattr(language_training, "SEGMENT", segment)
    model = small_model().eval()
    found = negative_log_likelihood(model, TOKENS)
    assert found == pytest.approx(word_by_word(model, TOKENS), rel=1e-12)


def test_streams_start_anew_each():
    model = small_model().eval()
    halves = [word_by_word(model, TOKENS[:25]), word_by_word(model, TOKENS[24:49])]
    found = negative_log_likelihood(model, TOKENS, rows=2)
    assert found == pytest.approx(sum(halves) / 2, rel=1e-12)


def test_a_signal_is_looked_for_after_every_segment(monkeypatch):
    monkeypatch.setattr(language_training, "SEGMENT", 10)
    asked = []
    negative_log_likelihood(small_model().eval(), TOKENS, check=lambda: asked.append(1))
    assert len(asked) == 5


def test_more_streams_than_tokens_are_as_many_as_there_can_be():
    model = small_model().eval()
    assert negative_log_likelihood(model, TOKENS[:3], rows=10) > 0


def test_the_figures_of_words_and_of_characters():
    assert figures(math.log(8), 9, "word") == {
        "tokens": 9, "loss": math.log(8), "perplexity": pytest.approx(8),
    }  # fmt: skip
    assert figures(math.log(8), 9, "char")["bits_per_character"] == pytest.approx(3)


def test_the_counts_come_before_the_network_and_both_are_no_worse(capsys, monkeypatch):
    said, train = [], language.train

    def trained(*arguments, **options):
        said.append(capsys.readouterr().err)
        return train(*arguments, **options)

    monkeypatch.setattr(language, "train", trained)
    texts = [TEXT, made_up_text(30, seed=2)]
    model = LanguageModel(**SMALL | {"verbose": 1}).fit(texts[0], validation=texts[1])
    assert "the n-gram counts alone: valid_perplexity" in said[0]
    assert model.pool_.loss <= model.pool_.kernel_loss
