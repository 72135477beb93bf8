"""The error layer: every failure becomes one line on stderr and an exit code.

0 done, 2 usage or bad input, 70 an internal error or a training that cannot continue, 73 a run
folder that is locked or cannot be written, 74 other input and output errors, 130 and 143 signals.
"""

from __future__ import annotations

import difflib
import errno
import os
import re
import sys
import traceback
from collections.abc import Callable, Mapping, Sequence

from representer.errors import Interrupted, RepresenterError, one_line
from representer.training.interruption import Stopped

# how torch says it; its errors of memory are RuntimeErrors, and torch is not imported here
_OUT_OF_MEMORY = (
    "can't allocate memory", "Storage size calculation overflowed", "CUDA out of memory",
)  # fmt: skip
_OF_OTHERS = re.compile(r"/gloo/transport/|NCCL error|ProcessGroupNCCL")
LONGEST_LINE = 2000  # characters of an error; quoted values may have millions
BUG, NO_WRITE, IO, CLOSED_PIPE = 70, 73, 74, 141


class UsageError(RepresenterError):
    """The command line itself is wrong."""


SYNONYMS = {
    "learning-rate": ("lr",), "batch": ("batch-size",), "max-epochs": ("epochs",),
    "num-epochs": ("epochs",), "n-epochs": ("epochs",), "output": ("out", "output"),
    "output-dir": ("out",), "save": ("out",), "model": ("cell", "network"), "rnn": ("cell",),
    "hidden": ("hidden-size",), "units": ("hidden-size",), "layers": ("num-layers",),
    "embeddings": ("vectors",), "target": ("label", "target"), "label": ("target", "label"),
    "column": ("text", "smiles"), "y": ("label", "target"), "val": ("valid",),
    "validation": ("valid",), "gpu": ("device",), "ngram": ("filter-length",),
    "train": ("fit",), "test": ("evaluate",), "run": ("fit",), "score": ("evaluate",),
    "inference": ("predict",), "classify": ("predict",), "why": ("explain",),
}  # fmt: skip


def did_you_mean(word: str, known: Sequence[str]) -> str:
    """Return ``"Did you mean ...? "`` for a known word of the same meaning or letters, if any."""
    dashes = word[: len(word) - len(word.lstrip("-"))]
    close = [dashes + synonym for synonym in SYNONYMS.get(word.lstrip("-").replace("_", "-"), ())
             if dashes + synonym in known]  # fmt: skip
    close = close or difflib.get_close_matches(word, known, n=1, cutoff=0.7)
    return f"Did you mean {close[0]!r}? " if close else ""


def in_option_words(message: str, shown: Mapping[str, str]) -> str:
    """Replace argument names of the library such as ``batch_size`` by options, ``--batch-size``."""

    def option(found: re.Match[str]) -> str:
        name = found[1]
        return (
            found[0].replace(name, shown[name]).replace("= ", " ").replace("=", " ")
            if name in shown
            else found[0]
        )

    if "out" not in shown:  # the storage layer does not know the command
        instead = "--output" if "output" in shown else "RUN, such as a copy"
        message = re.sub(r"(?<=hoose )(another|a shorter) --out\b", rf"\1 {instead}", message)
    message = re.sub(r"^(\w+) is ", option, message)
    message = re.sub(r"\b(\w+)= ?(?=\S)", option, message)
    return re.sub(r"(?<!['\"\w-])([a-z]+_\w+)\b(?!['\"])", option, message)


def guarded(work: Callable[[], int], *, is_debug: bool) -> int:
    """Run a function; turn any error into one line and an exit code."""
    try:
        code = work()
        sys.stdout.flush()  # raises for a full disk or a closed pipe now, not at interpreter exit
        return code
    except BrokenPipeError:
        _silence_stdout()
        return CLOSED_PIPE
    except BaseException as error:  # including KeyboardInterrupt: this is the outermost frame
        if is_debug:
            traceback.print_exc()
        line, code = describe(error)
        if code is None:
            raise
        _silence_stdout_if_full(error)
        print(_shortened(one_line(line)), file=sys.stderr)
        return code


def describe(error: BaseException) -> tuple[str, int | None]:
    """Return the line to print for an error and the exit code; None reraises the error."""
    if isinstance(error, Interrupted):
        return f"stopped: {error}", error.exit_code
    if isinstance(error, RepresenterError):
        return f"error: {error}", error.exit_code
    if isinstance(error, Stopped):
        return f"stopped: {error}", error.exit_code
    if isinstance(error, KeyboardInterrupt):
        return "interrupted", 130
    if isinstance(error, SystemExit):
        return "", None
    if isinstance(error, OSError) and error.errno is not None:
        return _describe_os_error(error)
    if isinstance(error, MemoryError) or any(words in str(error) for words in _OUT_OF_MEMORY):
        return "error: out of memory. Lower --batch-size, --max-length or --hidden-size.", BUG
    if isinstance(error, RuntimeError) and _OF_OTHERS.search(str(error)):
        cause = "another process of the training ended or does not answer; see its own error"
        return f"error: {cause}. Continue with --resume.", BUG
    name = type(error).__name__
    return f"error: internal: {name}: {error} (a bug; --debug shows where)", BUG


def _shortened(line: str) -> str:
    """Return a line without the middle of a very long value; the fix is at the end."""
    half = LONGEST_LINE // 2
    return line if len(line) <= LONGEST_LINE else f"{line[:half]}...{line[-half:]}"


def _describe_os_error(error: OSError) -> tuple[str, int]:
    file = f"{error.filename}: " if error.filename else ""
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        return f"error: {file}the disk is full. Free some space, or write elsewhere.", 2
    if error.errno == errno.ENOENT:
        return f"error: {file}there is no such file. Check the path.", 2
    if error.errno == errno.ENAMETOOLONG:
        return f"error: {file}the path is too long. Shorten it.", 2
    if error.errno == errno.EISDIR:
        return f"error: {file}is a directory; expected a file.", 2
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"error: {file}no permission. Check the owner and mode of the path.", NO_WRITE
    return f"error: {file}{error.strerror or error}.", IO


def _silence_stdout_if_full(error: BaseException) -> None:
    if isinstance(error, OSError) and error.errno == errno.ENOSPC:
        _silence_stdout()


def _silence_stdout() -> None:
    """Point stdout at nothing, so that the interpreter's final flush cannot fail."""
    try:
        descriptor = sys.stdout.fileno()
    except (AttributeError, OSError, ValueError):
        return  # captured: there is no file behind it
    with open(os.devnull, "w", encoding="utf-8") as nowhere:  # noqa: PTH123  (a device, not a path)
        os.dup2(nowhere.fileno(), descriptor)
