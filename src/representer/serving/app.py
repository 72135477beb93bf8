"""The HTTP interface of a trained model."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Annotated, Any

from fastapi import FastAPI, Request, Response
from fastapi.exceptions import RequestValidationError
from fastapi.responses import JSONResponse
from pydantic import BaseModel, Field
from starlette.exceptions import HTTPException

from representer import __version__
from representer.errors import DataError, RepresenterError
from representer.serving.guard import Guard
from representer.serving.limits import Limits
from representer.serving.metrics import Metrics
from representer.serving.served_model import ServedModel
from representer.serving.streams import NoStreamError, Streams
from representer.serving.worker import BusyError, Worker

_STATUS = ((BusyError, 503), (NoStreamError, 404))  # of other errors of ours: 422


class _Answer(JSONResponse):
    """JSON in ASCII: half of a surrogate pair, which a request may hold, has no UTF-8."""

    def render(self, content: Any) -> bytes:
        """Return the bytes of an answer."""
        return json.dumps(content, allow_nan=False, separators=(",", ":")).encode("ascii")


class Objects(BaseModel):
    """Objects to predict."""

    inputs: Annotated[list[Any], Field(min_length=1)]
    top: Annotated[int, Field(ge=1, le=1000)] = 10


class StreamPart(BaseModel):
    """The next part of a sequence."""

    input: Any


def create_app(
    model: ServedModel, limits: Limits | None = None, token: str | None = None
) -> FastAPI:
    """Return an application that answers with the predictions of a model.

    ``POST /predict`` and ``POST /explain`` take ``{"inputs": [...]}``. ``POST /streams`` opens a
    stream, ``POST /streams/NAME`` with ``{"input": ...}`` reads its next part, ``DELETE
    /streams/NAME`` closes it. ``GET /model``, ``/health`` and ``/metrics`` describe the server.

    Args:
        model: What predicts.
        limits: Of requests; the defaults if left out.
        token: What clients must send; None answers this machine alone.
    """
    limits = limits or Limits()
    metrics, streams = Metrics(), Streams(limits.max_streams, limits.stream_seconds)
    metrics.count_streams(lambda: len(streams))
    worker: Worker

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        nonlocal worker
        worker = Worker(
            model.predict, max_batch=limits.max_batch, max_waiting=limits.max_waiting,
            observe=metrics.objects.observe,
        )  # fmt: skip
        app.state.worker = worker
        running = asyncio.create_task(worker.run())
        yield
        running.cancel()
        with suppress(asyncio.CancelledError):
            await running

    app = FastAPI(
        title=f"A {model.task} model", version=__version__, lifespan=lifespan, docs_url=None,
        redoc_url=None, default_response_class=_Answer,
    )  # fmt: skip
    app.add_middleware(Guard, limits=limits, metrics=metrics, token=token)

    @app.exception_handler(RepresenterError)
    async def refuse(request: Request, error: RepresenterError) -> JSONResponse:
        status = next((code for kind, code in _STATUS if isinstance(error, kind)), 422)
        problem = str(error)  # of an estimator, whose argument X the inputs are
        shown = "inputs" + problem[1:] if problem.startswith("X[") else problem
        return _Answer({"error": shown}, status)

    @app.exception_handler(RequestValidationError)
    async def explain_request(request: Request, error: RequestValidationError) -> JSONResponse:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"][1:])) or "the body"
        return _Answer({"error": f"{where}: {first['msg']}"}, 422)

    @app.exception_handler(HTTPException)
    async def explain_status(request: Request, error: HTTPException) -> JSONResponse:
        return _Answer({"error": error.detail}, error.status_code, error.headers)

    async def objects_of(body: Objects) -> list[Any]:
        if len(body.inputs) > limits.max_objects:
            problem = f"the request has {len(body.inputs)} inputs; at most {limits.max_objects}"
            raise DataError(problem, fix="Send several requests.")
        return await asyncio.to_thread(model.read, body.inputs)

    @app.get("/health")
    async def health() -> dict[str, str]:
        return {"status": "ok"}

    @app.get("/model")
    async def describe() -> dict[str, Any]:
        return model.describe()

    @app.get("/metrics")
    async def figures() -> Response:
        return Response(metrics.text(), media_type="text/plain; version=0.0.4")

    @app.post("/predict")
    async def predict(body: Objects) -> dict[str, Any]:
        return {"predictions": await worker.predict(await objects_of(body))}

    @app.post("/explain")
    async def explain(body: Objects) -> dict[str, Any]:
        objects = await objects_of(body)
        return {"explanations": await worker.call(partial(model.explain, objects, body.top))}

    @app.post("/streams", status_code=201)
    async def open_stream() -> dict[str, str]:
        return {"stream": streams.open(model.stream())}

    @app.post("/streams/{name}")
    async def read_part(name: str, body: StreamPart) -> dict[str, Any]:
        stream = streams.get(name)
        async with stream.lock:
            return await worker.call(partial(stream.step, body.input))

    @app.delete("/streams/{name}", status_code=204)
    async def close_stream(name: str) -> None:
        streams.close(name)

    return app
