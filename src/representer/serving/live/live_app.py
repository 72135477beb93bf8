"""The page of the live view and its requests, added to the HTTP interface of a model."""

from __future__ import annotations

import asyncio
import secrets
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from fastapi import FastAPI, Request, Response
from pydantic import BaseModel, Field

from representer.errors import MissingExtraError
from representer.serving.app import create_app
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


def create_live_app(view: LiveView, limits: Limits | None = None) -> FastAPI:
    """Return the application of the live view, which answers this machine alone.

    ``GET /`` is the page. ``GET /live`` describes the model and the examples, ``POST /live`` with
    ``{"input": ...}`` or ``{"example": N}`` explains an object, and ``POST /live/changes`` with
    ``"place"`` besides tries other words, atoms or labels there. The requests of `create_app` are
    answered, too.
    """
    app = create_app(view.model, limits, token=None)

    @app.get("/")
    async def page() -> Response:
        nonce = secrets.token_urlsafe(16)
        headers = _HEADERS | {"Content-Security-Policy": _POLICY.format(nonce=nonce)}
        text = _template().render(nonce=nonce, task=view.model.task)
        return Response(text, headers=headers, media_type="text/html; charset=utf-8")

    @app.get("/live")
    async def describe() -> dict[str, Any]:
        return view.describe()

    @app.post("/live")
    async def explain(request: Request, body: Chosen) -> dict[str, Any]:
        one = await asyncio.to_thread(view.find, body.input, body.example)
        return await request.app.state.worker.call(partial(view.explain, one))

    @app.post("/live/changes")
    async def change(request: Request, body: Place) -> dict[str, Any]:
        one = await asyncio.to_thread(view.find, body.input, body.example)
        return await request.app.state.worker.call(partial(view.change, one, body.place))

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
