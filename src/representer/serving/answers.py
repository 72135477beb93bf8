"""Replies to the requests of a server, in the process of its model."""

from __future__ import annotations

import json
import re
import traceback
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from functools import lru_cache
from itertools import chain, islice
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar

from pydantic import BaseModel, Field, ValidationError

from representer.errors import DataError, RepresenterError
from representer.serving.limits import Limits
from representer.serving.streams import BusyError, NoStreamError, Streams

if TYPE_CHECKING:
    from representer.serving.served_model import ServedModel

EXPLAINED = 4  # objects of one call that explains
KEPT = 4  # requests of several calls, whose objects are read once
_Body = TypeVar("_Body", bound=BaseModel)


class Objects(BaseModel):
    """Objects to predict."""

    inputs: Annotated[list[Any], Field(min_length=1)]
    top: Annotated[int, Field(ge=1, le=1000)] = 10


class StreamPart(BaseModel):
    """The next part of a sequence."""

    input: Any


class Job(NamedTuple):
    """A request for the model.

    Attributes:
        kind: What is requested: a key of `Answers.kinds`.
        body: JSON.
        name: Of a stream.
        start: Number of the objects that earlier calls have answered.
    """

    kind: str
    body: bytes = b""
    name: str = ""
    start: int = 0


class Reply(NamedTuple):
    """The reply to a job.

    Attributes:
        status: Of HTTP.
        body: JSON; of objects, the entries of those that this call answered, without brackets.
        stop: Number of the objects that are answered now; None if all are.
        predicted: Number of objects that this call predicted.
    """

    status: int
    body: bytes
    stop: int | None = None
    predicted: int = 0


class RequestError(RepresenterError):
    """The body of a request cannot be parsed."""


class EndedError(RepresenterError):
    """The process of the model ended before it answered."""


class SlowError(EndedError):
    """The process of the model was ended, since one call took too long."""


_STATUS: dict[type[Exception], int] = {
    SlowError: 504, EndedError: 503, BusyError: 503, NoStreamError: 404, RequestError: 400,
}  # fmt: skip


class Answers:
    """Answers jobs with a model.

    No call of the model takes more than ``max_batch`` objects, nor more characters, atoms, nodes or
    samples than one object may have, so that a request with many objects does not block others.

    Args:
        model: The model, or a function that loads it.
        limits: Of requests.
    """

    def __init__(self, model: ServedModel | Callable[[], ServedModel], limits: Limits) -> None:
        self.model: ServedModel = model() if callable(model) else model
        self.model.limits = self._limits = limits
        self.streams = Streams(limits.max_streams, limits.stream_seconds)
        self._objects = lru_cache(KEPT)(self._read)
        self.kinds: dict[str, Callable[[Job], Reply]] = {
            "predict": self._predict, "explain": self._explain, "open": self._open,
            "part": self._part, "close": self._close,
        }  # fmt: skip

    def describe(self) -> dict[str, Any]:
        """Return the answers to requests that describe the model, by their path."""
        return {"model": self.model.describe()}

    def __call__(self, jobs: Sequence[Job]) -> list[Reply]:
        """Return the replies to jobs; several are predictions, which are joined if they can be.

        A wrong object fails its own job alone.
        """
        if len(jobs) > 1:
            with suppress(Exception):
                return self._joined(jobs)
        return [self._alone(job) for job in jobs]

    def _joined(self, jobs: Sequence[Job]) -> list[Reply]:
        room, parts = self._limits.max_batch, list[list[Any]]()
        for job in jobs:
            _, objects = self._objects(job.body)
            parts.append(objects if len(objects) <= room else [])  # the rest waits for another call
            room -= len(parts[-1])
        results = iter(self.model.predict([*chain(*parts)]))
        return [
            Reply(200, entries(islice(results, len(part))), None if part else 0, len(part))
            for part in parts
        ]

    def _alone(self, job: Job) -> Reply:
        try:
            return self.kinds[job.kind](job)
        except RepresenterError as error:
            return refusal(error, job.start)
        except ValidationError as error:
            first = error.errors()[0]
            where = ".".join(map(str, first["loc"])) or "the body"
            return Reply(422, encoded({"error": f"{where}: {first['msg']}"}))
        except Exception as error:  # a bug: the server goes on
            traceback.print_exc()
            return Reply(500, encoded({"error": f"internal: {type(error).__name__}"}))

    def _predict(self, job: Job) -> Reply:
        _, objects = self._objects(job.body)
        stop = self._stop(objects, job.start, self._limits.max_batch)
        results = self.model.predict(objects[job.start : stop])
        more = stop if stop < len(objects) else None
        return Reply(200, entries(results), more, stop - job.start)

    def _explain(self, job: Job) -> Reply:
        top, objects = self._objects(job.body)
        stop = self._stop(objects, job.start, EXPLAINED)
        results = self.model.explain(objects[job.start : stop], top, job.start)
        return Reply(200, entries(results), stop if stop < len(objects) else None)

    def _stop(self, objects: Sequence[Any], start: int, most: int) -> int:
        """Return the end of the objects of one call, which has one of them at least."""
        stop, total = start + 1, self.model.share(objects[start])
        while stop < min(len(objects), start + most):
            total += self.model.share(objects[stop])
            if total > 1:
                break
            stop += 1
        return stop

    def _read(self, body: bytes) -> tuple[int, list[Any]]:
        asked = parsed(Objects, body)
        if len(asked.inputs) > self._limits.max_objects:
            most = self._limits.max_objects
            problem = f"the request has {len(asked.inputs)} inputs; at most {most}"
            raise DataError(problem, fix="Send several requests.")
        return asked.top, self.model.read(asked.inputs)

    def _open(self, job: Job) -> Reply:
        return Reply(201, encoded({"stream": self.streams.open(self.model.stream())}))

    def _part(self, job: Job) -> Reply:
        part = parsed(StreamPart, job.body).input
        self.model.check_size("the part", part)
        return Reply(200, encoded(self.streams.get(job.name).step(part)))

    def _close(self, job: Job) -> Reply:
        self.streams.close(job.name)
        return Reply(204, b"")


def parsed(kind: type[_Body], body: bytes) -> _Body:
    """Return the body of a request.

    Raises:
        DataError: It is not JSON.
        RequestError: It is nested too deeply, or has a number that is too long.
        ValidationError: It is something else.
    """
    try:
        return kind.model_validate(json.loads(body))
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise DataError(f"the body is not JSON: {error}") from None
    except ValidationError:
        raise
    except (ValueError, RecursionError) as error:
        raise RequestError(f"the body cannot be parsed: {error}") from None


def encoded(content: Any) -> bytes:
    """Return JSON in ASCII: half of a surrogate pair, which a request may hold, has no UTF-8."""
    return json.dumps(content, allow_nan=False, separators=(",", ":")).encode("ascii")


def entries(results: Iterable[Any]) -> bytes:
    """Return results as JSON, separated by commas."""
    return b",".join(map(encoded, results))


def refusal(error: RepresenterError, start: int = 0) -> Reply:
    """Return the reply to a request that is refused.

    Args:
        error: Of an estimator, argument X is the inputs of one call.
        start: Number of the first of them in the request.
    """
    status = next((code for kind, code in _STATUS.items() if isinstance(error, kind)), 422)
    shown = re.sub(r"^X\[(\d+)\]", lambda found: f"inputs[{int(found[1]) + start}]", str(error))
    return Reply(status, encoded({"error": shown}))
