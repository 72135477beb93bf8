"""Replies to the requests of a server, in the process of its model."""

from __future__ import annotations

import json
import re
import secrets
import time
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain, islice
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, TypeVar

from pydantic import BaseModel, Field, ValidationError

from representer.errors import DataError, RepresenterError
from representer.serving import Limits

if TYPE_CHECKING:
    from representer.serving.served_model import ServedModel

_Body = TypeVar("_Body", bound=BaseModel)


class RequestedObjects(BaseModel):
    """Objects to predict."""

    inputs: Annotated[list[Any], Field(min_length=1)]
    top: Annotated[int, Field(ge=1, le=1000)] = 10


class StreamPart(BaseModel):
    """The next part of a sequence."""

    input: Any


class Job(NamedTuple):
    """A request for the model: a key of `Answers.kinds`, its JSON, and the name of a stream."""

    kind: str
    body: bytes = b""
    name: str = ""


class Reply(NamedTuple):
    """The reply to a job: a status of HTTP, JSON, and the number of predicted objects."""

    status: int
    body: bytes
    predicted: int = 0


class RequestError(RepresenterError):
    """The body of a request cannot be parsed."""

    status = 400


class Answers:
    """Answers jobs with a model."""

    def __init__(self, model: ServedModel | Callable[[], ServedModel], limits: Limits) -> None:
        self.model: ServedModel = model() if callable(model) else model
        self.model.limits = self._limits = limits
        self.streams = Streams(limits.max_streams, limits.stream_seconds)
        self.kinds: dict[str, Callable[[Job], Reply]] = {
            "predict": lambda job: self._predict(job)[0], "explain": self._explain,
            "open": self._open, "part": self._part, "close": self._close,
        }  # fmt: skip

    def describe(self) -> dict[str, Any]:
        """Return the answers to requests that describe the model, by their path."""
        return {"model": self.model.describe()}

    def __call__(self, jobs: Sequence[Job]) -> list[Reply]:
        """Return the replies to jobs; several are predictions, which are joined if they can be.

        A wrong object fails its own job alone.
        """
        if len(jobs) > 1 and self.model.takes_objects_of_several_requests:
            with suppress(Exception):
                return self._predict(*jobs)
        return [self._alone(job) for job in jobs]

    def _alone(self, job: Job) -> Reply:
        try:
            return self.kinds[job.kind](job)
        except RepresenterError as error:
            return refusal(error)
        except Exception as error:  # a bug: the server goes on
            traceback.print_exc()
            return Reply(500, encoded({"error": f"internal: {type(error).__name__}"}))

    def _predict(self, *jobs: Job) -> list[Reply]:
        parts = [self._read(job)[1] for job in jobs]
        results = iter(self.model.predict([*chain(*parts)]))
        return [
            Reply(200, encoded({"predictions": [*islice(results, len(chunk))]}), len(chunk))
            for chunk in parts
        ]

    def _explain(self, job: Job) -> Reply:
        top, objects = self._read(job)
        return Reply(200, encoded({"explanations": self.model.explain(objects, top)}))

    def _read(self, job: Job) -> tuple[int, list[Any]]:
        asked, most = parsed(RequestedObjects, job.body), self._limits.max_objects
        if len(asked.inputs) > most:
            problem = f"the request has {len(asked.inputs)} inputs; at most {most}"
            raise DataError(problem, fix="Send several requests.")
        return asked.top, self.model.read(asked.inputs)

    def _open(self, job: Job) -> Reply:
        return Reply(201, encoded({"stream": self.streams.open(self.model.stream())}))

    def _part(self, job: Job) -> Reply:
        values = parsed(StreamPart, job.body).input
        self.model.check_size("the part", values)
        return Reply(200, encoded(self.streams.get(job.name).step(values)))

    def _close(self, job: Job) -> Reply:
        self.streams.close(job.name)
        return Reply(204, b"")


def parsed(kind: type[_Body], body: bytes) -> _Body:
    """Return the body of a request."""
    try:
        return kind.model_validate(json.loads(body))
    except ValidationError as error:
        first = error.errors()[0]
        where = ".".join(map(str, first["loc"])) or "the body"
        raise DataError(f"{where}: {first['msg']}") from None
    except (json.JSONDecodeError, UnicodeDecodeError) as error:
        raise DataError(f"the body is not JSON: {error}") from None
    except (ValueError, RecursionError) as error:
        raise RequestError(f"the body cannot be parsed: {error}") from None


def encoded(content: Any) -> bytes:
    """Return JSON in ASCII: half of a surrogate pair, which a request may hold, has no UTF-8."""
    return json.dumps(content, allow_nan=False, separators=(",", ":")).encode("ascii")


def refusal(error: RepresenterError) -> Reply:
    """Return the reply to a request that is refused; argument X of an estimator is the inputs."""
    shown = re.sub(r"^X(?=\[)", "inputs", str(error))
    return Reply(getattr(error, "status", 422), encoded({"error": shown}))


# Open streams: the state of each sequence between its requests.

Step = Callable[[Any], dict[str, Any]]


class BusyError(RepresenterError):
    """Too many requests wait for the model, or too many streams are open."""

    status = 503


class NoStreamError(RepresenterError):
    """There is no such stream, or it was closed."""

    status = 404


@dataclass
class _Stream:
    step: Step
    used: float


class Streams:
    """Streams by their random names."""

    def __init__(
        self, limit: int, seconds: float, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._limit, self._seconds, self._clock = limit, seconds, clock
        self._open: dict[str, _Stream] = {}

    def __len__(self) -> int:
        """Return the number of open streams."""
        self._close_idle()
        return len(self._open)

    def open(self, step: Step) -> str:
        """Return the name of a new stream."""
        if len(self) >= self._limit:
            raise BusyError(f"{self._limit} streams are open")
        name = secrets.token_urlsafe(16)
        self._open[name] = _Stream(step, self._clock())
        return name

    def get(self, name: str) -> _Stream:
        """Return a stream, which is used now."""
        self._close_idle()
        if name not in self._open:
            raise NoStreamError(f"there is no open stream {name[:40]!r}")
        self._open[name].used = self._clock()
        return self._open[name]

    def close(self, name: str) -> None:
        """Close a stream.

        Raises:
            NoStreamError: There is none of this name.
        """
        self.get(name)
        del self._open[name]

    def _close_idle(self) -> None:
        oldest = self._clock() - self._seconds
        for name in [name for name, stream in self._open.items() if stream.used < oldest]:
            del self._open[name]
