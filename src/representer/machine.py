"""The machine: devices by name, threads of the CPU, and seeds that no machine changes.

Importing needs no torch.
"""

from __future__ import annotations

import hashlib
import io
import os
import platform
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

from representer.errors import ArgumentError

if TYPE_CHECKING:
    import torch
    from threadpoolctl import ThreadpoolController

# Flags of `os.open`; Windows has no pipes to wait for, and no links without a special right.
NO_FOLLOW, NON_BLOCK, CLOSED_ON_EXEC = (
    getattr(os, name, 0) for name in ("O_NOFOLLOW", "O_NONBLOCK", "O_CLOEXEC")
)
BINARY = getattr(os, "O_BINARY", 0)  # of Windows, which else changes the ends of lines

IS_WINDOWS = sys.platform == "win32"
_RESERVED = re.compile(r"(?i)(con|prn|aux|nul|(com|lpt)[1-9¹²³]) *(\..*)?")


def windows_refuses(path: Path) -> str:
    """Return the name in a path that means another file to Windows, or nothing.

    Devices such as ``CON`` are there in every folder, and dots and blanks at an end are cut off.
    """
    names = (name for name in path.parts if name not in (path.anchor, "..")) if IS_WINDOWS else ()
    return next((n for n in names if _RESERVED.fullmatch(n) or n != n.rstrip(" .")), "")


EXPECTED = "auto, cpu, cuda, cuda:N or mps"
_NAME = re.compile(r"auto|cpu|mps|cuda(:[0-9]{1,3})?", re.ASCII)


def derive(seed: int, *names: str | int) -> int:
    """Return the seed of one use, independent of machine and version.

    The names are those of the use, for example ``"order", epoch``.
    """
    text = repr((seed, *names)).encode("utf-8")
    return int.from_bytes(hashlib.sha256(text).digest()[:8], "little") >> 1


def read_at(descriptor: int, size: int, start: int) -> bytes:
    """Return bytes of an open file from a position on, which Windows has to move to."""
    if hasattr(os, "pread"):
        return os.pread(descriptor, size, start)
    os.lseek(descriptor, start, os.SEEK_SET)
    return os.read(descriptor, size)


def write_utf8() -> None:
    """Write UTF-8 to pipes and files, as this library reads; terminals mark letters they lack.

    Windows takes another encoding there, which has few letters. A variable that is set says so.
    """
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            is_chosen = stream.isatty() or "PYTHONIOENCODING" in os.environ
            stream.reconfigure(encoding=None if is_chosen else "utf-8", errors="replace")


def is_device_name(name: object) -> bool:
    """Return True if a value names a device, present or not."""
    return isinstance(name, str) and _NAME.fullmatch(name) is not None


def require_device(name: str, processes: int = 1) -> torch.device:
    """Return the device of a name; ``auto`` is a CUDA device if there is one, else the CPU.

    Each of several training processes takes a CUDA device of its own.
    """
    import torch

    if not is_device_name(name):
        raise ArgumentError("device", name, EXPECTED)
    count = torch.cuda.device_count() if torch.cuda.is_available() else 0
    device_type, _, number = name.partition(":")
    if device_type == "auto":
        return torch.device("cuda" if count else "cpu")
    if device_type == "cuda" and int(number or 0) >= count:
        present = f"one of the {count} CUDA devices of this machine" if count else "auto or cpu"
        hint = "" if count else "This PyTorch finds no CUDA device; see representer doctor."
        raise ArgumentError("device", name, present, hint=hint)
    if device_type == "mps" and not torch.backends.mps.is_available():
        hint = "This PyTorch finds no Apple GPU."
        raise ArgumentError("device", name, "auto or cpu", hint=hint)
    if processes > 1 and (number or device_type == "mps"):
        hint = "Each process takes a CUDA device of its own."
        raise ArgumentError("device", name, "auto, cuda or cpu in several processes", hint=hint)
    return torch.device(name)


def processor() -> str:
    """Return the name of the processor, if the system provides it."""
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    names = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    return next(names, platform.processor() or platform.machine())


# Threads of the CPU: how many compute, and how they wait for each other.

# Rounds in a loop before a waiting thread of OpenMP sleeps, in place of some 10 ms. Where another
# process has the processor of the thread that is waited for, the loop only delays both.
ROUNDS = "1000"
# Entries of a matrix below which a second thread costs more than it saves: one factorizes 540 x 540
# in about half the time of two, and waits far less where other programs use the processors.
SMALL = 1 << 22


def wait_asleep() -> None:
    """Let threads of OpenMP sleep while they wait; without effect once torch is imported.

    Variables that the user has set keep their values.
    """
    if "OMP_WAIT_POLICY" not in os.environ:
        os.environ.setdefault("GOMP_SPINCOUNT", ROUNDS)


def busy_note() -> str:
    """Return advice for a machine whose processors other programs use; else nothing.

    BLAS waits in loops for its threads, which takes many times as long where others run.
    """
    load, processors = os.getloadavg()[0] if hasattr(os, "getloadavg") else 0, os.cpu_count() or 1
    if processors == 1 or load < processors / 2:
        return ""
    return (
        f"other programs keep the processors busy (load {load:.1f} on {processors}); --threads 1 "
        "may take a fraction of the time"
    )


def threads_for(entries: int) -> int | None:
    """Return the number of threads for algebra with matrices of so many entries; None: all."""
    return 1 if entries < SMALL else None


@contextmanager
def limited(threads: int | None) -> Iterator[None]:
    """Compute on this many threads within a block: torch, the core, and BLAS of numpy and scipy.

    None leaves all as they are.
    """
    if threads is None:
        yield
        return
    import torch

    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        with _libraries(len(sys.modules)).limit(limits=threads, user_api="blas"):
            yield
    finally:
        torch.set_num_threads(before)


@lru_cache(maxsize=1)
def _libraries(modules: int) -> ThreadpoolController:
    """Return the libraries of this process, found again once more modules are imported."""
    from threadpoolctl import ThreadpoolController

    return ThreadpoolController()
