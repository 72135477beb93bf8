"""Texts in the live view: their words, other words in their place, and next words."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from representer.data.text import tokenize
from representer.serving.live.kind import Change, Json, Kind

TRIED = 2000  # words that are tried at a place, the most frequent ones of the training
READ = 200_000  # words of all texts that are tried
NEXT = 10  # next words that are shown


class Texts(Kind):
    """Texts to classify."""

    prompt = "Text"
    place = "word"

    @property
    def has_changes(self) -> bool:
        """True if other words can be tried."""
        return True

    def places(self, one: str) -> Sequence[str]:
        """Return the words of a text."""
        return tokenize(one, self.model.estimator.inputs_.tokenizer)

    def changes(self, one: str, place: int) -> Iterable[Change]:
        """Return texts with another word, or none, in a place; words are separated by blanks."""
        words, vocabulary = list(self.places(one)), self.model.estimator.inputs_.vocabulary
        first = len(vocabulary.MARKS)
        before, after = words[:place], words[place + 1 :]
        if before or after:
            yield Change("(no word)", " ".join([*before, *after]))
        tried = min(TRIED, READ // max(1, len(words)))
        for word in vocabulary.words[first : first + tried]:
            if word != words[place]:
                yield Change(word, " ".join([*before, word, *after]))


class Beginnings(Kind):
    """Beginnings of texts, of which a language model predicts the next word."""

    prompt = "Beginning of a text"
    place = "token"
    sample = "the"
    meaning = (
        "The score is the logit of the most probable next token minus the mean of all logits. The "
        "constant and the contributions sum to it."
    )

    def places(self, one: str) -> Sequence[str]:
        """Return the tokens of a text; line ends are ``<eos>``."""
        inputs = self.model.estimator.inputs_
        return [inputs.vocabulary.words[k] for k in inputs.encode_prompt(one)[1:]]

    def predict(self, one: str) -> Json:
        """Return the most probable next tokens, and the text after each."""
        estimator = self.model.estimator
        chances = estimator.predict_proba([one])[0]
        best = np.argsort(-chances, kind="stable")[:NEXT].tolist()
        joint = " " if estimator.inputs_.level == "word" and one[-1:].strip() else ""
        words = estimator.tokens_
        following = [
            {"token": words[k], "probability": float(chances[k]),
             "input": one + ("\n" if k == estimator.inputs_.vocabulary.END else joint + words[k])}
            for k in best
        ]  # fmt: skip
        return {"prediction": words[best[0]], "next": following}
