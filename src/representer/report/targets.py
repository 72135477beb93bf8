"""The metrics of a run with several targets, target by target."""

from __future__ import annotations

from typing import Any


def by_target(metrics: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return metrics.json as those of runs with one target each, by the name of the target.

    A run whose target has no name is returned as it is, under an empty name. There are none without
    a test.
    """
    if metrics["test"] is None:
        return {}
    if not metrics["targets"]:
        return {"": metrics}
    return {
        name: metrics
        | {"test": figures}
        | {kind: [_of(row, name) for row in metrics[kind]] for kind in ("comparisons", "baselines")}
        for name, figures in metrics["test"].items()
    }


def _of(row: dict[str, Any], name: str) -> dict[str, Any]:
    return row | row["test"][name] | {"difference": row["difference"][name]}
