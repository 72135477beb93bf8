"""One kind of objects in the live view: how it is typed, drawn and changed."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from representer.estimators.explanation import Explanation
from representer.serving.served_model import ServedModel

Json = dict[str, Any]


class Change(NamedTuple):
    """An object with one of its places changed.

    Attributes:
        name: What stands at the place now.
        input: The changed object, as it is typed.
    """

    name: str
    input: str


class Sums(NamedTuple):
    """The contributions at one place.

    Attributes:
        raises: The sum of the positive ones.
        lowers: The sum of the negative ones.
    """

    raises: float
    lowers: float


def by_place(explanation: Explanation, count: int) -> list[Sums]:
    """Return the contributions at each place, those of several places in equal parts.

    Args:
        explanation: The explanation.
        count: Number of places, which ``where`` counts.
    """
    raises, lowers = [0.0] * count, [0.0] * count
    for one in explanation.contributions:
        for place in one.where:
            own = raises if one.contribution > 0 else lowers
            own[place] += one.contribution / len(one.where)
    return [Sums(*both) for both in zip(raises, lowers, strict=True)]


class Kind:
    """One kind of objects; a subclass describes its places and draws it.

    Args:
        model: The model.

    Attributes:
        prompt: Label of the field in which an object is typed; empty if objects are only chosen.
        place: What an object is made of: "word".
        sample: An object to begin with if there are no examples.
    """

    prompt: str = ""
    place: str = ""
    sample: str = ""
    meaning: str = (
        "The score of a class is its logit minus the mean of all logits. The constant and the "
        "contributions sum to it."
    )

    def __init__(self, model: ServedModel) -> None:
        self.model = model

    @property
    def has_changes(self) -> bool:
        """True if something else can stand at a place."""
        return False

    def read(self, typed: Any) -> Any:
        """Return a typed object as the estimator takes it."""
        return self.model.read([typed])[0]

    def typed(self, one: Any) -> Any:
        """Return an object as it is typed; None if it cannot be."""
        return one

    def predict(self, one: Any) -> Json:
        """Return the prediction for an object, as `ServedModel.predict` does."""
        return self.model.predict([one])[0]

    def places(self, one: Any) -> Sequence[str]:
        """Return the names of the places of an object, such as its words."""
        return ()

    def picture(self, one: Any, explanation: Explanation) -> Json:
        """Return what is drawn besides the places."""
        return {}

    def changes(self, one: Any, place: int) -> Iterable[Change]:
        """Return objects that differ in one place."""
        return ()
