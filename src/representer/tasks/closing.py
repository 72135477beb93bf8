"""The closing lines of a run on the terminal: the table of results, and how the model compares."""

from __future__ import annotations

from typing import Any

from representer.report.standing import ACCURACY, RMSE, standing
from representer.report.targets import by_target


def verdicts(metrics: dict[str, Any], nouns: str) -> dict[str, Any]:
    """Return how the model compares with the best baseline, for metrics.json.

    Args:
        metrics: The metrics.
        nouns: Several objects: "graphs".

    Returns:
        ``standing`` of each target by its name, see `report.standing`, and all sentences as
        ``verdict``; empty without baselines.
    """
    measure = RMSE if metrics["kind"] == "regression" else ACCURACY
    found = {}
    for name, own in by_target(metrics).items():
        others = (*own["comparisons"], *own["baselines"])
        differences = {other["name"]: other["difference"] for other in others}
        on = f"{own['test']['count']} test {nouns}"
        found[name] = standing(metrics["model"], differences, measure, on)
    sentences = [
        (f"{name}: " if name else "") + own["sentence"] for name, own in found.items() if own
    ]
    return {"standing": found, "verdict": " ".join(sentences)}


def summary(metrics: dict[str, Any]) -> str:
    """Return the closing table for the terminal, of each target."""
    targets = by_target(metrics).items()
    return "\n".join((f"{name}\n" if name else "") + _summary(own) for name, own in targets)


def _summary(metrics: dict[str, Any]) -> str:
    rows = [(metrics["model"], metrics["test"], metrics["seconds"])]
    others = (*metrics["comparisons"], *metrics["baselines"])
    rows += [(row["name"], row, row["seconds"]) for row in others]
    width = max(len(name) for name, _, _ in rows)
    if metrics["kind"] == "regression":
        lines = [f"{'':<{width}}        RMSE    95 % interval             MAE      R²  training"]
        for name, row, seconds in rows:
            low, high = row["rmse_interval"]
            r2 = "–" if row["r2"] is None else f"{row['r2']:.3f}"
            lines.append(
                f"{name:<{width}}  {row['rmse']:10.4g}  {low:10.4g} – {high:<10.4g}"
                f"  {row['mae']:8.4g}  {r2:>6}  {seconds:6.1f} s"
            )
        return "\n".join(lines)
    lines = [f"{'':<{width}}  accuracy  95 % interval     macro F1  training"]
    for name, row, seconds in rows:
        low, high = (100 * bound for bound in row["accuracy_interval"])
        lines.append(
            f"{name:<{width}}  {100 * row['accuracy']:6.2f} %  {low:5.2f} – {high:6.2f} %  "
            f"{row['macro_f1']:8.3f}  {seconds:6.1f} s"
        )
    return "\n".join(lines)
