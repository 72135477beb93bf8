"""The parts of an estimator, and an explained prediction: contributions that sum to the score."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

KERNEL, NETWORK, BOTH = "kernel", "network", "both"


class Example(NamedTuple):
    """An object to choose for an explanation.

    Attributes:
        name: Its number and its label.
        group: What it belongs to, such as a recording; empty if there are no groups.
        value: The object, as the estimator takes it.
    """

    name: str
    group: str
    value: Any


class Part(NamedTuple):
    """A fitted part of an estimator.

    Attributes:
        share: Its part of the spread of the scores, between 0 and 1; 0 if it was dropped.
        seconds: Time of fitting; None where it was not measured, as after `load`.
    """

    share: float
    seconds: float | None


class Contribution(NamedTuple):
    """A summand of a score.

    Attributes:
        what: An n-gram, a walk, a band, in words and without its place: contributions with the same
            name make one line of an explanation.
        where: Positions of the words, atoms or steps.
        part: ``"kernel"`` or ``"network"``.
        contribution: The summand.
    """

    what: str
    where: tuple[int, ...]
    part: str
    contribution: float


class Line(NamedTuple):
    """The contributions of one n-gram, walk or band, summed over its places and units.

    Attributes:
        what: Its name.
        places: The positions of each place.
        kernel: The contribution of the kernel.
        network: The contribution of the network.
    """

    what: str
    places: tuple[tuple[int, ...], ...]
    kernel: float
    network: float

    @property
    def contribution(self) -> float:
        """The contribution of both parts."""
        return self.kernel + self.network


@dataclass(frozen=True)
class Explanation:
    """A prediction, and the contributions that sum to its score.

    Attributes:
        prediction: The predicted label or number.
        score: Score before the link function: of a class, its logit minus the mean of all logits;
            of a number, the number. It is computed by the network, not from the contributions.
        baseline: The summand that no part of the input contributes.
        contributions: All summands but the baseline, the largest in size first.
        listed: Number of lines to show.
    """

    prediction: Any
    score: float
    baseline: float
    contributions: tuple[Contribution, ...]
    listed: int = 10

    @property
    def lines(self) -> list[Line]:
        """The contributions summed by what they are of, the largest in size first."""
        sums: dict[str, dict[str, float]] = {}
        places: dict[str, dict[tuple[int, ...], None]] = {}
        for one in self.contributions:
            own = sums.setdefault(one.what, {KERNEL: 0.0, NETWORK: 0.0})
            own[one.part] += one.contribution
            places.setdefault(one.what, {})[one.where] = None
        lines = [Line(what, tuple(sorted(places[what])), **own) for what, own in sums.items()]
        return sorted(lines, key=lambda line: -abs(line.contribution))

    def by_place(self, count: int) -> list[float]:
        """Return the contribution of each word or node, of n-grams and walks in equal parts.

        Args:
            count: Number of words or nodes.
        """
        values = [0.0] * count
        for one in self.contributions:
            for place in one.where:
                values[place] += one.contribution / len(one.where)
        return values

    def marks(self, words: Sequence[str]) -> dict[str, Any]:
        """Return the words of a text, with what a report marks in it.

        Returns:
            ``words``; ``by_word``, the contribution of each; ``strengths``, the same relative to
            the largest; and ``marked``, whether a word is in one of the listed lines.
        """
        values = self.by_place(len(words))
        listed = {t for line in self.lines[: self.listed] for at in line.places for t in at}
        largest = max(map(abs, values), default=0.0) or 1.0
        return {
            "words": list(words),
            "by_word": values,
            "strengths": [value / largest for value in values],
            "marked": [t in listed for t in range(len(words))],
        }

    def entry(self, noun: str, row: int, prediction: str) -> dict[str, Any]:
        """Return the explanation as plain values, for explanations.json and reports."""
        shown, others = self.lines[: self.listed], self.lines[self.listed :]
        return {
            "noun": noun,
            "row": row,
            "prediction": prediction,
            "score": float(self.score),
            "constant": float(self.baseline),
            "parts": sorted({one.part for one in self.contributions}),
            "contributions": [
                {
                    "what": line.what,
                    "places": [list(place) for place in line.places],
                    KERNEL: float(line.kernel),
                    NETWORK: float(line.network),
                    "contribution": float(line.contribution),
                }
                for line in shown
            ],
            "others": {
                "count": len(others),
                "contribution": float(sum(line.contribution for line in others)),
            },
        }

    def __str__(self) -> str:
        """Return the lines as a table."""
        shown, others = self.lines[: self.listed], self.lines[self.listed :]
        rows = [(line.what, line.contribution) for line in shown]
        if others:
            rows.append((f"{len(others)} others", sum(line.contribution for line in others)))
        rows += [("baseline", self.baseline), ("score", self.score)]
        width = max(len(name) for name, _ in rows)
        lines = [f"{name:<{width}}  {value:+10.6f}" for name, value in rows]
        return "\n".join([f"prediction: {self.prediction}", *lines])
