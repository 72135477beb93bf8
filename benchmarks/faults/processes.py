"""Functions and commands in forked children, which have all that their parent has imported.

``python processes.py`` runs commands: it reads one request per line of standard input, as `Server`
writes them. An audit hook writes down what hostile input must never cause: a process, a connection,
an unpickled class, and files opened below folders that are not for it.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import math
import os
import resource
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from faults import patience

MEMORY = 2**30  # bytes that a function may take beyond what its parent uses
ADDRESSES, DEADLINE = 16 * 2**30, 120.0  # bytes and seconds of a command
HANG, REFUSED, CRASHED = "hang", 2, 70
CANARY = "executed"  # a file that code makes which was run
_THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")  # a pool is not forked
_NEVER = {
    "os.system", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.startfile",
    "subprocess.Popen", "pickle.find_class", "socket.connect", "socket.getaddrinfo",
}  # fmt: skip
_OPENING = {"open", "os.listdir", "os.scandir"}


class Bomb:
    """Code, for those who unpickle it: it makes a file in a folder."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def __reduce__(self) -> tuple[Any, ...]:
        return os.system, (f"touch {self.folder / CANARY}",)


@dataclass(frozen=True)
class Outcome:
    """The end of a child.

    Args:
        code: Its exit code, negative for a signal, or ``HANG``.
        out: Its stdout.
        err: Its stderr.
        touched: What it did and must not do, one item each.
        cpu: Its time on the processor.
    """

    code: int | str
    out: str
    err: str
    touched: tuple[str, ...]
    cpu: float

    @property
    def last(self) -> str:
        """The last line of stderr, shortened."""
        return (self.err.strip().splitlines() or [""])[-1][:300]

    def require(
        self, *codes: int, cpu: float = math.inf, about: str = "", has_notices: bool = False
    ) -> None:
        """Check that the child has ended in time by one of the codes, and touched nothing.

        A child that refuses says why in one line, which is all that it says unless it may have
        notices beside it.
        """
        last = about + self.last
        assert not self.touched, f"{self.touched[0]}: {last}"
        assert self.code != HANG, f"no end in time: {last}"
        assert self.code in codes, f"exit code {self.code}: {last}"
        assert self.cpu < cpu, f"{self.cpu:.1f} s of the processor: {last}"
        lines = self.err.splitlines()
        errors = [line for line in lines if not has_notices or line.startswith("error:")]
        assert not self.code or len(errors) == 1, f"not one line of error: {self.err[-300:]!r}"


def forked(
    call: Callable[[], object],
    logs: Path,
    *,
    seconds: float = 60.0,
    memory: int | None = MEMORY,
    forbidden: Sequence[Path] = (),
    refuses: type[Exception] | tuple[()] = (),
) -> Outcome:
    """Run a function in a forked child and return its end.

    Args:
        call: Returns the exit code, or what counts as 0.
        logs: A folder for stdout and stderr, which is not forbidden.
        seconds: The deadline, longer on a busy machine, after which the child is killed.
        memory: Bytes of address space beyond what this process has; None for no limit.
        forbidden: Folders whose files the child must not open, also not through links.
        refuses: The error by which it may refuse: the child prints it and ends with ``REFUSED``.
    """
    paths = [logs / name for name in ("stdout", "stderr", "touched")]
    folders = [str(folder.resolve()) for folder in forbidden]
    sys.stdout.flush()
    sys.stderr.flush()

    def run() -> int:
        sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
        sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False)
        files = [os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600) for path in paths]
        for number, file in zip((1, 2), files, strict=False):
            os.dup2(file, number)
        _watch(files[2], folders)
        if memory is not None:
            used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
            resource.setrlimit(resource.RLIMIT_AS, (used + memory, used + memory))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        try:
            code = call()
        except refuses as error:
            print(f"error: {error}", file=sys.stderr)
            return REFUSED
        return code if isinstance(code, int) else 0

    code, cpu = _waited(_forked(run), patience(seconds))
    out, err, touched = (path.read_text("utf-8", "replace") for path in paths)
    return Outcome(code, out, err, tuple(touched.splitlines()), cpu)


def _watch(file: int, forbidden: Sequence[str]) -> None:
    """Write a line to a file for each event that must not happen."""

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        # a Unix socket has a path for an address, and leads to a process of this machine
        if event in _NEVER and not (event == "socket.connect" and isinstance(arguments[1], str)):
            os.write(file, f"{event} {arguments!r:.200}\n".encode())
        elif event in _OPENING and isinstance(arguments[0], str | bytes):
            path, is_followed = os.fsdecode(arguments[0]), True
            if event == "open" and isinstance(arguments[2], int):
                is_followed = not arguments[2] & os.O_NOFOLLOW
            head, tail = os.path.split(path)
            real = os.path.realpath(path if is_followed else head)
            real = real if is_followed else f"{real}/{tail}"
            if any(real == folder or real.startswith(f"{folder}/") for folder in forbidden):
                os.write(file, f"{event} {real}\n".encode())

    sys.addaudithook(hook)


def _forked(run: Callable[[], int]) -> int:
    """Fork a child that ends with an exit code, or 70 after an error; return its number."""
    pid = os.fork()
    if pid:
        return pid
    code = CRASHED
    try:
        code = run()
    except BaseException:
        with contextlib.suppress(BaseException):
            traceback.print_exc()
    with contextlib.suppress(BaseException):
        sys.stdout.flush()
        sys.stderr.flush()
    os._exit(code)


def _waited(pid: int, seconds: float) -> tuple[int | str, float]:
    """Return the exit code and the time of a child, which is killed with its group if it hangs."""
    end, pause = time.monotonic() + seconds, 0.001
    while time.monotonic() < end:
        found, status, used = os.wait4(pid, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime
        time.sleep(pause)
        pause = min(0.02, 1.5 * pause)
    _end(pid)
    _, _, used = os.wait4(pid, 0)
    return HANG, used.ru_utime + used.ru_stime


def _end(pid: int) -> None:
    with contextlib.suppress(ProcessLookupError):
        (os.killpg if os.getpgid(pid) == pid else os.kill)(pid, signal.SIGKILL)


class Server:
    """Starts children of one process that has imported everything, and waits for them.

    Args:
        command: Starts a process that calls `serve`; this module if left out.
    """

    def __init__(self, *command: str | Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, *(command or (__file__,))], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True,
            env={**os.environ, **dict.fromkeys(_THREADS, "1"), "PYTHONUNBUFFERED": "1"},
        )  # fmt: skip

    def start(self, log: Path, **job: Any) -> int:
        """Start a job, whose output is appended to a file, and return its process number."""
        return self._ask({"start": job, "log": str(log)})

    def wait(self, pid: int, seconds: float = DEADLINE) -> int:
        """Return a child's exit code; minus the signal that killed it.

        Raises:
            AssertionError: It did not end in time; it and its processes are killed.
        """
        code = self._ask({"wait": pid, "seconds": patience(seconds)})
        assert code != HANG, f"the process did not end within {seconds:g} seconds"
        return code

    def run(self, log: Path, **job: Any) -> int:
        """Run a job to its end."""
        return self.wait(self.start(log, **job))

    def load(self, modules: Sequence[str]) -> None:
        """Import modules that children would import otherwise."""
        self._ask({"import": list(modules)})

    def close(self) -> None:
        """End every child, and then the server."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._process.stdin.close()
        self._process.wait(30)
        self._process.stdout.close()

    def _ask(self, request: dict[str, Any]) -> Any:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        print(json.dumps(request), file=self._process.stdin, flush=True)
        return json.loads(self._process.stdout.readline())


def serve(run: Callable[[dict[str, Any]], int]) -> None:
    """Carry out requests until there are no more.

    Args:
        run: Runs a job in its child and returns the exit code.
    """
    children: set[int] = set()
    for line in sys.stdin:
        request, answer = json.loads(line), None
        if "start" in request:
            answer = _started(run, request["start"], request["log"])
            children.add(answer)
        elif "wait" in request:
            answer, _ = _waited(request["wait"], request["seconds"])
            children.discard(request["wait"])
        else:
            for name in request["import"]:
                with contextlib.suppress(Exception):  # a part of a package may not be importable
                    importlib.import_module(name)
        print(json.dumps(answer), flush=True)
    for pid in children:
        _end(pid)


def _started(run: Callable[[dict[str, Any]], int], job: dict[str, Any], log: str) -> int:
    """Fork a child for a job, in a group of its own, and return its process number."""

    def command() -> int:
        os.setpgid(0, 0)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for number in (signal.SIGTERM, signal.SIGHUP):  # the parent may ignore them, as nohup does
            signal.signal(number, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_AS, (ADDRESSES, ADDRESSES))
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        for stream in (1, 2):
            os.dup2(output, stream)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        return run(job)

    pid = _forked(command)
    with contextlib.suppress(OSError):  # it may have done so itself, or be over
        os.setpgid(pid, pid)
    return pid


def command(job: Mapping[str, Any]) -> int:
    """Run command lines of ``representer`` one after the other, until one fails.

    Args:
        job: ``words``, a list of command lines; ``folder``, the current folder; ``environment``,
            variables that are set, or unset if None; ``faults``, a list of names of functions of
            `faults.inside` with their arguments, called before; ``modules``, a file for the names
            of modules that were imported; ``seconds``, a file for the processor time.
    """
    from representer.cli.main import entry_point

    known = set(sys.modules)
    os.chdir(job.get("folder", "."))
    for name, value in job.get("environment", {}).items():
        os.environ.pop(name, None)
        if value is not None:
            os.environ[name] = value
    for name, *arguments in job.get("faults", ()):
        getattr(importlib.import_module("faults.inside"), name)(*arguments)
    code = 0
    for words in job["words"]:
        code = code or entry_point(words)
    if "modules" in job:
        names = "\n".join(sorted(set(sys.modules) - known))
        Path(job["modules"]).write_text(names, encoding="utf-8")
    if "seconds" in job:
        Path(job["seconds"]).write_text(str(time.process_time()), encoding="utf-8")
    return code


if __name__ == "__main__":
    serve(command)
