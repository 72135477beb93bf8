"""The settings that determine a run, and their comparison when it is resumed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from representer.errors import ArgumentError, KindError

_GROWS = "trainer.epochs"  # a longer run starts with the steps of a shorter one


def plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings after a JSON round trip: tuples become lists, keys become strings.

    Raises:
        KindError: A value cannot be represented in JSON.
    """
    try:
        return json.loads(json.dumps(dict(settings)))
    except (TypeError, ValueError) as error:
        raise KindError(
            "settings", f"not plain ({error})", "numbers, strings, lists, dicts"
        ) from None


def require_same(before: Mapping[str, Any], now: Mapping[str, Any], run: object) -> None:
    """Refuse to continue a run with different settings, except for more epochs.

    Args:
        before: Settings that the run was started with.
        now: Current settings.
        run: Name of the run, for the message.

    Raises:
        ArgumentError: The settings differ. The message lists each key with both values.
    """
    old, new = _dotted(before), _dotted(now)
    changed = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    epochs = old.get(_GROWS, 0), new.get(_GROWS, 0)
    if _GROWS in changed and all(type(one) is int for one in epochs) and epochs[0] < epochs[1]:
        changed.remove(_GROWS)
    if not changed:
        return
    first, *others = changed
    also = [f"{_short(name)} {old.get(name)!r} → {new.get(name)!r}" for name in others]
    raise ArgumentError(
        _short(first),
        new.get(first),
        f"{old.get(first)!r}, with which the run in {run} was started",
        hint=f"{'Also different: ' + ', '.join(also) + '. ' if also else ''}"
        "Resume with the old values, or choose another --out.",
    )


def _short(name: str) -> str:
    return name.removeprefix("trainer.")


def _dotted(settings: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    flat: dict[str, Any] = {}
    for name, value in settings.items():
        if isinstance(value, Mapping):
            flat |= _dotted(value, f"{prefix}{name}.")
        else:
            flat[f"{prefix}{name}"] = value
    return flat
