"""The settings that determine a run, and their comparison when it is resumed."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from representer.errors import ArgumentError, KindError

_GROWS = "trainer.epochs"  # the steps of a longer run begin with those of the shorter one


def plain(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Return settings as JSON would give them back: tuples as lists, keys as text.

    Raises:
        KindError: A value cannot be represented in JSON.
    """
    try:
        return json.loads(json.dumps(dict(settings)))
    except (TypeError, ValueError) as error:
        raise KindError(
            "settings", f"not plain ({error})", "numbers, texts, lists, dicts"
        ) from None


def require_same(before: Mapping[str, Any], now: Mapping[str, Any], run: object) -> None:
    """Refuse to continue a run with other settings; more epochs are fine.

    Args:
        before: Those the run was started with.
        now: Those of this process.
        run: The name of the run for the message.

    Raises:
        ArgumentError: They differ; it names every key with both values.
    """
    old, new = _dotted(before), _dotted(now)
    changed = [name for name in {**old, **new} if old.get(name) != new.get(name)]
    if _GROWS in changed and old.get(_GROWS, 0) < new.get(_GROWS, 0):
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
