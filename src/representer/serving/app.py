"""The HTTP interface of a trained model."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from functools import partial
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI, Request, Response
from fastapi.responses import JSONResponse
from pydantic import BaseModel
from starlette.exceptions import HTTPException

from representer import __version__
from representer.errors import RepresenterError
from representer.serving import Limits
from representer.serving.answers import Answers, RequestedObjects, StreamPart, encoded, refusal
from representer.serving.guard import Guard, Metrics
from representer.serving.model_process import ModelProcess, Worker

if TYPE_CHECKING:
    from representer.serving.served_model import ServedModel


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
_FORM = """<form id="form"><label for="input">Texts or SMILES, one in a line, or JSON</label>
<textarea id="input" rows="5"></textarea>
<label for="token">Token, if the server asks for one</label>
<input id="token" type="password" autocomplete="off">
<button value="/predict">Predict</button><button value="/explain">Explain</button></form>
<pre id="answer" role="status"></pre>"""


def page_of(text: str, nonce: str) -> Response:
    """Return a page that runs the script with a nonce alone, and fetches from its server alone."""
    headers = _HEADERS | {"Content-Security-Policy": _POLICY.format(nonce=nonce)}
    return Response(text, headers=headers, media_type="text/html; charset=utf-8")


def _index(app: FastAPI, *, form: str) -> Response:
    """Return the page with the form, or that with the interface."""
    nonce, rows = secrets.token_urlsafe(16), []
    for path, methods in app.openapi()["paths"].items() if not form else ():
        for method, about in methods.items():
            content = about.get("requestBody", {}).get("content", {}).get("application/json", {})
            body = ", ".join(content.get("schema", {}).get("properties", {}))
            rows.append(f"<tr><td><code>{method.upper()} {escape(path)}</code><td>{body}"
                        f"<td>{escape(about.get('description', ''))}</tr>")  # fmt: skip
    routes = f"<table><tr><th>request<th>body<th>answer</tr>{''.join(rows)}</table>" if rows else ""
    text = Path(__file__).with_name("index.html").read_text("utf-8").replace("NONCE", nonce)
    return page_of(text.replace("FORM", form).replace("ROUTES", routes), nonce)


def create_app(
    model: ServedModel | Callable[[], ServedModel],
    limits: Limits | None = None,
    token: str | None = None,
    *,
    answers: Callable[..., Answers] = Answers,
    has_index: bool = True,
) -> FastAPI:
    """Return an application that answers with the predictions of a model.

    ``POST /predict`` and ``POST /explain`` take ``{"inputs": [...]}``. ``POST /streams`` opens a
    stream, ``POST /streams/NAME`` with ``{"input": ...}`` reads its next part, ``DELETE
    /streams/NAME`` closes it. ``GET /model``, ``/health`` and ``/metrics`` describe the server.
    ``/`` is a form, and ``/docs`` lists the requests.

    The model runs in a process of its own, ``app.state.process``, which starts with the server.

    Args:
        model: What predicts, or a function of a module that loads it; it is loaded in its process.
        limits: Of requests; the defaults if left out.
        token: What clients must send; None answers this machine alone.
        answers: From the model and the limits to what answers.
        has_index: False if ``/`` is another page than the form.
    """
    limits, metrics = limits or Limits(), Metrics()
    process = ModelProcess(partial(answers, model, limits))
    worker = Worker(process, limits, metrics)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        await asyncio.to_thread(process.start)
        running = asyncio.create_task(worker.run())
        yield
        process.stop()
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running

    app = FastAPI(
        title="A trained model", version=__version__, lifespan=lifespan, docs_url=None,
        redoc_url=None,
    )  # fmt: skip
    app.state.process, app.state.worker = process, worker
    app.add_middleware(Guard, limits=limits, metrics=metrics, token=token)

    @app.exception_handler(RepresenterError)
    async def refuse(request: Request, error: RepresenterError) -> Response:
        reply = refusal(error)
        return Response(reply.body, reply.status, media_type="application/json")

    @app.exception_handler(HTTPException)
    async def explain_status(request: Request, error: HTTPException) -> JSONResponse:
        return JSONResponse({"error": error.detail}, error.status_code, error.headers)

    @app.post("/predict", openapi_extra=body_of(RequestedObjects))
    async def predict(request: Request) -> Response:
        """Return the prediction for each input, with probabilities or an uncertainty."""
        return await answered(request, "predict")

    @app.get("/docs", include_in_schema=False)
    async def interface() -> Response:
        return _index(app, form="")

    if has_index:

        @app.get("/", include_in_schema=False)
        async def index() -> Response:
            return _index(app, form=_FORM)

    @app.get("/health")
    async def health() -> dict[str, str]:
        """Return that the server runs."""
        return {"status": "ok"}

    @app.get("/model")
    async def describe() -> Response:
        """Return task, classes and parts of the model."""
        return Response(encoded(process.about["model"]), media_type="application/json")

    @app.get("/metrics")
    async def figures() -> Response:
        """Return counts and times for Prometheus."""
        return Response(metrics.text(), media_type="text/plain; version=0.0.4")

    @app.post("/explain", openapi_extra=body_of(RequestedObjects))
    async def explain(request: Request) -> Response:
        """Return what each word, atom, node or step contributes to the score of each input."""
        return await answered(request, "explain")

    @app.post("/streams", status_code=201)
    async def open_stream(request: Request) -> Response:
        """Return the name of a new stream."""
        return await answered(request, "open")

    @app.post("/streams/{name}", openapi_extra=body_of(StreamPart))
    async def read_part(request: Request, name: str) -> Response:
        """Return the prediction after the next part of a stream."""
        return await answered(request, "part", name)

    @app.delete("/streams/{name}", status_code=204)
    async def close_stream(request: Request, name: str) -> Response:
        """Close a stream."""
        return await answered(request, "close", name)

    return app


async def answered(request: Request, kind: str, name: str = "") -> Response:
    """Return the reply of the model to a request.

    Args:
        request: The request, whose body is parsed in the process of the model.
        kind: What is requested, see `Answers.kinds`.
        name: Of a stream.
    """
    reply = await request.app.state.worker.ask(kind, await request.body(), name)
    return Response(reply.body, reply.status, media_type="application/json" if reply.body else None)


def body_of(model: type[BaseModel]) -> dict[str, Any]:
    """Return the description of the body of a request in ``/openapi.json``."""
    content = {"application/json": {"schema": model.model_json_schema()}}
    return {"requestBody": {"required": True, "content": content}}
