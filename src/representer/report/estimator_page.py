"""The report page of a task that trains an estimator."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from representer.report import figures

if TYPE_CHECKING:
    from jinja2 import Environment


def render_estimator(
    environment: Environment,
    metrics: dict[str, Any],
    details: dict[str, Any],
    history: Sequence[dict[str, Any]],
    explained: Sequence[dict[str, Any]] = (),
) -> str:
    """Return the page: self-contained HTML without scripts and links."""
    losses = {
        label: [(row["epoch"], row[key]) for row in history if row.get(key) is not None]
        for label, key in (("training", "train_loss"), ("validation", "valid_loss"))
    }
    return environment.get_template("estimator.html").render(
        metrics=metrics,
        details=details,
        test=metrics["test"],
        is_regression=metrics["kind"] == "regression",
        explained=explained,
        curves=figures.loss_curves(losses) if history else "",
    )
