"""A prediction of a text classifier as an exact sum over the n-grams of the text."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from representer.estimators.text_explanation import ngram_sum
from representer.tasks.text.text_marks import printable
from representer.tasks.text.text_run import TrainedText


@dataclass(frozen=True)
class Contributions:
    """The score of a document, and the contributions that sum to it.

    Attributes:
        label: The predicted class.
        probability: Of the predicted class.
        ngrams: Each n-gram with its contribution, in the order of the text.
        constant: Contribution of the biases.
        score: Logit of the predicted class minus the mean of all logits, from a forward pass of
            the network in float64.
    """

    label: str
    probability: float
    ngrams: list[tuple[str, float]]
    constant: float
    score: float

    @property
    def total(self) -> float:
        """The sum of all contributions."""
        return sum(value for _, value in self.ngrams) + self.constant


def contributions(trained: TrainedText, words: Sequence[str]) -> Contributions:
    """Return the prediction for a document as a sum over its n-grams.

    See `ngram_sum`.

    Args:
        trained: The classifier.
        words: Words of the document, at least one.

    Raises:
        KindError: If the output of the cell is not a sum over the words.
    """
    result = ngram_sum(trained.model, trained.vocabulary.encode(words))
    return Contributions(
        label=trained.classes.decode(result.label),
        probability=result.probability,
        ngrams=[(" ".join(words[t] for t in at), value) for at, value in result.ngrams],
        constant=result.constant,
        score=result.score,
    )


def as_table(result: Contributions, top: int) -> str:
    """Return the contributions as lines, the largest in size first, with their sum.

    Args:
        result: The contributions.
        top: Number of n-grams to list; the others are summed up in one line.
    """
    ordered = sorted(result.ngrams, key=lambda ngram: -abs(ngram[1]))
    rows = [(printable(text), value) for text, value in ordered[:top]]
    if others := ordered[top:]:
        rows.append((f"{len(others)} other n-grams", sum(value for _, value in others)))
    rows += [("biases", result.constant), ("sum", result.total)]
    rows.append((f'score of the network for "{printable(result.label)}"', result.score))
    width = max(len(text) for text, _ in rows)
    return "\n".join(f"  {text:<{width}}  {value:+10.6f}" for text, value in rows)
