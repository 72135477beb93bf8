"""A function in a forked child: with a deadline, a limit of memory, and a list of what it touched.

The child starts in milliseconds with everything that its parent has imported. An audit hook writes
down what hostile input must never cause: a process, a connection, an unpickled class, and files
opened below folders that are not for it.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from faults import patience

MEMORY = 2**30  # of one child, beyond what its parent uses
HANG = "hang"
_CRASH = 99
_NEVER = {
    "os.system", "os.exec", "os.fork", "os.forkpty", "os.posix_spawn", "os.spawn", "os.startfile",
    "subprocess.Popen", "pickle.find_class", "socket.connect", "socket.getaddrinfo",
}  # fmt: skip
_OPENING = {"open", "os.listdir", "os.scandir"}


@dataclass(frozen=True)
class Outcome:
    """The end of a child.

    Args:
        code: Its exit code, negative for a signal, or ``"hang"``.
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


def forked(
    call: Callable[[], int],
    logs: Path,
    *,
    seconds: float,
    memory: int | None = MEMORY,
    forbidden: Sequence[Path] = (),
) -> Outcome:
    """Run a function in a forked child and return its end.

    Args:
        call: Returns the exit code.
        logs: A folder for stdout and stderr, which is not forbidden.
        seconds: The deadline, longer on a busy machine, after which the child is killed.
        memory: Bytes of address space beyond what this process has; None for no limit.
        forbidden: Folders whose files the child must not open, also not through links.
    """
    paths = [logs / name for name in ("stdout", "stderr", "touched")]
    sys.stdout.flush()
    sys.stderr.flush()
    pid = os.fork()
    if pid == 0:
        with contextlib.suppress(BaseException):
            _become(call, paths, memory, [folder.resolve() for folder in forbidden])
        os._exit(_CRASH)
    code, cpu = _waited(pid, time.monotonic() + patience(seconds))
    out, err, touched = (path.read_text("utf-8", "replace") for path in paths)
    return Outcome(code, out, err, tuple(touched.splitlines()), cpu)


def _waited(pid: int, deadline: float) -> tuple[int | str, float]:
    while time.monotonic() < deadline:
        done, status, used = os.wait4(pid, os.WNOHANG)
        if done:
            return os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime
        time.sleep(0.002)
    os.kill(pid, signal.SIGKILL)
    _, _, used = os.wait4(pid, 0)
    return HANG, used.ru_utime + used.ru_stime


def _become(
    call: Callable[[], int], paths: Sequence[Path], memory: int | None, forbidden: Sequence[Path]
) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC
    for number, path in zip((1, 2), paths, strict=False):
        os.dup2(os.open(path, flags, 0o600), number)
    _watch(os.open(paths[2], flags, 0o600), tuple(map(str, forbidden)))
    sys.stdout = os.fdopen(1, "w", encoding="utf-8", closefd=False)
    sys.stderr = os.fdopen(2, "w", encoding="utf-8", closefd=False)
    if memory is not None:
        used = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
        resource.setrlimit(resource.RLIMIT_AS, (used + memory,) * 2)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    code = call()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(code)


def _watch(file: int, forbidden: tuple[str, ...]) -> None:
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
