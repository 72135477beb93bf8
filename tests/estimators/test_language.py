"""`LanguageModel`: texts, perplexity, sampling, contributions to the next token, saving."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from functools import partial

import numpy as np
import pytest
import torch
from fitted_examples import LANGUAGE as SMALL
from fitted_examples import LINES, fitted
from sklearn.exceptions import NotFittedError

from both_halves import assert_sums
from language_samples import made_up_text, small_model
from representer import estimators
from representer.data.language import count_tokens
from representer.errors import ArgumentError, DataError, KindError
from representer.estimators import LanguageModel, language_training
from representer.estimators.language_training import (
    LanguageInputs,
    NetworkPredictor,
    available,
    check_memory,
    hold_out,
    lines_of,
)
from representer.options.language import LanguageParameters

TEXT = "".join(f"{line}\n" for line in LINES)


@pytest.fixture
def model() -> LanguageModel:
    return fitted("LanguageModel")


def test_it_learns_which_word_follows(model):
    assert model.tokens_[:2] == ("<eos>", "<unk>")
    # 2.86 from the token before alone: 1 of 8 is one of 4; else <eos> 1 of 7 times, or one of 2
    assert model.perplexity(made_up_text(40, seed=1)) < 2.86
    assert model.score(TEXT) == pytest.approx(-np.log(model.perplexity(TEXT)))
    chances = model.predict_proba(["a", "a b\nd"])
    np.testing.assert_allclose(chances.sum(1), 1)
    following = {model.tokens_[k] for k in chances[1].argsort()[-2:]}
    assert following == {"a", "b"}
    assert model.predict(["a", "a b\nd"]).tolist()[1] in following


def test_a_text_is_a_string_a_path_or_lines(tmp_path):
    path = tmp_path / "text.txt"
    path.write_text("a b\r\n\nc", encoding="latin-1", newline="")
    lines = [line.rstrip("\r\n") for line in lines_of(path, "latin-1")]
    assert lines == ["a b", "", "c"]
    assert lines_of("a b\n\nc", "utf-8") == ["a b\n", "\n", "c"]
    assert lines_of(iter(["a b", "", "c\nd"]), "utf-8") == ["a b", "", "c\n", "d"]
    fitted = [LanguageModel(**SMALL, epochs=1).fit(text) for text in (TEXT, TEXT.splitlines())]
    assert fitted[0].score(TEXT) == fitted[1].score(TEXT)


def test_tokens_are_those_of_the_training_text_by_frequency():
    inputs = LanguageInputs.from_counts(count_tokens(["b a a"], "word"), "word", 1, 0)
    assert inputs.vocabulary.words == ("<eos>", "<unk>", "a", "b")
    assert inputs.encode(["b a a", "a c"]).tolist() == [3, 2, 2, 0, 2, 1, 0]
    for rule in ((2, 0), (1, 3)):
        rare = LanguageInputs.from_counts(count_tokens(["a a b"], "word"), "word", *rule)
        assert rare.encode(["a a b"]).tolist() == [2, 2, 1, 0]
    char = LanguageInputs.from_counts(count_tokens(["ab a"], "char"), "char", 1, 0)
    words = [char.vocabulary.words[i] for i in char.encode(["ab a"])]
    assert words == ["a", "b", " ", "a", "<eos>"]


def test_the_end_of_the_text_is_held_out():
    assert hold_out(list("abcdefghij"), 0.2, "word") == (list("abcdefgh"), ["i", "j"])
    assert hold_out(["a b c d e f g h i j"], 0.2, "word") == (["a b c d e f g h"], ["i j"])
    assert hold_out(["abcde"], 0.2, "char") == (["abcd"], ["e"])
    held_out = TEXT + "new words " * 100
    assert "new" not in LanguageModel(**SMALL, epochs=1).fit(held_out).tokens_
    own = LanguageModel(**SMALL, epochs=3, lr=0.03).fit(TEXT, validation="a a a a\n" * 20)
    assert own.history_[-1]["valid_loss"] > 1.5 * -own.score(TEXT)


def test_generating_is_repeatable_and_keeps_lines(model):
    text = model.generate("a b", 60, random_state=0)
    assert text == model.generate("a b", 60, random_state=0) != model.generate("a b", 60)
    assert text.startswith((" ", "\n"))
    assert text == "".join(model.stream("a b", 60, random_state=0))
    assert not model.generate("", 5, random_state=0).startswith(" ")
    assert "<" not in text
    greedy = model.generate("a b", 3, temperature=0).split(" ")
    assert greedy[1] == model.predict(["a b"])[0]
    char = LanguageModel(**SMALL, level="char", epochs=1).fit(TEXT)
    assert len(char.generate("a", 20, random_state=0)) == 20


@pytest.mark.parametrize("options", [
    {},
    {"order": 2, "decay": 0.7, "highway": False},
    {"cell": "rkm-lstm", "num_layers": 1, "filter_length": 2},
    {"cell": "rkm-cifg", "layer_norm": True, "embedding_size": 5},
])  # fmt: skip
def test_contributions_of_tokens_sum_to_the_score_of_the_next(options):
    model = LanguageModel(**SMALL | options, epochs=1, answer="network").fit(TEXT)
    prompts = ["a b\nd a", ""]
    chances = model.predict_proba(prompts)
    for prompt, row, explanation in zip(prompts, chances, model.explain(prompts), strict=True):
        assert_sums(explanation, abs=1e-9)
        logits = np.log(row)
        assert explanation.score == pytest.approx(logits.max() - logits.mean(), abs=1e-5)
        assert explanation.prediction == model.predict([prompt])[0]
        places = {c.what: c.where for c in explanation.contributions}
        if prompt and model.order == 2:
            assert places["a b"] == (0, 1)
            assert places["a … d"] == (0, 3)
        elif prompt and model.filter_length == 1:
            assert places["b"] == (1,)
            assert len(places) == 4  # "a" and "<eos>" occur twice
        elif prompt:
            assert places["a b"] == (0, 1)
            assert places["<eos> a"] == (0,)


def test_what_has_no_contributions_says_so():
    small = SMALL | {"epochs": 1, "answer": "network"}
    lstm = LanguageModel(**small, cell="lstm").fit(TEXT)
    with pytest.raises(KindError, match="sum over the steps"):
        lstm.explain(["a"])
    adaptive = LanguageModel(**small, cutoffs=(3,)).fit(TEXT)
    with pytest.raises(KindError, match="without cutoffs"):
        adaptive.explain(["a"])


def test_parameters_that_are_lists_are_saved(tmp_path):
    LanguageModel(**SMALL, epochs=1, cutoffs=[3, 4]).fit(TEXT).save(tmp_path / "run")
    assert estimators.load(tmp_path / "run").cutoffs == (3, 4)
    warm = LanguageModel(**SMALL, epochs=1, warm_start=str(tmp_path / "run"))
    with pytest.raises(ArgumentError, match=r"warm_start is .*; expected a run whose network has"):
        warm.fit(TEXT)
    with pytest.raises(ArgumentError, match="level is 'char'; expected 'word', as in"):
        warm.set_params(level="char").fit(TEXT)


def test_callbacks_and_an_optimizer_that_averages():
    seen: list[dict] = []
    LanguageModel(**SMALL, epochs=2, optimizer="asgd", callbacks=[seen.append]).fit(TEXT)
    assert [row["epoch"] for row in seen] == [1, 2]
    assert seen[-1]["averaged_steps"] == seen[-1]["step"]


def test_unknown_tokens_are_named(model, capsys):
    model.set_params(verbose=1).predict(["a z\nzz z"])
    assert "unknown tokens, read as <unk>: 'z', 'zz'" in capsys.readouterr().err
    model.set_params(verbose=0)


@pytest.mark.parametrize(("text", "message"), [
    (["a b", 7], r"text\[1\] is 7 of type int; expected a line"), (7, "the text is a int"),
    ("a b", "the training text has 2 token"), ("", "no token occurs 1 times"),
    ("\n" * 50, "no token occurs 1 times"),
])  # fmt: skip
def test_texts_that_cannot_be_used_are_named(text, message):
    with pytest.raises(DataError, match=message):
        LanguageModel(**SMALL).fit(text)


def test_arguments_are_checked(model):
    with pytest.raises(ArgumentError, match="cutoffs is '3,4'; expected a sequence of integers"):
        LanguageModel(cutoffs="3,4").fit(TEXT)
    with pytest.raises(ArgumentError, match="monitor is 'accuracy'; expected one of auto, loss"):
        LanguageModel(monitor="accuracy").fit(TEXT)
    with pytest.raises(ArgumentError, match="length is 0; expected a positive integer"):
        model.generate("a", 0)
    with pytest.raises(DataError, match="X is one string"):
        model.predict("a b")
    for blank in ("", "\n\n", " \n\n\t\n"):
        with pytest.raises(DataError, match=r"no token to predict.*with a word in it"):
            model.score(blank)
    with pytest.raises(DataError, match="the validation text has blank lines alone"):
        LanguageModel().fit(TEXT, validation="\n\n\n")
    with pytest.raises(NotFittedError):
        LanguageModel().score(TEXT)
    with pytest.raises(NotFittedError):
        LanguageModel().explain(["a b"])


# A vocabulary that does not fit is refused before anything is made; a long text takes no more.


def test_too_many_tokens_are_refused_with_how_much_they_need():
    parameters = LanguageParameters(hidden_size=400)
    with pytest.raises(
        ArgumentError, match=r"5,000,000 tokens of 400 .* 63\.9 GiB .* 2\.0 GiB are"
    ):
        check_memory(parameters, 5_000_000, 2 * 2**30)


def test_what_fits_is_let_through_and_so_is_a_system_that_does_not_say():
    parameters = LanguageParameters(hidden_size=400, optimizer="adam")
    # six copies of a vector and a bias of each token; 512 rows of the softmax and its gradient
    needed = 10_000 * (6 * 401 * 4 + 2 * 512 * 4)
    check_memory(parameters, 10_000, needed)
    with pytest.raises(ArgumentError, match="10,000 tokens of 400"):
        check_memory(parameters, 10_000, needed - 1)
    check_memory(parameters, 10**12, None)


def test_this_system_says_more_than_nothing():
    free, pages = available(), os.sysconf("SC_PHYS_PAGES")
    machine = pages * os.sysconf("SC_PAGE_SIZE")
    assert free is None or machine / 500 < free <= machine


_READ = """
import resource, torch
from representer.estimators.language_training import NetworkPredictor, log_likelihoods
from representer.models import LanguageNetwork, LanguageModelConfig

sizes = LanguageModelConfig(vocabulary_size=10_000, embedding_size=100, hidden_size=100)
predictor = NetworkPredictor(LanguageNetwork(sizes).eval())

def most(tokens):
    log_likelihoods(predictor, torch.zeros(tokens, dtype=torch.long))
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss  # KiB

print(most(1_000), most(4_000))
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="peaks of memory have another unit")
def test_a_longer_text_takes_no_more_memory():
    """A part has 20 MB in float64; the little that was kept of each once held 70 MB of memory."""
    ran = subprocess.run([sys.executable, "-c", _READ], capture_output=True, text=True)
    assert ran.returncode == 0, ran.stderr
    short, long = map(int, ran.stdout.split())
    assert long - short < 70 * 2**10  # KiB; it was 210 * 2**10


# Drawing tokens: by their probabilities, repeatably, in constant memory.


MODEL = small_model().eval()
generate = partial(language_training.generate, NetworkPredictor(MODEL), size=11)


@torch.no_grad()
def chances(prompt):
    state, logs = None, torch.zeros(0)
    for token in prompt:
        logs, state = MODEL.step(torch.tensor([token]), state)
    return logs[0].exp()


def test_no_temperature_takes_the_likeliest_at_every_step():
    drawn = list(generate([0, 3], 6, temperature=0))
    for n, token in enumerate(drawn):
        assert token == int(chances([0, 3, *drawn[:n]]).argmax())


def test_tokens_are_drawn_by_their_probabilities():
    many = 500
    found = Counter(next(generate([0, 3], 1, seed=seed)) for seed in range(many))
    expected = chances([0, 3])
    deviation = (expected * (1 - expected) / many).sqrt()
    share = torch.tensor([found[token] / many for token in range(11)])
    assert ((share - expected).abs() < 4.5 * deviation).all()  # 1 in 10,000 for 11 tokens


def test_a_low_temperature_sharpens():
    first = int(chances([0, 3]).argmax())
    hits = [
        sum(next(generate([0, 3], 1, temperature=t, seed=s)) == first for s in range(60))
        for t in (1e-3, 1.0)
    ]
    assert hits[0] == 60 > hits[1]


def test_top_p_draws_from_the_likeliest_that_reach_it():
    ordered, tokens = chances([0, 3]).sort(descending=True)
    reach = float(ordered[:3].sum()) - 1e-9  # the third is needed, the fourth is not
    found = {next(generate([0, 3], 1, top_p=reach, seed=s)) for s in range(100)}
    assert found == set(tokens[:3].tolist())
    tiny = {next(generate([0, 3], 1, top_p=1e-9, seed=s)) for s in range(20)}
    assert tiny == {int(tokens[0])}


def test_some_tokens_are_never_drawn():
    never = [int(t) for t in chances([0]).sort(descending=True).indices[:10]]
    assert set(generate([0], 30, never=never)) == set(range(11)) - set(never)


def test_a_seed_draws_the_same_and_another_draws_others():
    texts = [list(generate([0], 40, seed=seed)) for seed in (1, 1, 2)]
    assert texts[0] == texts[1] != texts[2]


def test_the_global_random_state_is_left_alone():
    before = torch.get_rng_state()
    list(generate([0], 3))
    assert torch.equal(before, torch.get_rng_state())


@pytest.mark.parametrize(("options", "message"), [
    ({"prompt": []}, "prompt is \\[\\]; expected at least one token"),
    ({"count": 0}, "tokens is 0; expected 1 or more"),
    ({"temperature": -1}, "temperature is -1; expected 0 or more"),
    ({"temperature": float("nan")}, "temperature is nan"),
    ({"top_p": 0}, "top_p is 0; expected above 0 and up to 1"),
    ({"top_p": 1.5}, "top_p is 1.5"),
    ({"never": range(11)}, "not all tokens"),
])  # fmt: skip
def test_invalid_options_are_rejected_before_sampling(options, message):
    with pytest.raises(ArgumentError, match=message):
        generate(**{"prompt": [0], "count": 1, **options})
