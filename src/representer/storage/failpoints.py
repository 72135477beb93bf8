"""Failpoints: named places where a test can make the process fail. No-ops unless armed.

``REPRESENTER_FAILPOINT=name[:ordinal]:action`` arms one place. The action happens when the place
is reached for the ordinal-th time (the first, if left out) in this process:

    kill    the process ends at once, as by SIGKILL: nothing is cleaned up
    raise   a RuntimeError
    enospc  the OSError of a full disk
    eio     the OSError of a faulty disk
"""

from __future__ import annotations

import errno
import os
import signal
from collections import Counter

VARIABLE = "REPRESENTER_FAILPOINT"

_visits: Counter[str] = Counter()


def failpoint(name: str) -> None:
    """Fail here if the environment arms this failpoint.

    Args:
        name: Name of the failpoint, for example ``"ckpt.synced"``.

    Raises:
        OSError: For the actions ``enospc`` and ``eio``.
        RuntimeError: For the action ``raise``.
    """
    armed = os.environ.get(VARIABLE)
    if armed is None:
        return
    place, *ordinal, action = armed.split(":")
    if place != name:
        return
    _visits[name] += 1
    if _visits[name] == int(ordinal[0] if ordinal else 1):
        _fail(name, action)


def reset() -> None:
    """Reset the counts of all failpoints."""
    _visits.clear()


def _fail(name: str, action: str) -> None:
    if action == "kill":
        os.kill(os.getpid(), signal.SIGKILL)
    if action in ("enospc", "eio"):
        code = getattr(errno, action.upper())
        raise OSError(code, os.strerror(code))
    raise RuntimeError(f"failpoint {name}")
