"""The page of the live view and its requests, added to the HTTP interface of a model."""

from __future__ import annotations

import secrets
import warnings
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import torch
from fastapi import FastAPI, Request, Response
from pydantic import BaseModel, Field

from representer.errors import ArgumentError, KindError, MissingExtraError
from representer.estimators import LanguageModel
from representer.estimators.explanation import Example, Explanation, Line
from representer.estimators.targets import centered
from representer.serving.answers import Answers, Job, Reply, encoded, parsed
from representer.serving.app import answered, body_of, create_app, page_of
from representer.serving.limits import Limits
from representer.serving.live.kinds import (
    Beginnings,
    Json,
    Kind,
    LiveGraphs,
    Molecules,
    Signals,
    Texts,
    by_place,
)
from representer.serving.served_model import ServedModel

if TYPE_CHECKING:
    from jinja2 import Template


# The answers of the live view: a prediction, its contributions, and what would change it.

KINDS: dict[str, type[Kind]] = {
    "text": Texts, "language": Beginnings, "molecule": Molecules, "graph": LiveGraphs,
    "signal": Signals,
}  # fmt: skip
NUMBER = "The score is the predicted number. The constant and the contributions sum to it."
LISTED = 10  # contributions, or changes, of each sign


class LiveView:
    """Explains objects that are typed or chosen.

    Args:
        model: The model.
        examples: Objects to choose.

    Raises:
        KindError: There is no live view for the task of the model.
    """

    def __init__(self, model: ServedModel, examples: Sequence[Example] = ()) -> None:
        if model.task not in KINDS:
            expected = f"one of {', '.join(KINDS)}, which have a live view"
            raise KindError("the task of the run", model.task, expected)
        self.model, self.examples, self.kind = model, examples, KINDS[model.task](model)
        if isinstance(model.estimator, LanguageModel):
            model.estimator.set_params(verbose=0)  # unknown words are marked, not printed

    def __reduce__(self) -> tuple[Any, ...]:
        """Return how another process loads the view."""
        return LiveView, (self.model, self.examples)

    def describe(self) -> Json:
        """Return what the page needs before something is chosen."""
        live = self.kind
        examples = [
            {"name": example.name, "group": example.group, "input": live.typed(example.value)}
            for example in self.examples
        ]
        meaning = live.meaning if self.model.classes or live.place == "token" else NUMBER
        about = {
            "prompt": live.prompt, "place": live.place, "sample": live.sample, "meaning": meaning,
            "has_changes": live.has_changes,
        }  # fmt: skip
        return self.model.describe() | about | {"examples": examples}

    def find(self, typed: Any, number: int | None) -> Any:
        """Return a typed object, or the one of an example, as the estimator takes it.

        Raises:
            DataError: It cannot be used.
            ArgumentError: There is no such example.
        """
        if number is None:
            if not self.kind.prompt:
                raise ArgumentError("example", None, "the number of an example")
            return self.kind.read(typed)
        if not 0 <= number < len(self.examples):
            expected = f"a number below {len(self.examples)}"
            raise ArgumentError("example", number, expected)
        return self.examples[number].value

    def explain(self, one: Any) -> Json:
        """Return the prediction for an object, and the contributions that sum to its score.

        ``score`` is ``constant`` plus the ``sum`` of what ``raises`` and of what ``lowers`` it;
        and it is ``constant`` plus ``elsewhere`` plus both sums at each of the ``places``.

        Raises:
            DataError: The object cannot be used.
            KindError: The model has no contributions.
        """
        with warnings.catch_warnings(record=True) as raised:
            warnings.simplefilter("always", UserWarning)
            prediction = self.kind.predict(one)
            (explanation,) = self.model.estimator.explain([one])
        picture = self.kind.picture(one, explanation)
        notes = [*(str(each.message) for each in raised), *picture.pop("notes", ())]
        notes += self.kind.notes(one)
        names, lines = self.kind.places(one), explanation.lines
        return {
            "prediction": prediction,
            "notes": list(dict.fromkeys(notes)),
            "score": float(explanation.score),
            "constant": float(explanation.baseline),
            "parts": sorted({each.part for each in explanation.contributions}),
            "raises": _listed([line for line in lines if line.contribution > 0]),
            "lowers": _listed([line for line in lines if line.contribution <= 0]),
            "places": [
                {"name": name, **sums._asdict()}
                for name, sums in zip(names, by_place(explanation, len(names)), strict=True)
            ]
            if names
            else [],
            "nouns": explanation.nouns,
            "by_place": _by_size(explanation),
            "elsewhere": sum(c.contribution for c in explanation.contributions if not c.where),
            **picture,
        }

    def change(self, one: Any, place: int) -> Json:
        """Return what the score becomes if another thing stands at a place of an object.

        Every change is predicted by the whole model. The score is that of the class that is
        predicted without a change.

        Raises:
            ArgumentError: There is no such place.
        """
        names = self.kind.places(one)
        if not 0 <= place < len(names):
            raise ArgumentError("place", place, f"a number below {len(names)}")
        changes = list(self.kind.changes(one, place))
        scores, labels = self._scored([one, *(self.kind.read(change.input) for change in changes)])
        rows = [
            {"name": change.name, "input": change.input, "label": label, "score": score,
             "change": score - scores[0]}
            for change, score, label in zip(changes, scores[1:], labels[1:], strict=True)
        ]  # fmt: skip
        rows.sort(key=lambda row: row["change"])
        largest = {
            "raises": [row for row in rows[: -LISTED - 1 : -1] if row["change"] > 0],
            "lowers": [row for row in rows[:LISTED] if row["change"] < 0],
        }
        return {"name": names[place], "tried": len(rows), "of": labels[0], **largest}

    def _scored(self, objects: Sequence[Any]) -> tuple[list[float], list[str]]:
        """Return the scores that `explain` explains for the first object, and predicted labels."""
        estimator = self.model.estimator
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", UserWarning)  # `explain` has shown it
            scores, _ = estimator.checked_moments(objects)[0]
        scale, offset = estimator.target_.unit
        column = scale * centered(torch.from_numpy(scores.T))[scores[0].argmax()] + offset
        names = (self.model.classes or [[""]])[0]
        return column.tolist(), [names[k] for k in scores.argmax(axis=1).tolist()]


def _by_size(explanation: Explanation) -> list[Json]:
    """Return what each place contributes, the largest first."""
    rows = replace(explanation, listed=len(explanation.by_place)).rows()[:-2]
    return [{name: row[name] for name in ("what", "contribution")} for row in rows]


def _listed(lines: Sequence[Line]) -> Json:
    """Return the first lines, the number of all and their sum."""
    rows = [
        {"what": line.what, "places": line.places, "kernel": float(line.kernel),
         "network": float(line.network), "contribution": float(line.contribution)}
        for line in lines[:LISTED]
    ]  # fmt: skip
    return {"lines": rows, "count": len(lines), "sum": sum(line.contribution for line in lines)}


class Chosen(BaseModel):
    """An object: what is typed, or the number of an example."""

    input: Annotated[str | None, Field(max_length=100_000)] = None
    example: int | None = None


class Place(Chosen):
    """A place of an object."""

    place: int


class LiveAnswers(Answers):
    """Answers with the live view, too."""

    def __init__(self, view: LiveView | Callable[[], LiveView], limits: Limits) -> None:
        self._view = view() if callable(view) else view
        super().__init__(self._view.model, limits)
        self.kinds |= {"live": self._live, "changes": self._changes}

    def describe(self) -> dict[str, Any]:
        return super().describe() | {"live": self._view.describe()}

    def _live(self, job: Job) -> Reply:
        body = parsed(Chosen, job.body)
        value = self._view.find(body.input, body.example)
        return Reply(200, encoded(self._view.explain(value)))

    def _changes(self, job: Job) -> Reply:
        body = parsed(Place, job.body)
        value = self._view.find(body.input, body.example)
        return Reply(200, encoded(self._view.change(value, body.place)))


def create_live_app(
    view: LiveView | Callable[[], LiveView], limits: Limits | None = None
) -> FastAPI:
    """Return the application of the live view, which answers this machine alone.

    ``GET /`` is the page. ``GET /live`` describes the model and the examples, ``POST /live`` with
    ``{"input": ...}`` or ``{"example": N}`` explains an object, and ``POST /live/changes`` with
    ``"place"`` besides tries other words, atoms or labels there. The requests of `create_app` are
    answered, too.
    """
    model: Any = view
    app = create_app(model, limits, token=None, answers=LiveAnswers, has_index=False)
    about = app.state.process.about

    @app.get("/")
    async def page() -> Response:
        nonce = secrets.token_urlsafe(16)
        return page_of(_template().render(nonce=nonce, task=about["model"]["task"]), nonce)

    @app.get("/live")
    async def describe() -> Response:
        return Response(encoded(about["live"]), media_type="application/json")

    @app.post("/live", openapi_extra=body_of(Chosen))
    async def explain(request: Request) -> Response:
        return await answered(request, "live")

    @app.post("/live/changes", openapi_extra=body_of(Place))
    async def change(request: Request) -> Response:
        return await answered(request, "changes")

    return app


@cache
def _template() -> Template:
    try:
        from jinja2 import Environment, FileSystemLoader, StrictUndefined
    except ImportError as error:
        raise MissingExtraError("the live view", "jinja2", "train") from error
    loader = FileSystemLoader(Path(__file__).parent)
    environment = Environment(loader=loader, autoescape=True, undefined=StrictUndefined)
    return environment.get_template("page.html")
