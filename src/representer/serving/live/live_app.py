"""The page of the live view and its requests, added to the HTTP interface of a model."""

from __future__ import annotations

import secrets
from collections.abc import Callable
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import FastAPI, Request, Response
from pydantic import BaseModel, Field

from representer.errors import MissingExtraError
from representer.serving.answers import Answers, Job, Reply, encoded, parsed
from representer.serving.app import answered, body_of, create_app
from representer.serving.limits import Limits
from representer.serving.live.view import LiveView

if TYPE_CHECKING:
    from jinja2 import Template

_POLICY = (
    "default-src 'none'; script-src 'nonce-{nonce}'; style-src 'nonce-{nonce}'; "
    "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; "
    "frame-ancestors 'none'"
)
_HEADERS = {
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Referrer-Policy": "no-referrer",
    "X-Content-Type-Options": "nosniff",
    "Cache-Control": "no-store",
}


class Chosen(BaseModel):
    """An object: what is typed, or the number of an example."""

    input: Annotated[str | None, Field(max_length=100_000)] = None
    example: int | None = None


class Place(Chosen):
    """A place of an object."""

    place: int


class LiveAnswers(Answers):
    """Answers with the live view, too.

    Args:
        view: The view, or a function that loads it.
        limits: Of requests.
    """

    def __init__(self, view: LiveView | Callable[[], LiveView], limits: Limits) -> None:
        self._view = view() if callable(view) else view
        super().__init__(self._view.model, limits)
        self.kinds |= {"live": self._live, "changes": self._changes}

    def describe(self) -> dict[str, Any]:
        """Return the answers to requests that describe the model, by their path."""
        return super().describe() | {"live": self._view.describe()}

    def _live(self, job: Job) -> Reply:
        body = parsed(Chosen, job.body)
        one = self._view.find(body.input, body.example)
        return Reply(200, encoded(self._view.explain(one)))

    def _changes(self, job: Job) -> Reply:
        body = parsed(Place, job.body)
        one = self._view.find(body.input, body.example)
        return Reply(200, encoded(self._view.change(one, body.place)))


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
    app = create_app(model, limits, token=None, answers=LiveAnswers)
    about = app.state.process.about

    @app.get("/")
    async def page() -> Response:
        nonce = secrets.token_urlsafe(16)
        headers = _HEADERS | {"Content-Security-Policy": _POLICY.format(nonce=nonce)}
        text = _template().render(nonce=nonce, task=about["model"]["task"])
        return Response(text, headers=headers, media_type="text/html; charset=utf-8")

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
