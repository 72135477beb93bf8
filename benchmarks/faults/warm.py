"""Commands in forks of one process that has imported everything, so that none pays for imports.

python warm.py      reads one request per line of standard input, as `Server` writes them
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import resource
import signal
import subprocess
import sys
import time
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from faults import patience

MEMORY, DEADLINE = 16 * 2**30, 120.0  # bytes of addresses and seconds, of a child
SIGNALS = (signal.SIGTERM, signal.SIGHUP)
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")  # a pool is not forked


class Server:
    """Starts children and waits for them.

    Args:
        command: Starts a process that calls `serve`; this module if left out.
    """

    def __init__(self, *command: str | Path) -> None:
        self._process = subprocess.Popen(
            [sys.executable, *(command or (__file__,))], stdin=subprocess.PIPE,
            stdout=subprocess.PIPE, text=True,
            env={**os.environ, **dict.fromkeys(THREADS, "1"), "PYTHONUNBUFFERED": "1"},
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
        assert code is not None, f"the process did not end within {seconds:g} seconds"
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
            answer = _forked(run, request["start"], request["log"])
            children.add(answer)
        elif "wait" in request:
            answer = _waited(request["wait"], request["seconds"])
            children.discard(request["wait"])
        else:
            for name in request["import"]:
                with contextlib.suppress(Exception):  # a part of a package may not be importable
                    importlib.import_module(name)
        print(json.dumps(answer), flush=True)
    for pid in children:
        _end(pid)


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


def _forked(run: Callable[[dict[str, Any]], int], job: dict[str, Any], log: str) -> int:
    """Fork a child for a job and return its process number."""
    pid = os.fork()
    if pid:
        with contextlib.suppress(OSError):  # it may have done so itself, or be over
            os.setpgid(pid, pid)
        return pid
    code = 70
    try:
        os.setpgid(0, 0)
        signal.signal(signal.SIGINT, signal.default_int_handler)
        for number in SIGNALS:  # the parent may ignore them, as nohup does
            signal.signal(number, signal.SIG_DFL)
        resource.setrlimit(resource.RLIMIT_AS, (MEMORY, MEMORY))
        output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        for stream in (1, 2):
            os.dup2(output, stream)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        code = run(job)
    except BaseException:
        traceback.print_exc()
    with contextlib.suppress(OSError, ValueError):
        sys.stdout.flush()
    os._exit(code)


def _waited(pid: int, seconds: float) -> int | None:
    """Return the exit code of a child, or None if it had to be killed."""
    end, pause = time.monotonic() + seconds, 0.001
    while time.monotonic() < end:
        found, status = os.waitpid(pid, os.WNOHANG)
        if found:
            return os.waitstatus_to_exitcode(status)
        time.sleep(pause)
        pause = min(0.02, 1.5 * pause)
    _end(pid)
    return None


def _end(pid: int) -> None:
    """Kill a child and the processes of its group."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pid, signal.SIGKILL)
    os.waitpid(pid, 0)


if __name__ == "__main__":
    serve(command)
