"""The parts of an estimator, and an explained prediction: contributions that sum to the score."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

KERNEL, NETWORK, BOTH = "kernel", "network", "both"


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
        what: An n-gram, a walk, a filter, in words.
        where: Positions of the words, atoms or steps.
        part: ``"kernel"`` or ``"network"``.
        contribution: The summand.
    """

    what: str
    where: tuple[int, ...]
    part: str
    contribution: float


@dataclass(frozen=True)
class Explanation:
    """A prediction, and the contributions that sum to its score.

    Attributes:
        prediction: The predicted label or number.
        score: Score before the link function: of a class, its logit minus the mean of all logits;
            of a number, the number. It is computed by the network, not from the contributions.
        baseline: The summand that no part of the input contributes.
        contributions: All summands but the baseline, the largest in size first.
        listed: Number of contributions to show.
    """

    prediction: Any
    score: float
    baseline: float
    contributions: tuple[Contribution, ...]
    listed: int = 10

    def __str__(self) -> str:
        """Return the contributions as a table."""
        shown = self.contributions[: self.listed]
        rows = [(c.what, c.contribution) for c in shown]
        if others := self.contributions[self.listed :]:
            rows.append((f"{len(others)} others", sum(c.contribution for c in others)))
        rows += [("baseline", self.baseline), ("score", self.score)]
        width = max(len(name) for name, _ in rows)
        lines = [f"{name:<{width}}  {value:+10.6f}" for name, value in rows]
        return "\n".join([f"prediction: {self.prediction}", *lines])
